/// One run of a bulk call: an engine, and the caller's elements beside it. Inlinable, so that the caller's module takes
/// and puts elements by code made for their type.
@usableFromInline
final class BulkCall<Element> {
    /// Puts the next element at the given place and says what its push is. Nothing is put when there is none.
    @usableFromInline
    typealias Pull = (_ place: UnsafeMutablePointer<Element>, _ room: Int) -> BulkPull

    @usableFromInline
    let engine: any BulkEngine
    @usableFromInline
    let elements: BulkElements<Element>

    init(
        sender: any PushSender,
        options: BulkOptions,
        control: BulkControl,
        close: @escaping () -> Void,
        pull: @escaping Pull
    ) {
        let elements = BulkElements<Element>()
        let source = BulkSource(pull: { elements.put(at: $0, room: $1, pull) }, close: close)
        self.elements = elements
        if let sender = sender as? any BulkEngineSender {
            self.engine = sender.makeBulkEngine(source, options, control)
        } else {
            self.engine = PlainBulkRun(sender: sender, source, options, control)
        }
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
