import GRDB
import PushQueue

import Foundation

/// Recognises, creates and opens the database file. Writes only to files that this library has created.
struct QueueFile {
    let path: String
    let busyTimeout: Duration
    /// The maximum number of pages of the file. Tests use it to simulate a full disk.
    let maxPageCount: Int?
    /// Records a failed `fsync` while the log is copied into the database.
    let failure: QueueFailure?

    /// Refuses a path that is not a file, before anything is written beside it: reading a pipe would never end.
    ///
    /// - Throws: `QueueError` with the code `unusable`.
    static func checkKind(of path: String) throws(QueueError) {
        let attributes = try? FileManager.default.attributesOfItem(atPath: path)
        guard let type = attributes?[.type] as? FileAttributeType, type != .typeRegular else { return }
        throw QueueError(
            code: .unusable,
            message: "\(path) is not a file, but a folder, a pipe, a device or a link that leads nowhere. Nothing was "
                + "written to it. Choose another file."
        )
    }

    /// Creates the file if it does not exist.
    ///
    /// - Throws: `DatabaseError` or `QueueError`.
    func createIfMissing() throws {
        guard self.size(of: self.path) == nil else { return }
        if let log = self.size(of: self.path + "-wal"), log > 0 {
            // SQLite would delete the log, which may contain pushes.
            throw DatabaseError(
                resultCode: .SQLITE_CORRUPT,
                message: "The file is missing, but its write-ahead log is not."
            )
        }
        try self.create()
    }

    /// Opens the file. Creates it if it does not exist.
    ///
    /// - Throws: `DatabaseError` or `QueueError`.
    func open() throws -> DatabasePool {
        try self.createIfMissing()
        try self.check()
        let pool = try DatabasePool(path: self.path, configuration: self.configuration())
        do {
            // After a failed fsync and a restart, the log may be in the page cache only. What is appended to it would
            // be lost with it. So the log is copied into the database first.
            _ = try pool.writeWithoutTransaction { try $0.checkpoint(.passive) }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY {
            // Another process is copying the log.
        }
        return pool
    }

    private func reader() throws -> DatabaseQueue {
        var configuration = self.configuration()
        configuration.readonly = true
        return try DatabaseQueue(path: self.path, configuration: configuration)
    }

    private func size(of path: String) -> UInt64? {
        let attributes = try? FileManager.default.attributesOfItem(atPath: path)
        return (attributes?[.size] as? NSNumber)?.uint64Value
    }

    /// Creates the file under another name and then renames it, so that a crash leaves no incomplete file.
    private func create() throws {
        let draft = self.path + ".new"
        try self.checkDraft(draft)
        for suffix in ["", "-journal", "-wal", "-shm"] where self.size(of: draft + suffix) != nil {
            try FileManager.default.removeItem(atPath: draft + suffix)
        }
        var configuration = Configuration()
        configuration.label = "apns-relay"
        let queue = try DatabaseQueue(path: draft, configuration: configuration)
        try queue.inDatabase { db in
            try db.execute(sql: "PRAGMA auto_vacuum = INCREMENTAL")
            try db.inTransaction {
                try db.execute(sql: "PRAGMA application_id = \(Schema.applicationID)")
                try db.execute(sql: Schema.tables)
                return .commit
            }
            // Not when it is opened under its name: that change needs a journal, and a crash during it leaves a file that
            // cannot be read before it is written to.
            try db.execute(sql: "PRAGMA journal_mode = WAL")
        }
        try queue.close()
        // Device tokens and payloads are personal data.
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: draft)
        try FileManager.default.moveItem(atPath: draft, toPath: self.path)
    }

    /// Refuses to delete a file that is not the draft of a queue, which a crash may have left.
    private func checkDraft(_ draft: String) throws {
        try Self.checkKind(of: draft)
        guard let size = self.size(of: draft), size > 0, let handle = FileHandle(forReadingAtPath: draft)
        else { return }
        let header = [UInt8](try handle.read(upToCount: 100) ?? Data())
        try handle.close()
        guard Self.application(in: header) != UInt32(bitPattern: Schema.applicationID) else { return }
        throw QueueError(
            code: .unusable,
            message: "\(draft) is not a queue, and \(self.path) would be created under this name first. Nothing was "
                + "written to it. Move it away, or choose another file for the queue."
        )
    }

