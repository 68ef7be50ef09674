import GRDB
package import PushQueue

extension QueueError {
    /// What a failure of SQLite means for the caller.
    ///
    /// - Parameter file: the database, for the message.
    package init(_ error: any Error, file: String) {
        switch error {
        case let error as QueueError: self = error
        case let error as DatabaseError: self.init(error, file: file)
        default: self.init(code: .unavailable, message: "\(file): \(error)")
        }
    }

    private init(_ error: DatabaseError, file: String) {
        let detail = "SQLite error \(error.extendedResultCode.rawValue): \(error.message ?? "no message")"
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
        QueueError(
            code: .unusable,
            message:
                "\(file): the database is damaged. Stop the relay, keep a copy of the file and of \(file)-wal, and "
                + "restore a backup or recover the pushes with `sqlite3 FILE .recover`. Nothing was overwritten. "
                + detail
        )
    }

    package static let closed = QueueError(code: .closed, message: "The queue is closed.")
}
