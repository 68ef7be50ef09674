import Crypto
import Foundation
import Logging
import PushQueue
import PushQueueConformance
import RelayTestSupport
import SQLitePushQueue
import Testing

@testable import APNSRelay

/// What the program `apns-relay doctor` says about a file.
struct DoctorCommandTests {
    private let folder: URL
    private var file: String { self.folder.appending(path: "queue.sqlite").path }

    init() throws {
        self.folder = FileManager.default.temporaryDirectory.appending(path: "doctor-\(UUID())")
        try FileManager.default.createDirectory(at: self.folder, withIntermediateDirectories: true)
        try Data(P256.Signing.PrivateKey().pemRepresentation.utf8).write(to: self.folder.appending(path: self.key))
    }

    private let key = "AuthKey_ABCDE12345.p8"

    /// The program cannot reach APNs, and says so on other lines.
    private func doctor() async throws -> String {
        let settings = [
            "APPS": "fern", "APP_FERN_TOPIC": "com.grasscove.Fern", "APP_FERN_ENVIRONMENTS": "production",
            "APP_FERN_KEY_FILE": self.folder.appending(path: self.key).path, "APP_FERN_TEAM_ID": "TEAM123456",
            "SERVER_PRODUCTION": "localhost:9", "STORAGE_FILE": self.file,
        ]
        let environment = Dictionary(uniqueKeysWithValues: settings.map { ("APNS_RELAY_\($0)", $1) })
        return try await DispatchQueue.global().perform {
            let process = Process()
            process.executableURL = RelayUnderTest.products.appending(path: "apns-relay")
            process.arguments = ["doctor"]
            process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
            let output = Pipe.make()
            process.standardOutput = output
            try process.start()
            let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
            process.waitUntilExit()
            return text
        }
    }

    private func openQueue() async throws -> SQLitePushQueue {
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        return try await SQLitePushQueue.open(file: self.file, options: SQLitePushQueue.Options(), logger: logger)
    }

    @Test("Before the first start, doctor says that the relay creates the file, and does not create it")
    func beforeTheFirstStart() async throws {
        let text = try await self.doctor()
        #expect(text.contains("does not exist yet; the relay will create it"), "\(text)")
        #expect(!FileManager.default.fileExists(atPath: self.file))
        try FileManager.default.removeItem(at: self.folder)
    }

    @Test("After a restore, doctor says that pushes were parked")
    func restored() async throws {
        await (try await self.openQueue()).close()
        let copy = try Data(contentsOf: URL(fileURLWithPath: self.file))
        let queue = try await self.openQueue()
        try ProgressFile(path: "\(self.file).progress").write(try #require(queue.progress))
        await queue.close()
        let before = try await self.doctor()
        #expect(before.contains("intact; 0 queued, 0 parked pushes") && !before.contains("restored"), "\(before)")
        try copy.write(to: URL(fileURLWithPath: self.file))
        for suffix in ["-wal", "-shm"] { try? FileManager.default.removeItem(atPath: self.file + suffix) }
        let after = try await self.doctor()
        #expect(after.contains("a backup was restored: 0 pushes were parked"), "\(after)")
        try FileManager.default.removeItem(at: self.folder)
    }
}
