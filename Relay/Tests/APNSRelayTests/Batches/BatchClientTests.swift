import APNSModel
import Foundation
import PushQueue
import Synchronization
import Testing

@testable import APNSRelay

/// `apns-relay submit`.
final class BatchClientTests {
    private let folder = FileManager.default.temporaryDirectory.appending(path: "batch-\(UUID())")

    deinit { try? FileManager.default.removeItem(at: self.folder) }

    /// Writes two files into a folder of their own.
    private func files(_ batch: String, _ devices: String) throws -> (batch: String, devices: String) {
        let folder = self.folder.appending(path: UUID().uuidString)
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
        let paths = try self.files(Self.batch, devices)
        let file = try BatchFile(batch: paths.batch, devices: paths.devices)
        #expect(file.count == 5)
        try await RelayServer.run { server in
            let client = try BatchClient(url: "http://127.0.0.1:\(server.port)/", token: "shop-token")
            let first = try await client.submit(file, isPartial: false) { _ in }
            let batch = first.batch
            #expect(!first.duplicate && batch.name == "batch.json")
            #expect(batch.invalid == 0 && batch.queued == 5 && !batch.isOver)
            let pushes = server.queue.state.withLock { $0.pushes }
            #expect(pushes.map(\.token.hexadecimal) == ["abcd", "ef01", "aa", "bb", "cc"])
            let again = try await client.submit(
                try BatchFile(batch: paths.batch, devices: paths.devices),
                isPartial: true
            ) {
                _ in
            }
            #expect(again.duplicate && again.batch.id == batch.id && again.batch.queued == 5)
            #expect(again.batch.createdAt == RelayServer.start.seconds)
            for push in pushes { try await server.queue.settle(push.id, .accepted(Receipt(apnsID: push.id))) }
            let reports = Mutex(0)
            let end = try await client.follow(batch.id) { _ in reports.withLock { $0 += 1 } }
            #expect(end.isOver && end.outcomes.accepted == 5 && reports.withLock { $0 } == 1)
        }
    }

    @Test("Dead device tokens alone are nothing that an operator must look at")
    func concerns() async throws {
        let paths = try self.files(Self.batch, "aa\nbb\ncc\ndd\nee\nff")
        let file = try BatchFile(batch: paths.batch, devices: paths.devices)
        try await RelayServer.run { server in
            let client = try BatchClient(url: "http://127.0.0.1:\(server.port)", token: "shop-token")
            let id = try await client.submit(file, isPartial: false) { _ in }.batch.id
            let pushes = server.queue.state.withLock { $0.pushes.map(\.id) }
            let gone = Rejection(status: 410, reason: .unregistered, timestamp: 1_700_000_000_000)
            try await server.queue.settle(pushes[0], .accepted(Receipt(apnsID: pushes[0])))
            try await server.queue.settle(pushes[1], .failed(.rejected(gone, attempts: 1)))
            #expect(try await server.queue.base.cancel(pushes[5]) == .cancelled)
            try await server.queue.park(pushes[4])
            let large = Rejection(status: 413, reason: .payloadTooLarge)
            try await server.queue.settle(pushes[3], .failed(.rejected(large, attempts: 1)))
            try await server.queue.settle(pushes[2], .accepted(Receipt(apnsID: pushes[2])))
            var end = try await client.follow(id) { _ in }
            #expect(
                end.concerns == [
                    "1 parked: retry or drop them", "1 rejected, and not because of a dead token", "1 not sent",
                ]
            )
            (end.parked, end.outcomes.rejected, end.outcomes.notSent) = (0, 1, 0)
            #expect(end.deadTokens == 1 && end.concerns.isEmpty)
        }
    }

    @Test("An invalid device ends the command with its line, and is left out with --partial")
    func invalidDevice() async throws {
        let paths = try self.files(Self.batch, "abcd\nxyz\nef\n")
        let file = try BatchFile(batch: paths.batch, devices: paths.devices)
        try await RelayServer.run { server in
            let client = try BatchClient(url: "http://127.0.0.1:\(server.port)", token: "shop-token")
            let failure = await #expect(throws: BatchClient.Failure.self) {
                try await client.submit(file, isPartial: false) { _ in }
            }
            #expect(failure?.description.hasPrefix("line 3, token: ") == true, "\(failure?.description ?? "")")
            let batch = try await client.submit(file, isPartial: true) { _ in }.batch
            #expect(batch.queued == 2 && batch.invalid == 1)
        }
    }

    @Test("Files that are not a batch are errors that name them")
    func files() throws {
        for (batch, devices) in [("[]", "ab"), ("{", "ab"), (Self.batch, " \n\n")] {
            let paths = try self.files(batch, devices)
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
        let paths = try self.files(#"{"idempotencyKey":"mine"}"#, "ab")
        let file = try BatchFile(batch: paths.batch, devices: paths.devices)
        #expect(String(decoding: file.object, as: UTF8.self) == #"{"idempotencyKey":"mine"}"#)
        let other = try BatchFile(batch: try self.files("{}", "ab").batch, devices: paths.devices)
        #expect(String(decoding: other.object, as: UTF8.self).hasPrefix(#"{"idempotencyKey":""#))
    }
}
