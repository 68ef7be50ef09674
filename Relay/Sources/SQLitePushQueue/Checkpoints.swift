import GRDB
import GRDBSQLite
import PushQueue

/// Copies the write-ahead log into the database whenever the log has many pages. It replaces
/// `PRAGMA wal_autocheckpoint`, which ignores a failed `fsync`.
///
/// It must live as long as the connections that use it.
final class Checkpoints: Sendable {
    private let pages: CInt
    private let path: String
    private let failure: QueueFailure?

    /// - Parameters:
    ///   - pages: the number of pages of the log at which it is copied.
    ///   - path: the database, for the message.
    ///   - failure: records a failed `fsync`; nil to ignore it.
    init(every pages: CInt, path: String, failure: QueueFailure?) {
        self.pages = pages
        self.path = path
        self.failure = failure
    }

    /// Replaces SQLite's own checkpoints on a writing connection.
    func install(_ db: Database) {
        sqlite3_wal_hook(
            db.sqliteConnection,
            { context, connection, name, pages in
                guard let context else { return SQLITE_OK }
                let checkpoints = Unmanaged<Checkpoints>.fromOpaque(context).takeUnretainedValue()
                if pages >= checkpoints.pages { checkpoints.run(connection, name) }
                // The commit has succeeded, whether or not the checkpoint did.
                return SQLITE_OK
            },
            Unmanaged.passUnretained(self).toOpaque()
        )
    }

    private func run(_ connection: OpaquePointer?, _ name: UnsafePointer<CChar>?) {
        let result = sqlite3_wal_checkpoint_v2(connection, name, SQLITE_CHECKPOINT_PASSIVE, nil, nil)
        // After any other failure, the next commit tries again.
        guard DatabaseError.isSyncFailure(result) else { return }
        self.failure?.syncFailed(.syncFailed(self.path, "SQLite error \(result)", code: .unusable))
    }
}
