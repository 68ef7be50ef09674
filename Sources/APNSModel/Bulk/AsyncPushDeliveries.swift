/// The outcomes of a bulk call over an asynchronous input, in the order in which they come. A task of its own reads the
/// input. The loop throws what the input throws, after the outcomes of all elements that were pulled before.
///
/// If you leave the loop early, elements that were read and not sent are lost to the input: the control's
/// `completedPrefix` says what is done. The input must end when its task is cancelled, as those of the standard library
/// do: a stopped run waits for the input to end.
public struct AsyncPushDeliveries<Rows: AsyncSequence & Sendable>: AsyncSequence where Rows.Element: Sendable {
    /// A row with its outcome.
    public typealias Element = PushDelivery<Rows.Element>
    /// What the input throws.
    public typealias Failure = Rows.Failure

    /// One run of the bulk call.
    public struct AsyncIterator: AsyncIteratorProtocol {
        let call: BulkCall<Rows.Element>
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
            if let delivery = self.call.takeReady() { return delivery }
            if let delivery = await self.call.next() { return delivery }
            if let failure = self.input.failure { throw failure }
            return nil
        }
    }

    /// The handle of the call while it runs.
    public let control: BulkControl
    private let sender: any PushSender
    private let options: BulkOptions
    private let rows: Rows
    private let push: (Rows.Element) -> BulkPull

    init(sender: any PushSender, options: BulkOptions, rows: Rows, push: @escaping (Rows.Element) -> BulkPull) {
        self.sender = sender
        self.options = options
        self.control = options.makeControl()
        self.rows = rows
        self.push = push
    }

    /// Begins a run. Nothing is pulled before its first `next()`.
    public func makeAsyncIterator() -> AsyncIterator {
        let input = BulkInput<Rows.Element, Rows.Failure>()
        let push = self.push
        let call = BulkCall<Rows.Element>(
            sender: self.sender,
            options: self.options,
            control: self.control,
            close: { input.close() },
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
        input.start(self.rows, onArrival: call.engine.wake)
        return AsyncIterator(call: call, input: input)
    }
}
