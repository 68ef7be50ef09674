import APNSModel
import Foundation
import PushQueue
import PushQueueConformance
import RelayTestSupport
import Synchronization
import Testing

@testable import APNSRelay

/// The program `apns-relay submit`: its words and its exit status.
struct SubmitCommandTests {
    private struct End: Sendable {
        var status: Int32
        /// Standard error.
        var report: String
    }

    private static func submit(_ server: RelayServer, _ files: URL, _ more: [String] = []) async throws -> End {
        let port = server.port
        return try await DispatchQueue.global().perform {
            let process = Process()
            process.executableURL = RelayUnderTest.products.appending(path: "apns-relay")
            process.arguments =
                ["submit", files.appending(path: "batch.json").path, files.appending(path: "devices").path]
                + ["--url", "http://127.0.0.1:\(port)", "--token-file", files.appending(path: "token").path] + more
            let output = Pipe.make()
            process.standardError = output
            process.standardOutput = FileHandle.nullDevice
            try process.start()
            let report = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
            process.waitUntilExit()
            return End(status: process.terminationStatus, report: report)
        }
    }

    @Test(
        "Files that are submitted again send nothing and say what became of them; 1 is for what an operator must look at",
        arguments: [(410, RejectionReason.unregistered, Int32(0)), (413, .payloadTooLarge, 1)]
    )
    func again(_ code: Int, _ reason: RejectionReason, _ status: Int32) async throws {
        let files = FileManager.default.temporaryDirectory.appending(path: "submit-\(UUID())")
        try FileManager.default.createDirectory(at: files, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: files) }
        for (name, text) in [
            ("batch.json", #"{"app":"fern","headers":{"apns-push-type":"alert"},"payload":{"aps":{"alert":"Hi"}}}"#),
            ("devices", "aa\nbb\n"), ("token", "shop-token\n"),
        ] { try Data(text.utf8).write(to: files.appending(path: name)) }
        try await RelayServer.run { server in
            let first = try await Self.submit(server, files, ["--no-wait"])
            #expect(first.status == 0 && !first.report.contains("already submitted"), "\(first.report)")
            let ids = server.queue.state.withLock { $0.pushes.map(\.id) }
            try await server.queue.settle(ids[0], .accepted(Receipt(apnsID: ids[0])))
            let rejection = Rejection(status: code, reason: reason, timestamp: code == 410 ? 1_700_000_000_000 : nil)
            try await server.queue.settle(ids[1], .failed(.rejected(rejection, attempts: 1)))
            let again = try await Self.submit(server, files)
            #expect(again.status == status, "\(again.report)")
            #expect(again.report.contains("already submitted at "), "\(again.report)")
            #expect(again.report.contains("; nothing was sent. It is finished: 1 accepted"))
            #expect(again.report.contains("to look at: 1 rejected") == (status == 1))
            #expect(server.queue.state.withLock { $0.pushes.count } == 2)
        }
    }
}
