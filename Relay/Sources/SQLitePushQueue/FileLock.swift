package import PushQueue

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// An exclusive lock on a file, for as long as this object exists or until the process ends.
///
/// The file is not deleted, because another process may be about to lock it.
package final class FileLock: Sendable {
    private let descriptor: Int32

    /// - Throws: `QueueError`: `inUse` if another owner has the lock, in this process or another one; `unavailable` if
    ///   the file cannot be opened.
    package init(_ file: String, for database: String) throws(QueueError) {
        let descriptor = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw QueueError(
                code: .unavailable,
                message: "\(file): the lock file cannot be opened: \(String(cString: strerror(errno))). Check that the "
                    + "directory exists and is writable."
            )
        }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            let code = errno
            close(descriptor)
            guard code == EWOULDBLOCK else {
                throw QueueError(
                    code: .unavailable,
                    message: "\(file): the file cannot be locked: \(String(cString: strerror(code)))"
                )
            }
            throw QueueError(
                code: .inUse,
                message: "\(database) is used by another apns-relay. Stop that one, or give this one a file of its own."
            )
        }
        self.descriptor = descriptor
    }

    deinit {
        close(self.descriptor)
    }
}
