import Foundation
import GRDB
import PushQueue

extension QueueError {
    /// Converts an error of SQLite.
    ///
    /// - Parameter file: the database, for the message.
    init(_ error: any Error, file: String) {
        switch error {
        case let error as QueueError: self = error
        case let error as DatabaseError: self.init(error, file: file)
        default: self.init(code: .unavailable, message: "\(file): \(error)")
        }
    }

    private init(_ error: DatabaseError, file: String) {
        let detail = "SQLite error \(error.extendedResultCode.rawValue): \(error.message ?? "no message")"
        if error.isSyncFailure {
            self = .syncFailed(file, detail, code: .undecided)
            return
        }
        switch error.resultCode {
        case .SQLITE_CORRUPT, .SQLITE_NOTADB, .SQLITE_FORMAT:
            self = .damaged(file, detail)
        case .SQLITE_FULL:
            self.init(
                code: .unavailable,
                message: "\(file): the disk is full. Free some space; the queue then continues by itself. \(detail)"
            )
        case .SQLITE_BUSY, .SQLITE_LOCKED:
            self.init(
                code: .unavailable,
                message: "\(file): another process has locked the database. End that process or its transaction. "
                    + detail
            )
        case .SQLITE_IOERR, .SQLITE_NOMEM, .SQLITE_CANTOPEN, .SQLITE_READONLY, .SQLITE_PERM:
            self.init(
                code: .unavailable,
                message: "\(file): the database cannot be read or written now. Check the disk and the permissions of "
                    + "the file and its directory. \(detail)"
            )
        default:
            self.init(code: .unavailable, message: "\(file): \(detail)")
        }
    }

    static func damaged(_ file: String, _ detail: String) -> QueueError {
        var cause = ""
        let log = try? FileManager.default.attributesOfItem(atPath: file + "-wal")
        if let size = log?[.size] as? NSNumber, size.int64Value > 0 {
            cause =
                "If the file was restored, the likely cause is \(file)-wal: it is the log of the file before, and SQLite "
                + "applies it to this one. Move it and \(file)-shm away, and restore the file once more. "
        }
        return QueueError(
            code: .unusable,
            message:
                "\(file): the database is damaged. \(cause)Stop the relay, keep a copy of the file and of \(file)-wal, and "
                + "restore a backup or recover the pushes with `sqlite3 FILE .recover`. Nothing was overwritten. "
                + detail
        )
    }

    static func noRoom(_ file: String, _ room: DiskRoom) -> QueueError {
        QueueError(
            code: .unavailable,
            message:
                "\(file): its disk has \(max(min(room.free, room.available), 0) >> 20) MiB of free space. \(room.reserve >> 20) MiB are "
                + "reserved for outcomes and settings, so new pushes are refused. Free some space or enlarge the disk; the "
                + "relay then accepts pushes by itself."
        )
    }

    /// The error after the disk did not confirm a write.
    ///
    /// - Parameter code: `undecided` for calls that were being stored, `unusable` for all later calls.
    static func syncFailed(_ file: String, _ detail: String, code: Code) -> QueueError {
        QueueError(
            code: code,
            message: "\(file): the disk did not confirm a write (fsync), so the newest changes may be lost. The relay "
                + "ends, because a second fsync can succeed without them. Check the disk and the log of the kernel, "
                + "then start the relay again. \(detail)"
        )
    }
}

extension DatabaseError {
    /// Whether `fsync` failed. On Linux, the next `fsync` may succeed although the data is not on the disk.
    var isSyncFailure: Bool { Self.isSyncFailure(self.extendedResultCode.rawValue) }

    static func isSyncFailure(_ code: CInt) -> Bool {
        [ResultCode.SQLITE_IOERR_FSYNC, .SQLITE_IOERR_DIR_FSYNC].contains { $0.rawValue == code }
    }
}
