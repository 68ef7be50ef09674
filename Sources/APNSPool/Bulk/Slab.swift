/// Stores elements by index in plain memory. A push accesses its element several times, and no access copies an array
/// or checks exclusivity. Addresses are used immediately and never kept. Confined to one task.
final class Slab<Element> {
    private var base: UnsafeMutablePointer<Element?>
    private var capacity = 64
    private var used = 0
    // Unchecked: no access begins during another one.
    @exclusivity(unchecked) private var free: [Int32] = []

    init() {
        self.base = .allocate(capacity: self.capacity)
    }

    deinit {
        self.base.deinitialize(count: self.used)
        self.base.deallocate()
    }

    /// - Parameter index: an index returned by `takeIndex()`.
    subscript(index: Int) -> Element? {
        unsafeAddress { UnsafePointer(self.base + index) }
        unsafeMutableAddress { self.base + index }
    }

    /// Returns an index that no element uses.
    func takeIndex() -> Int {
        if let index = self.free.popLast() { return Int(index) }
        if self.used == self.capacity { self.grow() }
        (self.base + self.used).initialize(to: nil)
        self.used += 1
        return self.used - 1
    }

    /// Releases the index, which may be reused for another element.
    func release(_ index: Int) {
        self.free.append(Int32(truncatingIfNeeded: index))
    }

    /// Returns a value of each element, in the order of the indices.
    func map<Value>(_ value: (Element) -> Value) -> [Value] {
        (0..<self.used).compactMap { self[$0].map(value) }
    }

    private func grow() {
        let larger = UnsafeMutablePointer<Element?>.allocate(capacity: self.capacity * 2)
        larger.moveInitialize(from: self.base, count: self.used)
        self.base.deallocate()
        self.base = larger
        self.capacity *= 2
    }
}
