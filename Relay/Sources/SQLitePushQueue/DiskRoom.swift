/// The free space and the size of a disk, in bytes.
package struct DiskRoom: Sendable, Hashable {
    package var free: Int
    package var size: Int

    package init(free: Int, size: Int) {
        self.free = free
        self.size = size
    }

    /// The reserve: free space that new pushes may not use, so that outcomes, cancellations and settings can still be stored
    /// and the queue becomes empty by itself. It is 64 MiB, which is the largest log of the database, or a quarter of a disk
    /// smaller than 256 MiB.
    package var reserve: Int { min(64 << 20, self.size / 4) }

    /// Whether new data fits without the reserve.
    ///
    /// - Parameter bytes: the size of the data.
    package func fits(_ bytes: Int = 0) -> Bool { self.free >= self.reserve &+ bytes }
}
