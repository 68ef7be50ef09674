public import APNSModel

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
        let run: BulkRun<Row>

        /// The next outcome, whichever comes first; nil when every row that was pulled has had its own. In a cancelled
        /// task no further row is pulled, what waits is not sent (`cancelled`), and what is in flight finishes.
        @inlinable
        public mutating func next() async -> PushDelivery<Row>? {
            if let delivery = self.run.takeReady() { return delivery }
            return await self.run.next()
        }

        /// As `next()`, without leaving the caller's actor.
        @inlinable
        public mutating func next(isolation actor: isolated (any Actor)?) async -> PushDelivery<Row>? {
            if let delivery = self.run.takeReady() { return delivery }
            return await self.run.next()
        }
    }

    /// The handle of the call while it runs.
    public let control: BulkControl
    private let client: APNSClient
    private let options: BulkOptions
    private let makePull: () -> Pull

    /// Puts the next element at the given place and says what its push is; at the end nothing is put.
    @usableFromInline
    typealias Pull = (UnsafeMutablePointer<Row>) -> BulkPull

    @usableFromInline
    init(client: APNSClient, options: BulkOptions, makePull: @escaping () -> Pull) {
        self.client = client
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
            run: BulkRun(
                core: self.client.core,
                options: self.options,
                control: self.control,
                closeInput: { door.isClosed = true },
                pull: { place, _ in door.isClosed ? .end : pull(place) }
            )
        )
    }
}

/// The same for an asynchronous input, which a task of its own pulls. The loop throws what the input throws, after the
/// outcomes of all elements that were pulled before.
///
/// An element that the input gives while the loop is left early may be lost to it: the control's `completedPrefix` says
/// what is done. The input must end when its task is cancelled, as those of the standard library do: a run that is
/// stopped ends only with it.
public struct AsyncPushDeliveries<Rows: AsyncSequence & Sendable>: AsyncSequence where Rows.Element: Sendable {
    /// A row with its outcome.
    public typealias Element = PushDelivery<Rows.Element>
    /// What the input throws.
    public typealias Failure = Rows.Failure

    /// One run of the bulk call.
    public struct AsyncIterator: AsyncIteratorProtocol {
        let run: BulkRun<Rows.Element>
        let input: BulkInput<Rows.Element, Rows.Failure>

        /// The next outcome, whichever comes first; nil when every row that was pulled has had its own.
        ///
        /// - Throws: what the input threw, after the outcomes of all rows before.
        public mutating func next() async throws(Rows.Failure) -> PushDelivery<Rows.Element>? {
            try await self.next(isolation: nil)
        }

        /// As `next()`, without leaving the caller's actor.
        public mutating func next(
            isolation actor: isolated (any Actor)?
        ) async throws(Rows.Failure) -> PushDelivery<Rows.Element>? {
            if let delivery = self.run.takeReady() { return delivery }
            if let delivery = await self.run.next() { return delivery }
            if let failure = self.input.failure { throw failure }
            return nil
        }
    }

    /// The handle of the call while it runs.
    public let control: BulkControl
    private let client: APNSClient
    private let options: BulkOptions
    private let rows: Rows
    private let push: (Rows.Element) -> BulkPull

    init(client: APNSClient, options: BulkOptions, rows: Rows, push: @escaping (Rows.Element) -> BulkPull) {
        self.client = client
        self.options = options
        self.control = options.makeControl()
        self.rows = rows
        self.push = push
    }

    /// Begins a run; the input is pulled from now on.
    public func makeAsyncIterator() -> AsyncIterator {
        let input = BulkInput<Rows.Element, Rows.Failure>()
        let push = self.push
        let run = BulkRun<Rows.Element>(
            core: self.client.core,
            options: self.options,
            control: self.control,
            closeInput: { input.close() },
            pull: { place, room in
                switch input.take(room: room) {
                case (let element?, _):
                    place.initialize(to: element)
                    return push(element)
                case (nil, let isOver):
                    return isOver ? .end : .later
                }
            }
        )
        input.start(self.rows, onArrival: run.wake)
        return AsyncIterator(run: run, input: input)
    }
}
