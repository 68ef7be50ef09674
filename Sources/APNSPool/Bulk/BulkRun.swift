import APNSModel

/// A `BulkEngine` with the caller's elements beside it.
final class BulkRun<Element> {
    /// Puts the next element at the given place and says what its push is. Nothing is put when there is none.
    typealias Pull = (_ place: UnsafeMutablePointer<Element>, _ room: Int) -> BulkPull

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

        func put(at index: Int, room: Int, _ pull: Pull) -> BulkPull {
            while index >= self.capacity { self.grow() }
            let pulled = pull(self.base + index, room)
            switch pulled {
            case .push, .invalid: self.isPresent[index] = true
            case .later, .end: break
            }
            return pulled
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

    init(
        core: ClientCore,
        options: BulkOptions,
        control: BulkControl,
        closeInput: @escaping () -> Void,
        pull: @escaping Pull
    ) {
        let elements = Elements()
        self.elements = elements
        self.engine = BulkEngine(
            core: core,
            options: options,
            control: control,
            pull: { elements.put(at: $0, room: $1, pull) },
            closeInput: closeInput
        )
    }

    /// Whoever waits in `next()` looks again.
    var wake: @Sendable () -> Void {
        { [collector = self.engine.collector] in collector.poke() }
    }

    /// A delivery that is there already.
    func takeReady() -> PushDelivery<Element>? {
        // The engine gives no number that was not put there.
        guard let (index, outcome) = self.engine.takeReady(), let element = self.elements.take(index) else {
            return nil
        }
        return PushDelivery(element: element, outcome: outcome)
    }

    func next() async -> PushDelivery<Element>? {
        guard let (index, outcome) = await self.engine.next(), let element = self.elements.take(index) else {
            return nil
        }
        return PushDelivery(element: element, outcome: outcome)
    }
}
