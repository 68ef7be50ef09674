import APNSModel
import Foundation
import GRDB
import PushQueue
import PushQueueConformance
import Testing

@testable import SQLitePushQueue

/// Which files are opened, and what is said about the others.
@Suite struct FileTests {
    @Test("A new file and its log can be read only by their owner")
    func permissions() async throws {
        let fixture = try SQLiteFixture()
        let queue = try await fixture.openQueue()
        for suffix in ["", "-wal", "-shm", ".lock"] {
            let attributes = try FileManager.default.attributesOfItem(atPath: fixture.file + suffix)
            let permissions = try #require(attributes[.posixPermissions] as? NSNumber)
            #expect(permissions.intValue & 0o777 == 0o600, "FILE\(suffix)")
        }
        await queue.close()
    }

    @Test("The sizes of the files are known, and the log grows while another program keeps a snapshot")
    func sizes() async throws {
        let fixture = try SQLiteFixture()
        let queue = try await fixture.openQueue()
        let before = try await queue.fileState()
        #expect(before.disk.free > 0 && before.disk.size >= before.disk.free)
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let reader = try DatabaseQueue(path: fixture.file, configuration: configuration)
        try reader.inDatabase { try $0.execute(sql: "BEGIN; SELECT count(*) FROM value") }
        for number in 0..<20 {
            try await queue.setValue(Array(repeating: UInt8(number), count: 1 << 20), forKey: "x")
        }
        let after = try await queue.fileState()
        #expect(after.logBytes >= 20 << 20)
        #expect(after.databaseBytes < 20 << 20)
        try reader.inDatabase { try $0.execute(sql: "COMMIT") }
        try reader.close()
        await queue.close()
    }

    @Test("A file has its write-ahead log's format before it has its name, so that no crash leaves a journal beside it")
    func format() throws {
        let fixture = try SQLiteFixture()
        let file = QueueFile(path: fixture.file, busyTimeout: .seconds(1), maxPageCount: nil, failure: nil)
        try file.createIfMissing()
        let header = try Data(contentsOf: URL(fileURLWithPath: fixture.file))
        #expect(header[18] == 2 && header[19] == 2)
        #expect(try FileManager.default.contentsOfDirectory(atPath: fixture.directory.path).count == 1)
    }

