/// The outcomes of a bulk call over an asynchronous input, in the order in which they arrive.
///
/// A separate task reads the input. If the input throws, the loop throws that error after the outcomes of all elements
/// pulled before it.
///
/// The loop also ends when the call is stopped, cancelled or shut down. ``BulkProgress/isFinished`` of the control's
/// progress says whether it reached the end of the input.
///
/// If you leave the loop early, elements that were read but not sent are lost to the input; the control's
/// `completedPrefix` shows how many elements are done. The input must end when its task is cancelled, as the inputs of
/// the standard library do, because a stopped run waits for the input to end.
public struct AsyncPushDeliveries<Rows: AsyncSequence & Sendable>: AsyncSequence where Rows.Element: Sendable {
    /// A row with its outcome.
    public typealias Element = PushDelivery<Rows.Element>
    /// The input's error.
    public typealias Failure = Rows.Failure

    /// One run of the bulk call.
    public struct AsyncIterator: AsyncIteratorProtocol {
        let call: BulkCall<Rows.Element>
        let input: BulkInput<Rows.Element, Rows.Failure>

        /// The next outcome, in order of arrival. Nil once every pulled row has its outcome, also if the call ended
        /// before the end of the input.
        ///
        /// - Throws: the input's error, after the outcomes of all rows before it.
        public mutating func next() async throws(Rows.Failure) -> PushDelivery<Rows.Element>? {
            try await self.next(isolation: nil)
        }

        /// Like `next()`, but stays on the caller's actor.
        public mutating func next(
            isolation actor: isolated (any Actor)?
        ) async throws(Rows.Failure) -> PushDelivery<Rows.Element>? {
            if let delivery = self.call.takeReady() { return delivery }
            if let delivery = await self.call.next() { return delivery }
            if let failure = self.input.failure { throw failure }
            return nil
        }
    }

    /// Controls the call while it runs.
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

    /// Creates a run. The first call of `next()` pulls the first element.
    public func makeAsyncIterator() -> AsyncIterator {
        let input = BulkInput<Rows.Element, Rows.Failure>()
        let push = self.push
        let call = BulkCall<Rows.Element>(
            sender: self.sender,
            options: self.options,
            control: self.control,
            close: { input.close() },
            inputEnd: { input.failure != nil ? .failed : input.isFinished ? .finished : .closed },
            pull: { place, room in
                switch input.take(room: room, into: place) {
                case .element: push(place.pointee)
                case .later: .later
                case .end: .end
                }
            }
        )
        input.start(self.rows, onArrival: call.engine.wake)
        return AsyncIterator(call: call, input: input)
    }
}
