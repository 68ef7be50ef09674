import PushQueue
import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The exclusive right to use a database file. It ends with this object or with the process.
///
/// It consists of two locks. The lock on the lock file also works before the database exists. The lock on the database
/// itself detects a process that uses the database although the lock file was deleted, or under another name.
final class FileLock: Sendable {
    /// Larger than every offset that SQLite locks (2^30 to 2^30 + 511).
    private static let lockedByte: off_t = 1 << 30 + 4_096
    #if canImport(Darwin)
        private static let setLock: CInt = 90  // F_OFD_SETLK
    #else
        private static let setLock: CInt = 37  // F_OFD_SETLK, for programs that define _GNU_SOURCE
    #endif

    private let database: String
    private let descriptors = Mutex<[CInt]>([])

    /// Locks the lock file `DATABASE.lock`. The file is never deleted: another process may be about to lock it.
    ///
    /// - Throws: `QueueError`: `inUse` if another owner has the lock, in this process or another one; `unavailable` if
    ///   the file cannot be opened.
    init(for database: String) throws(QueueError) {
        self.database = database
        let descriptor = try self.open(database + ".lock", O_CREAT)
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            throw errno == EWOULDBLOCK ? self.inUse : self.failure(database + ".lock", "locked")
        }
    }

    /// Locks the database itself, which must exist.
    ///
    /// - Throws: `QueueError`: `inUse` if another owner has the lock; `unusable` if the file has several names, because
    ///   SQLite looks for the write-ahead log under the name with which the file is opened; `unavailable` if the file
    ///   cannot be locked.
    func lockDatabase() throws(QueueError) {
        let descriptor = try self.open(self.database, 0)
        var lock = flock()
        lock.l_type = CShort(F_WRLCK)
        lock.l_whence = CShort(SEEK_SET)
        lock.l_start = Self.lockedByte
        lock.l_len = 1
        // This lock belongs to the descriptor. A lock that belongs to the process would end as soon as the process
        // closes any descriptor of the file, as SQLite does.
        if fcntl(descriptor, Self.setLock, &lock) != 0 {
            if errno == EAGAIN || errno == EACCES { throw self.inUse }
            // On systems without such locks, the lock file must be enough.
            if errno != EINVAL { throw self.failure(self.database, "locked") }
        }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw self.failure(self.database, "read") }
        guard status.st_nlink <= 1 else {
            throw QueueError(
                code: .unusable,
                message:
                    "\(self.database): the file has \(status.st_nlink) names (hard links), and the newest pushes may "
                    + "be in the write-ahead log of another name. Nothing was written to the file. Keep the name that has "
                    + "a file NAME-wal, or any name if none has. Remove the other names, and start the relay with the "
                    + "one that you kept."
            )
        }
    }

    deinit {
        for descriptor in self.descriptors.withLock({ $0 }) { close(descriptor) }
    }

    private func open(_ file: String, _ flags: CInt) throws(QueueError) -> CInt {
        let descriptor = systemOpen(file, O_RDWR | O_CLOEXEC | flags, 0o600)
        guard descriptor >= 0 else { throw self.failure(file, "opened") }
        self.descriptors.withLock { $0.append(descriptor) }
        return descriptor
    }

    private var inUse: QueueError {
        QueueError(
            code: .inUse,
            message:
                "\(self.database) is used by another apns-relay. Stop the other relay, or give this one its own file."
        )
    }

    private func failure(_ file: String, _ action: String) -> QueueError {
        QueueError(
            code: .unavailable,
            message: "\(file): the file cannot be \(action): \(String(cString: strerror(errno))). Check that its "
                + "directory exists, and that the relay may read and write the file and the directory."
        )
    }
}

private func systemOpen(_ file: String, _ flags: CInt, _ mode: mode_t) -> CInt { open(file, flags, mode) }
