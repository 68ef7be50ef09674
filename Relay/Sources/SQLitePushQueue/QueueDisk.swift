import GRDB
import PushQueue

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The disk with the file of a queue.
struct QueueDisk: Sendable {
    let file: String
    /// The number of pages that stands for the size of the disk in tests.
    let maxPageCount: Int?

    private static let pageSize = 4_096
    /// The size of a request with a few pushes.
    static let smallRequest = 64 << 10

    /// Reads the room. The pages that are in the log, and for which the file will grow, are not free.
    func room(_ db: Database) throws -> DiskRoom {
        let pages = try db.prepared("PRAGMA page_count").first { $0.int(0) } ?? 0
        // Free pages in the file are used first.
        let used = pages - (try db.prepared("PRAGMA freelist_count").first { $0.int(0) } ?? 0)
        if let maxPageCount {
            return DiskRoom(free: (maxPageCount - used) * Self.pageSize, size: maxPageCount * Self.pageSize)
        }
        var (disk, status) = (statvfs(), stat())
        guard statvfs(self.file, &disk) == 0, stat(self.file, &status) == 0 else {
            throw QueueError(
                code: .unavailable,
                message: "\(self.file): the room on its disk cannot be read: \(String(cString: strerror(errno)))."
            )
        }
        func bytes(_ blocks: UInt64) -> Int {
            let (bytes, isTooLarge) = blocks.multipliedReportingOverflow(by: UInt64(disk.f_frsize))
            return isTooLarge ? .max : Int(clamping: bytes)
        }
        let growth = used * Self.pageSize - Int(status.st_size)
        return DiskRoom(free: bytes(UInt64(disk.f_bavail)) - growth, size: bytes(UInt64(disk.f_blocks)))
    }

    /// Checks that new data fits on the disk without its reserve.
    ///
    /// - Parameters:
    ///   - db: a connection, in the transaction that has stored the data.
    ///   - bytes: the size of data that is not stored yet.
    /// - Throws: `QueueError` (`unavailable`) if it does not.
    func require(_ db: Database, bytes: Int = 0) throws {
        let room = try self.room(db)
        guard room.fits(bytes) else { throw QueueError.noRoom(self.file, room) }
    }
}
