/// The free space and the size of a disk, in bytes.
package struct DiskRoom: Sendable, Hashable {
    /// The space for new data. It includes the free pages in the database.
    package var free: Int
    package var size: Int
    /// The free space of the disk alone.
    package var available: Int
    /// The size of the log, whose space is used again.
    package var log: Int

    /// - Parameters:
    ///   - free: the space for new data.
    ///   - size: the size of the disk.
    ///   - available: the free space of the disk alone; nil if it is the same.
    ///   - log: the size of the log.
    package init(free: Int, size: Int, available: Int? = nil, log: Int = 0) {
        self.free = free
        self.size = size
        self.available = available ?? free
        self.log = log
    }

    /// The reserve: free space that new pushes may not use, so that outcomes, cancellations and settings can still be stored
    /// and the queue becomes empty by itself. It is 64 MiB, which is the largest log of the database, or a quarter of a disk
    /// smaller than 256 MiB.
    package var reserve: Int { min(64 << 20, self.size / 4) }

    /// Whether new data fits without the reserve.
    ///
    /// Free pages in the database are no room for the log, which usually grows to half of the reserve. Half is also enough
    /// after outcomes have used some of the reserve: then the pages that they make free are room for pushes again.
    ///
    /// - Parameter bytes: the size of the data.
    package func fits(_ bytes: Int = 0) -> Bool {
        self.free >= self.reserve &+ bytes && self.available >= self.reserve / 2 - self.log
    }
}
