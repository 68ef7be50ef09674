import APNSModel
import Foundation
import PushQueue
import Synchronization
import Testing

@testable import APNSRelay

/// `apns-relay submit`.
struct BatchClientTests {
    private static func files(_ batch: String, _ devices: String) throws -> (batch: String, devices: String) {
        let folder = FileManager.default.temporaryDirectory.appending(path: "batch-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let (first, second) = (folder.appending(path: "batch.json"), folder.appending(path: "devices"))
        try Data(batch.utf8).write(to: first)
        try Data(devices.utf8).write(to: second)
        return (first.path, second.path)
    }

    private static let batch = """
        {
          "app": "fern", "headers": {"apns-push-type": "alert"},
          "payload": {"aps": {"alert": "Hi {{name}}"}}, "values": {"name": "you"}
        }
        """

    @Test("A batch in two files is submitted, and the command can be repeated")
    func submits() async throws {
        let devices = "abcd\n\n  ef01 \r\n{\"token\":\"aa\",\"values\":{\"name\":\"Ann\"}}\n\"bb\"\ncc"
        let paths = try Self.files(Self.batch, devices)
        let file = try BatchFile(batch: paths.batch, devices: paths.devices)
        #expect(file.count == 5)
        try await RelayServer.run { server in
            let client = try BatchClient(url: "http://127.0.0.1:\(server.port)/", token: "shop-token")
            let batch = try await client.submit(file, isPartial: false) { _ in }
            #expect(batch.invalid == 0 && batch.queued == 5 && !batch.isOver)
            let pushes = server.queue.state.withLock { $0.pushes }
            #expect(pushes.map(\.token.hexadecimal) == ["abcd", "ef01", "aa", "bb", "cc"])
            let again = try await client.submit(
                try BatchFile(batch: paths.batch, devices: paths.devices),
                isPartial: true
            ) {
                _ in
            }
            #expect(again.id == batch.id && again.queued == 5)
            for push in pushes { try await server.queue.settle(push.id, .accepted(Receipt(apnsID: push.id))) }
            let reports = Mutex(0)
            let end = try await client.follow(batch.id) { _ in reports.withLock { $0 += 1 } }
            #expect(end.isOver && end.outcomes.accepted == 5 && reports.withLock { $0 } == 1)
        }
    }

    @Test("An invalid device ends the command with its line, and is left out with --partial")
    func invalidDevice() async throws {
        let paths = try Self.files(Self.batch, "abcd\nxyz\nef\n")
        let file = try BatchFile(batch: paths.batch, devices: paths.devices)
        try await RelayServer.run { server in
            let client = try BatchClient(url: "http://127.0.0.1:\(server.port)", token: "shop-token")
            let failure = await #expect(throws: BatchClient.Failure.self) {
                try await client.submit(file, isPartial: false) { _ in }
            }
            #expect(failure?.description.hasPrefix("line 3, token: ") == true, "\(failure?.description ?? "")")
            let batch = try await client.submit(file, isPartial: true) { _ in }
            #expect(batch.queued == 2 && batch.invalid == 1)
        }
    }

    @Test("Files that are not a batch are errors that name them")
    func files() throws {
        for (batch, devices) in [("[]", "ab"), ("{", "ab"), (Self.batch, " \n\n")] {
            let paths = try Self.files(batch, devices)
            let error = #expect(throws: BatchFileError.self) {
                try BatchFile(batch: paths.batch, devices: paths.devices)
            }
            #expect(error?.description.contains("/batch-") == true)
        }
        #expect(throws: BatchFileError.self) { try BatchFile(batch: "/nowhere", devices: "/nowhere") }
        #expect(throws: BatchClient.Failure.self) { try BatchClient(url: "ftp://x", token: nil) }
    }

    @Test("A batch keeps its own idempotency key")
    func key() throws {
        let paths = try Self.files(#"{"idempotencyKey":"mine"}"#, "ab")
        let file = try BatchFile(batch: paths.batch, devices: paths.devices)
        #expect(String(decoding: file.object, as: UTF8.self) == #"{"idempotencyKey":"mine"}"#)
        let other = try BatchFile(batch: try Self.files("{}", "ab").batch, devices: paths.devices)
        #expect(String(decoding: other.object, as: UTF8.self).hasPrefix(#"{"idempotencyKey":""#))
    }
}