    @Test("A file that is in use is not opened a second time, and can be opened after it is closed")
    func secondProcess() async throws {
        let fixture = try SQLiteFixture()
        let queue = try await fixture.openQueue()
        let error = try #require(await failure { try await fixture.openQueue() })
        #expect(error.code == .inUse)
        #expect(error.message.contains(fixture.file) && error.message.contains("another apns-relay"))
        let link = fixture.directory.appending(path: "link.sqlite").path
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: fixture.file)
        let linked = await failure {
            try await SQLitePushQueue.open(file: link, logger: .quiet)
        }
        #expect(linked?.code == .inUse)
        _ = try await queue.enqueue(fixture.pushes(3), isPartial: false)
        await queue.close()
        let again = try await fixture.openQueue()
        let counts = try await again.counts()
        #expect(counts.queued == 3)
        await again.close()
    }

    @Test("A file whose lock file was deleted is still not opened a second time")
    func lockFileDeleted() async throws {
        let fixture = try SQLiteFixture()
        let queue = try await fixture.openQueue()
        try FileManager.default.removeItem(atPath: fixture.file + ".lock")
        let error = await failure { try await fixture.openQueue() }
        #expect(error?.code == .inUse)
        await queue.close()
        try await fixture.openQueue().close()
    }

    @Test("A file that is in use is not opened by another name of it, and one with two names is never opened")
    func hardLink() async throws {
        let fixture = try SQLiteFixture()
        let queue = try await fixture.openQueue()
        let link = fixture.directory.appending(path: "link.sqlite").path
        try FileManager.default.linkItem(atPath: fixture.file, toPath: link)
        let error = await failure { try await SQLitePushQueue.open(file: link, logger: .quiet) }
        #expect(error?.code == .inUse)
        await queue.close()
        for file in [fixture.file, link] {
            let error = await failure { try await SQLitePushQueue.open(file: file, logger: .quiet) }
            #expect(error?.code == .unusable && error?.message.contains("2 names") == true)
        }
        try FileManager.default.removeItem(atPath: link)
        try await fixture.openQueue().close()
    }

    @Test("A file that another process holds is not opened")
    func otherProcess() async throws {
        let fixture = try SQLiteFixture()
        try await fixture.openQueue().close()
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        // Says when it has the lock, and keeps it until its input ends.
        process.arguments = ["flock", "--nonblock", fixture.file + ".lock", "sh", "-c", "echo locked; cat"]
        let (input, output) = (Pipe.make(), Pipe.make())
        process.standardInput = input
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        try process.start()
        let said = output.fileHandleForReading.availableData
        // Not every system has the tool `flock`.
        if !said.isEmpty {
            let error = await failure { try await fixture.openQueue() }
            #expect(error?.code == .inUse)
        }
        try input.fileHandleForWriting.close()
        process.waitUntilExit()
        try await fixture.openQueue().close()
    }

    @Test("A database of another program is not touched")
    func foreign() async throws {
        let fixture = try SQLiteFixture()
        try fixture.edit("CREATE TABLE theirs (a); INSERT INTO theirs VALUES (1)")
        let before = try Data(contentsOf: URL(fileURLWithPath: fixture.file))
        let error = try #require(await failure { try await fixture.openQueue() })
        #expect(error.code == .unusable && error.message.contains("another program"))
        #expect(try Data(contentsOf: URL(fileURLWithPath: fixture.file)) == before)
        #expect(!FileManager.default.fileExists(atPath: fixture.file + "-wal"))
    }

    @Test("A file of a newer version is not touched, even if only its log says so")
    func newerVersion() async throws {
        let fixture = try SQLiteFixture()
        try await fixture.openQueue().close()
        let other = try fixture.otherConnection()
        // The connection stays open, so the new version stays in the log.
        try await other.writeWithoutTransaction { try $0.execute(sql: "PRAGMA user_version = 5") }
        let before = try Data(contentsOf: URL(fileURLWithPath: fixture.file))
        #expect(before[63] == 1, "the version in the header of the file")
        let error = try #require(await failure { try await fixture.openQueue() })
        #expect(error.code == .unusable && error.message.contains("version 5"))
        #expect(try Data(contentsOf: URL(fileURLWithPath: fixture.file)) == before)
        try other.close()
    }

    @Test("Files that are no databases, and missing or empty ones that have a log, are not touched")
    func noDatabase() async throws {
        for content in [Data(), Data("hello".utf8), Data(count: 4_096), Data("SQLite format 3\0".utf8)] {
            let fixture = try SQLiteFixture()
            try content.write(to: URL(fileURLWithPath: fixture.file))
            let error = await failure { try await fixture.openQueue() }
            #expect(error?.code == .unusable)
            #expect(try Data(contentsOf: URL(fileURLWithPath: fixture.file)) == content)
        }
        let fixture = try SQLiteFixture()
        try Data(count: 100).write(to: URL(fileURLWithPath: fixture.file + "-wal"))
        let error = await failure { try await fixture.openQueue() }
        #expect(error?.code == .unusable)
        #expect(FileManager.default.fileExists(atPath: fixture.file + "-wal"))
    }

    @Test("A file in a directory that does not exist is unavailable, and a directory is unusable")
    func noDirectory() async throws {
        let fixture = try SQLiteFixture()
        let directory = fixture.directory.appending(path: "directory")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: false)
        for path in ["nowhere/queue.sqlite", "directory"] {
            let file = fixture.directory.appending(path: path).path
            let error = await failure {
                try await SQLitePushQueue.open(file: file, logger: .quiet)
            }
            #expect(error?.code == (path == "directory" ? .unusable : .unavailable), "\(file)")
        }
    }

    @Test("A pipe is refused without a lock file beside it, and a foreign file in the place of a draft stays")
    func foreignKinds() async throws {
        let fixture = try SQLiteFixture()
        #expect(mkfifo(fixture.file, 0o600) == 0)
        await #expect(throws: QueueError.self) { _ = try await fixture.openQueue() }
        #expect(!FileManager.default.fileExists(atPath: fixture.file + ".lock"))
        try FileManager.default.removeItem(atPath: fixture.file)
        try "my notes".write(toFile: fixture.file + ".new", atomically: true, encoding: .utf8)
        let error = await #expect(throws: QueueError.self) { _ = try await fixture.openQueue() }
        #expect(error?.code == .unusable && error?.message.contains(".new") == true)
        #expect(try String(contentsOfFile: fixture.file + ".new", encoding: .utf8) == "my notes")
        #expect(!FileManager.default.fileExists(atPath: fixture.file))
    }

    @Test("A file that a crash has left half created is created again")
    func halfCreated() async throws {
        let fixture = try SQLiteFixture()
        await (try fixture.openQueue()).close()
        // The first page, which has the application's id.
        let half = try Data(contentsOf: URL(fileURLWithPath: fixture.file)).prefix(4096)
        try FileManager.default.removeItem(atPath: fixture.file)
        try half.write(to: URL(fileURLWithPath: fixture.file + ".new"))
        try Data("journal".utf8).write(to: URL(fileURLWithPath: fixture.file + ".new-journal"))
        let queue = try await fixture.openQueue()
        #expect(!FileManager.default.fileExists(atPath: fixture.file + ".new"))
        await queue.close()
    }

    @Test("Opening reports what became of the claims of the process before")
    func report() async throws {
        let fixture = try SQLiteFixture()
        let queue = try await fixture.openQueue()
        var pushes = try fixture.pushes(5)
        pushes[0].resendsUnknown = true
        _ = try await queue.enqueue(pushes, isPartial: false)
        let claims = try await queue.claim(4)
        _ = try await queue.markWritten(Array(claims.prefix(3)), lease: .seconds(60))
        #expect(queue.expiredAtOpen == ExpiredLeases())
        await queue.close()
        let again = try await fixture.openQueue()
        var expected = ExpiredLeases()
        expected.queued = 1
        expected.resent = 1
        expected.unknown = 2
        #expect(again.expiredAtOpen == expected)
        await again.close()
    }

    @Test("The tables are those of version 1; a change of them needs a new version")
    func schema() async throws {
        let fixture = try SQLiteFixture()
        try await fixture.openQueue().close()
        let other = try fixture.otherConnection()
        let (tables, version, application, vacuum) = try await other.read { db in
            (
                try String.fetchAll(db, sql: "SELECT sql FROM sqlite_master WHERE sql NOT NULL ORDER BY name"),
                try Int.fetchOne(db, sql: "PRAGMA user_version"),
                try Int.fetchOne(db, sql: "PRAGMA application_id"),
                try Int.fetchOne(db, sql: "PRAGMA auto_vacuum")
            )
        }
        try other.close()
        // FNV-1a.
        let text = tables.joined(separator: "\n").split(whereSeparator: \.isWhitespace).joined(separator: " ")
        let digest = text.utf8.reduce(UInt64(0xCBF2_9CE4_8422_2325)) { ($0 ^ UInt64($1)) &* 0x0000_0100_0000_01B3 }
        #expect(String(digest, radix: 16) == "4235ce82b6f512c2")
        #expect(version == 1)
        #expect(application == 0x4150_4E52)
        #expect(vacuum == 2)
    }
}
