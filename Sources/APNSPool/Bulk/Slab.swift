/// Elements by number, in plain memory: a push touches its own a few times, and each time neither an array is copied nor
/// an access checked. Addresses are used at once and never kept. Confined to one task.
final class Slab<Element> {
    private var base: UnsafeMutablePointer<Element?>
    private var capacity = 64
    private var used = 0
    // Unchecked: nothing that an access calls comes back here.
    @exclusivity(unchecked) private var free: [Int32] = []

    init() {
        self.base = .allocate(capacity: self.capacity)
    }

    deinit {
        self.base.deinitialize(count: self.used)
        self.base.deallocate()
    }

    /// - Parameter index: one that `number()` gave.
    subscript(index: Int) -> Element? {
        unsafeAddress { UnsafePointer(self.base + index) }
        unsafeMutableAddress { self.base + index }
    }

    /// A number that no element has.
    func number() -> Int {
        if let index = self.free.popLast() { return Int(index) }
        if self.used == self.capacity { self.grow() }
        (self.base + self.used).initialize(to: nil)
        self.used += 1
        return self.used - 1
    }

    /// The number may be another element's from now on.
    func release(_ index: Int) {
        self.free.append(Int32(truncatingIfNeeded: index))
    }

    private func grow() {
        let larger = UnsafeMutablePointer<Element?>.allocate(capacity: self.capacity * 2)
        larger.moveInitialize(from: self.base, count: self.used)
        self.base.deallocate()
        self.base = larger
        self.capacity *= 2
    }
}
