/// The elements under way, by the engine's numbers. Plain memory: an array of optionals would have the runtime look
/// its type up for each element, since a user's module cannot specialise this one.
@usableFromInline
final class BulkElements<Element> {
    // Unchecked: the only code that runs within an access is the caller's, which has no way to come back here.
    @exclusivity(unchecked) @usableFromInline
    var base: UnsafeMutablePointer<Element>
    @exclusivity(unchecked) @usableFromInline
    var capacity = 64
    @exclusivity(unchecked) @usableFromInline
    var isPresent: [Bool]

    init() {
        self.base = .allocate(capacity: self.capacity)
        self.isPresent = Array(repeating: false, count: self.capacity)
    }

    deinit {
        for index in self.isPresent.indices where self.isPresent[index] {
            (self.base + index).deinitialize(count: 1)
        }
        self.base.deallocate()
    }

    func put(at index: Int, room: Int, _ pull: BulkCall<Element>.Pull) -> BulkPull {
        while index >= self.capacity { self.grow() }
        let pulled = pull(self.base + index, room)
        switch pulled {
        case .push, .invalid: self.isPresent[index] = true
        case .later, .end: break
        }
        return pulled
    }

    @inlinable
    func take(_ index: Int) -> Element? {
        guard self.isPresent.indices.contains(index), self.isPresent[index] else { return nil }
        self.isPresent[index] = false
        return (self.base + index).move()
    }

    private func grow() {
        let larger = UnsafeMutablePointer<Element>.allocate(capacity: self.capacity * 2)
        for index in self.isPresent.indices where self.isPresent[index] {
            (larger + index).moveInitialize(from: self.base + index, count: 1)
        }
        self.base.deallocate()
        self.base = larger
        self.isPresent += Array(repeating: false, count: self.capacity)
        self.capacity *= 2
    }
}
