/// The elements in flight, by the engine's indices.
///
/// They are in plain memory: with an array of optionals the runtime would look up the type for each element, because a
/// user's module cannot specialise this type.
@usableFromInline
final class BulkElements<Element> {
    // Unchecked: an access runs only the caller's code, which cannot re-enter this object.
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
