/// What those who wait for a trial's verdict are told.
struct TrialEvents: Sendable {
    enum Event: Sendable, Equatable {
        /// A push went with it and gave no verdict.
        case inconclusive
        case accepted
        case refused(String)
        /// Another trial has begun, or the authentication was revoked.
        case superseded
    }

    let stream: AsyncStream<Event>
    private let continuation: AsyncStream<Event>.Continuation

    init() {
        (self.stream, self.continuation) = AsyncStream.makeStream(bufferingPolicy: .unbounded)
    }

    func send(_ event: Event) { self.continuation.yield(event) }
}
