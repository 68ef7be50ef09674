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
    private let control: BulkControl
    private let inputEnd: () -> InputEnd
    /// The outcomes of the call; nil until it has ended.
    private(set) var summary: BulkSummary?

    /// How the input of a call ended.
    enum InputEnd {
        /// All of its elements were pulled.
        case finished
        /// The call closed it before it reported its end.
        case closed
        case failed
    }

    init(
        sender: any PushSender,
        options: BulkOptions,
        control: BulkControl,
        close: @escaping () -> Void,
        inputEnd: @escaping () -> InputEnd,
        pull: @escaping Pull
    ) {
        let elements = BulkElements<Element>()
        let source = BulkSource(pull: { elements.put(at: $0, room: $1, pull) }, close: close)
        self.elements = elements
        self.control = control
        self.inputEnd = inputEnd
        if let sender = sender as? any BulkEngineSender {
            self.engine = sender.makeBulkEngine(source, options, control)
        } else {
            self.engine = SequentialBulkRun(sender: sender, source, options, control)
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
            self.finish()
            return nil
        }
        return PushDelivery(element: element, outcome: outcome)
    }

    @usableFromInline
    func finish() {
        guard self.summary == nil else { return }
        let end =
            switch self.inputEnd() {
            case .finished: BulkEnd(isFinished: true, stopped: nil)
            case .failed: BulkEnd(isFinished: false, stopped: nil)
            case .closed: BulkEnd(isFinished: false, stopped: self.reason)
            }
        self.summary = self.engine.finish(end)
    }

    /// Why the call closed its input. If the engine knows a better reason, such as too many rejected device tokens, that
    /// one counts.
    private var reason: PushError {
        if self.control.isStopped {
            return PushError(code: .cancelled, certainty: .notSent, message: "the bulk call was stopped by its control")
        }
        if Task.isCancelled {
            return PushError(code: .cancelled, certainty: .notSent, message: "the sending task was cancelled")
        }
        return PushError(
            code: .shuttingDown,
            certainty: .notSent,
            message: "the client, or the service that runs the bulk call, is shutting down"
        )
    }
}
