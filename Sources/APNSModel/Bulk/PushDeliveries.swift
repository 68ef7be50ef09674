/// An element of a bulk call's input, with the outcome of its push.
public struct PushDelivery<Element> {
    /// The element of the input.
    public var element: Element
    /// The outcome of its push.
    public var outcome: PushOutcome

    @inlinable
    init(element: Element, outcome: PushOutcome) {
        self.element = element
        self.outcome = outcome
    }
}

extension PushDelivery: Sendable where Element: Sendable {}

/// The outcomes of a bulk call, in the order in which they arrive.
///
/// Sending starts when you request the first outcome, and each loop over this sequence sends again. Leaving the loop
/// early resets nothing: no further element is pulled, and pushes in flight finish. Unread outcomes slow the call down:
/// unread outcomes and pushes in flight together are at most `maxInFlight`.
///
/// The loop also ends when the call is stopped, cancelled or shut down. ``BulkProgress/isFinished`` of the control's
/// progress says whether it reached the end of the input.
public struct PushDeliveries<Row>: AsyncSequence {
    /// A row with its outcome.
    public typealias Element = PushDelivery<Row>
    /// The loop never throws: a problem with a row is part of its outcome.
    public typealias Failure = Never

    /// One run of the bulk call.
    public struct AsyncIterator: AsyncIteratorProtocol {
        @usableFromInline
        let call: BulkCall<Row>

        /// The next outcome, in order of arrival. Nil once every pulled row has its outcome, also if the call ended
        /// before the end of the input.
        ///
        /// In a cancelled task no further row is pulled, waiting pushes are not sent (`cancelled`), and pushes in
        /// flight finish.
        @inlinable
        public mutating func next() async -> PushDelivery<Row>? {
            if let delivery = self.call.takeReady() { return delivery }
            return await self.call.next()
        }

        /// Like `next()`, but stays on the caller's actor.
        @inlinable
        public mutating func next(isolation actor: isolated (any Actor)?) async -> PushDelivery<Row>? {
            if let delivery = self.call.takeReady() { return delivery }
            return await self.call.next()
        }
    }

    /// Controls the call while it runs.
    public let control: BulkControl
    private let sender: any PushSender
    private let options: BulkOptions
    private let makePull: () -> Pull

    /// Stores the next element at the given index and returns its push. Stores nothing at the end of the input.
    @usableFromInline
    typealias Pull = (UnsafeMutablePointer<Row>) -> BulkPull

    @usableFromInline
    init(sender: any PushSender, options: BulkOptions, makePull: @escaping () -> Pull) {
        self.sender = sender
        self.options = options
        self.control = options.makeControl()
        self.makePull = makePull
    }

    private final class Door {
        var isClosed = false
        /// Whether the input said, before it was closed, that it has no further element.
        var isInputOver = false
    }

    /// Creates a run. The first call of `next()` pulls the first element.
    public func makeAsyncIterator() -> AsyncIterator {
        let door = Door()
        let pull = self.makePull()
        return AsyncIterator(
            call: BulkCall(
                sender: self.sender,
                options: self.options,
                control: self.control,
                close: { door.isClosed = true },
                inputEnd: { door.isInputOver ? .finished : .closed },
                pull: { place, _ in
                    if door.isClosed { return .end }
                    let pulled = pull(place)
                    if case .end = pulled { door.isInputOver = true }
                    return pulled
                }
            )
        )
    }
}