    /// The application id in the header of a SQLite database; 0 if it has none.
    private static func application(in header: [UInt8]) -> UInt32 {
        guard header.count == 100 else { return 0 }
        return header[68..<72].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
    }

    /// - Throws: `QueueError` with the code `unusable` if the file is not a queue, or if a newer version wrote it.
    private func check() throws {
        guard let handle = FileHandle(forReadingAtPath: self.path) else {
            throw QueueError(
                code: .unavailable,
                message: "\(self.path): the file cannot be read. Check its permissions."
            )
        }
        let header = [UInt8](try handle.read(upToCount: 100) ?? Data())
        try handle.close()
        // An empty file is not a new queue, because `create()` never leaves an incomplete file.
        // Bytes 18 and 19 are the format versions for writing and reading: 1, or 2 with a write-ahead log.
        guard header.count == 100, header.starts(with: Array("SQLite format 3\0".utf8)),
            [1, 2].contains(header[18]), [1, 2].contains(header[19])
        else {
            if header.isEmpty { throw self.emptyFile }
            throw DatabaseError(
                resultCode: .SQLITE_CORRUPT,
                message: "The file does not begin with the header of SQLite."
            )
        }
        let pageSize = UInt64(header[16]) << 8 | UInt64(header[17])
        let isWhole = pageSize < 512 || (self.size(of: self.path) ?? 0).isMultiple(of: pageSize)
        // A crash during a checkpoint may leave an incomplete last page. The log then contains this page.
        guard isWhole || (self.size(of: self.path + "-wal") ?? 0) > 0 else {
            throw DatabaseError(resultCode: .SQLITE_CORRUPT, message: "The file was cut off.")
        }
        guard Self.application(in: header) == UInt32(bitPattern: Schema.applicationID) else {
            throw QueueError(
                code: .unusable,
                message: "\(self.path) is a SQLite database of another program. Nothing was written to it. Choose "
                    + "another file."
            )
        }
        let reader = try self.reader()
        let version = try reader.read { try Int.fetchOne($0, sql: "PRAGMA user_version") ?? 0 }
        try reader.close()
        guard version <= Schema.version else {
            throw QueueError(
                code: .unusable,
                message: "\(self.path) has the schema version \(version), and this apns-relay knows versions up to "
                    + "\(Schema.version). Nothing was written to it. Use the newer apns-relay that wrote it."
            )
        }
    }

    /// The error for a file without content. It may be what a failed copy or a full disk has left of a queue.
    private var emptyFile: QueueError {
        QueueError(
            code: .unusable,
            message:
                "\(self.path) is empty, and a queue never is: it is what a failed copy, a restore or a full disk leaves, "
                + "or a program such as touch has made it. Nothing was written to it. Restore a backup; or, if there was "
                + "no queue, remove the file, and the relay creates one."
        )
    }

    private func configuration() -> Configuration {
        var configuration = Configuration()
        configuration.label = "apns-relay"
        configuration.foreignKeysEnabled = false
        configuration.busyMode = .timeout(self.busyTimeout / .seconds(1))
        configuration.maximumReaderCount = 4
        configuration.persistentReadOnlyConnections = true
        let maxPageCount = self.maxPageCount
        let checkpoints = Checkpoints(every: 8_192, path: self.path, failure: self.failure)
        configuration.prepareDatabase { db in
            try db.execute(sql: "PRAGMA temp_store = MEMORY")
            guard !db.configuration.readonly else {
                try db.execute(sql: "PRAGMA cache_size = -8192")
                return
            }
            // 40 MiB. Most of the pages that change in random order belong to the index of ids.
            try db.execute(sql: "PRAGMA cache_size = -40960")
            // A checkpoint after 32 MiB of log. So a page that changes often is copied to the file once in many
            // transactions.
            checkpoints.install(db)
            try db.execute(sql: "PRAGMA journal_size_limit = 67108864")
            if let maxPageCount { try db.execute(sql: "PRAGMA max_page_count = \(maxPageCount)") }
        }
        return configuration
    }
}
