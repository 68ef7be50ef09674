import APNSModel

/// A `BulkEngine` with the caller's elements beside it.
final class BulkRun<Element> {
    /// Puts the next element at the given place and says what its push is; nil, and nothing put, at the end.
    typealias Pull = (UnsafeMutablePointer<Element>) -> Result<(PreparedPush, DeviceToken), PushError>?

    /// The elements under way, by the engine's numbers. Plain memory: an array of optionals would have the runtime look
    /// its type up for each element, since a user's module cannot specialise this one.
    private final class Elements {
        private var base: UnsafeMutablePointer<Element>
        private var capacity = 64
        private var isPresent: [Bool]

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

        func put(at index: Int, _ pull: Pull) -> Result<(PreparedPush, DeviceToken), PushError>? {
            while index >= self.capacity { self.grow() }
            let push = pull(self.base + index)
            self.isPresent[index] = push != nil
            return push
        }

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

    private let engine: BulkEngine
    private let elements: Elements

    init(core: ClientCore, options: BulkOptions, pull: @escaping Pull) {
        let elements = Elements()
        self.elements = elements
        self.engine = BulkEngine(core: core, options: options) { elements.put(at: $0, pull) }
    }

    func next() async -> PushDelivery<Element>? {
        // The engine gives no number that was not put there.
        guard let (index, outcome) = await self.engine.next(), let element = self.elements.take(index) else {
            return nil
        }
        return PushDelivery(element: element, outcome: outcome)
    }
}
