/// An element of a bulk call's input and what became of its push.
public struct PushDelivery<Element> {
    /// The element of the input: the row.
    public var element: Element
    /// How its push ended.
    public var outcome: PushOutcome

    @inlinable
    init(element: Element, outcome: PushOutcome) {
        self.element = element
        self.outcome = outcome
    }
}

extension PushDelivery: Sendable where Element: Sendable {}

/// The outcomes of a bulk call, in the order in which they come.
///
/// Sending starts when the first outcome is asked for, and each loop over it sends anew. Leaving the loop early resets
/// nothing: no further element is pulled, and what is in flight finishes. Outcomes that nobody takes hold the call up:
/// unread ones and pushes in flight together are at most twice `maxInFlight`.
public struct PushDeliveries<Row>: AsyncSequence {
    /// A row with its outcome.
    public typealias Element = PushDelivery<Row>
    /// Nothing is thrown: what goes wrong with a row is its outcome.
    public typealias Failure = Never

    /// One run of the bulk call.
    public struct AsyncIterator: AsyncIteratorProtocol {
        @usableFromInline
        let call: BulkCall<Row>

        /// The next outcome, whichever comes first; nil when every row that was pulled has had its own. In a cancelled
        /// task no further row is pulled, what waits is not sent (`cancelled`), and what is in flight finishes.
        @inlinable
        public mutating func next() async -> PushDelivery<Row>? {
            if let delivery = self.call.takeReady() { return delivery }
            return await self.call.next()
        }

        /// As `next()`, without leaving the caller's actor.
        @inlinable
        public mutating func next(isolation actor: isolated (any Actor)?) async -> PushDelivery<Row>? {
            if let delivery = self.call.takeReady() { return delivery }
            return await self.call.next()
        }
    }

    /// The handle of the call while it runs.
    public let control: BulkControl
    private let sender: any PushSender
    private let options: BulkOptions
    private let makePull: () -> Pull

    /// Puts the next element at the given place and says what its push is; at the end nothing is put.
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
    }

    /// Begins a run. Nothing is pulled before its first `next()`.
    public func makeAsyncIterator() -> AsyncIterator {
        let door = Door()
        let pull = self.makePull()
        return AsyncIterator(
            call: BulkCall(
                sender: self.sender,
                options: self.options,
                control: self.control,
                close: { door.isClosed = true },
                pull: { place, _ in door.isClosed ? .end : pull(place) }
            )
        )
    }
}
