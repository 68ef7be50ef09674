import Foundation
import Logging
import PushQueue
import Testing

@testable import APNSRelay

/// A relay remembers the progress of its queue without destroying another file.
struct ProgressFileTests {
    private let folder: URL
    private let storage: StorageSettings
    private let progress = QueueProgress(queue: 1, history: 2, epoch: 3, position: 4)

    init() throws {
        self.folder = FileManager.default.temporaryDirectory.appendingPathComponent("progress-\(UUID())")
        try FileManager.default.createDirectory(at: self.folder, withIntermediateDirectories: true)
        var storage = StorageSettings()
        storage.file = self.folder.path + "/queue.sqlite"
        self.storage = storage
    }

    private func path(_ name: String) -> String { self.folder.path + "/" + name }

    private func contents(_ name: String) throws -> String {
        try String(contentsOfFile: self.path(name), encoding: .utf8)
    }

    private func remove() throws { try FileManager.default.removeItem(at: self.folder) }

    @Test("The queue's own files are refused before there is a queue, by any path")
    func ownFiles() async throws {
        for suffix in ["", "-wal", "-shm", ".lock", ".new"] {
            for prefix in ["", "./"] {
                var storage = self.storage
                storage.progressFile = self.path(prefix + "queue.sqlite" + suffix)
                let error = await #expect(throws: QueueError.self) {
                    _ = try await storage.open(logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
                }
                #expect(error?.code == .unusable && error?.message.contains("of the queue itself") == true)
                #expect(try FileManager.default.contentsOfDirectory(atPath: self.folder.path).isEmpty)
            }
        }
        try self.remove()
    }

    @Test("A file with other contents, a pipe and a folder are named, and stay")
    func foreign() throws {
        try "my notes".write(toFile: self.path("notes"), atomically: true, encoding: .utf8)
        #expect(mkfifo(self.path("pipe"), 0o600) == 0)
        for (path, word) in [("notes", "not the progress of a queue"), ("pipe", "a pipe"), ("", "a folder")] {
            let file = ProgressFile(path: self.path(path))
            let error = #expect(throws: QueueError.self) { _ = try file.read() }
            #expect(error?.code == .unusable && error?.message.contains(word) == true, "\(error?.message ?? "")")
            #expect(throws: QueueError.self) { try file.write(self.progress) }
        }
        #expect(try self.contents("notes") == "my notes")
        try self.remove()
    }

    @Test("A symbolic link is followed, and stays")
    func link() throws {
        try FileManager.default.createSymbolicLink(atPath: self.path("link"), withDestinationPath: "target")
        let file = ProgressFile(path: self.path("link"))
        #expect(try file.read() == nil)
        try file.write(self.progress)
        #expect(try file.read() == self.progress)
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: self.path("link")) == "target")
        #expect(try ProgressFile(path: self.path("target")).read() == self.progress)
        try self.remove()
    }
}
