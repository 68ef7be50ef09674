/// One run of a bulk call: an engine and the caller's elements.
///
/// It is inlinable so that the caller's module reads and stores elements with code specialised for their type.
@usableFromInline
final class BulkCall<Element> {
    /// Stores the next element at the given index and returns its push. Stores nothing if there is no element.
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

    /// Returns a delivery that is already available.
    @inlinable
    func takeReady() -> PushDelivery<Element>? {
        // The engine returns only indices that are in use.
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
