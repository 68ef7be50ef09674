/// The room of a disk, in bytes.
package struct DiskRoom: Sendable, Hashable {
    package var free: Int
    package var size: Int

    package init(free: Int, size: Int) {
        self.free = free
        self.size = size
    }

    /// The least free room with which a relay is ready: 64 MiB, twice as much as the largest request has by default, or a
    /// twentieth of a smaller disk.
    package var required: Int { min(64 << 20, self.size / 20) }

    package var isEnough: Bool { self.free >= self.required }
}
