/// The events of a trial, for callers that wait for its verdict.
struct TrialEvents: Sendable {
    enum Event: Sendable, Equatable {
        /// A push tried the candidate without a verdict.
        case inconclusive
        case accepted
        case refused(String)
        /// Another trial has begun, another credential is active without a trial, the authentication was revoked, or
        /// the client or the candidate's tree has ended.
        case superseded
    }

    let stream: AsyncStream<Event>
    private let continuation: AsyncStream<Event>.Continuation

    init() {
        (self.stream, self.continuation) = AsyncStream.makeStream(bufferingPolicy: .unbounded)
    }

    func send(_ event: Event) { self.continuation.yield(event) }
}
