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

    /// Reads the free space and the size of a disk.
    typealias ReadSpace = (_ file: String) throws -> (free: Int, size: Int)

    /// Reads the room. The pages that are in the log, and for which the file will grow, are not free.
    ///
    /// - Parameters:
    ///   - db: a connection.
    ///   - readSpace: reads the space of the disk with a file.
    func room(_ db: Database, _ readSpace: ReadSpace = Self.space) throws -> DiskRoom {
        let pages = try db.prepared("PRAGMA page_count").first { $0.int(0) } ?? 0
        // Free pages in the file are used first.
        let used = pages - (try db.prepared("PRAGMA freelist_count").first { $0.int(0) } ?? 0)
        if let maxPageCount {
            return DiskRoom(free: (maxPageCount - used) * Self.pageSize, size: maxPageCount * Self.pageSize)
        }
        let space = try readSpace(self.file)
        let growth = used * Self.pageSize - (try Self.size(self.file))
        return DiskRoom(
            free: space.free - growth,
            size: space.size,
            available: space.free,
            log: (try? Self.size(self.file + "-wal")) ?? 0
        )
    }

    private static func size(_ file: String) throws -> Int {
        var status = stat()
        guard stat(file, &status) == 0 else { throw Self.unreadable(file) }
        return Int(status.st_size)
    }

    private static func space(_ file: String) throws -> (free: Int, size: Int) {
        var disk = statvfs()
        guard statvfs(file, &disk) == 0 else { throw Self.unreadable(file) }
        func bytes(_ blocks: UInt64) -> Int {
            let (bytes, isTooLarge) = blocks.multipliedReportingOverflow(by: UInt64(disk.f_frsize))
            return isTooLarge ? .max : Int(clamping: bytes)
        }
        return (bytes(UInt64(disk.f_bavail)), bytes(UInt64(disk.f_blocks)))
    }

    private static func unreadable(_ file: String) -> QueueError {
        QueueError(
            code: .unavailable,
            message: "\(file): the room on its disk cannot be read: \(String(cString: strerror(errno)))."
        )
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
