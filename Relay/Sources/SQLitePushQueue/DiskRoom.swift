/// The free space and the size of a disk, in bytes.
package struct DiskRoom: Sendable, Hashable {
    package var free: Int
    package var size: Int

    package init(free: Int, size: Int) {
        self.free = free
        self.size = size
    }

    /// The minimum free space for a relay to be ready. It is 64 MiB, twice the default limit of a request, or a
    /// twentieth of a disk smaller than 1.25 GiB.
    package var required: Int { min(64 << 20, self.size / 20) }

    package var isEnough: Bool { self.free >= self.required }
}
