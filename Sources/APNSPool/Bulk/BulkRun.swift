import APNSModel

/// A `BulkEngine` with the caller's elements beside it. Inlinable, so that the caller's module takes and puts them by
/// code made for their type; the engine knows them by numbers only.
@usableFromInline
final class BulkRun<Element> {
    /// Puts the next element at the given place and says what its push is. Nothing is put when there is none.
    @usableFromInline
    typealias Pull = (_ place: UnsafeMutablePointer<Element>, _ room: Int) -> BulkPull

    @usableFromInline
    let engine: BulkEngine
    @usableFromInline
    let elements: BulkElements<Element>

    init(
        core: ClientCore,
        options: BulkOptions,
        control: BulkControl,
        closeInput: @escaping () -> Void,
        pull: @escaping Pull
    ) {
        let elements = BulkElements<Element>()
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
        { [collector = self.engine.collector] in collector.signal() }
    }

    /// A delivery that is there already.
    @inlinable
    func takeReady() -> PushDelivery<Element>? {
        // The engine gives no number that was not put there.
        guard let (index, outcome) = self.engine.takeReady(), let element = self.elements.take(index) else {
            return nil
        }
        return PushDelivery(element: element, outcome: outcome)
    }

    @inlinable
    func next() async -> PushDelivery<Element>? {
        guard let (index, outcome) = await self.engine.next(), let element = self.elements.take(index) else {
            return nil
        }
        return PushDelivery(element: element, outcome: outcome)
    }
}
