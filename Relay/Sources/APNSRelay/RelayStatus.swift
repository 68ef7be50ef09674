import PushQueue

/// The state of the rest of the relay, for the API.
protocol RelayStatus: Sendable {
    /// The routes, each with its state.
    func routes() async -> [RouteStatus]
    /// Counters since the start of the process.
    var totals: RelayTotals { get }
    /// The webhooks, each with its state.
    func webhooks() async -> [WebhookStatus]
    /// Skips the current request of a webhook. Returns the number of its outcomes; nil if this is not the current request.
    func skipWebhookRequest(_ webhook: String, _ id: String) async throws(QueueError) -> Int?
    /// The relays that share the queue, this one first.
    func members() -> [FleetMember]
    /// How far the clock is ahead of what is plausible; nil if it is plausible. Nothing expires while it is ahead.
    func clockJump() -> Duration?
    /// Accepts the clock, because an operator has checked it.
    func confirmClock() async throws(QueueError)
    /// Applies stored settings of the fleet to this relay at once.
    func didStore(_ settings: [UInt8])
    /// What keeps pushes from being delivered or accepted, or outcomes from a webhook. Returns at once.
    func problems() -> [DeliveryProblem]
    /// The counters of the last five minutes, the oldest first.
    var history: [DeliveryWatch.Sample] { get }
    /// Why the relay is not ready to accept pushes; nil if it is ready. Show it only to operators: it may name files.
    func notReady() async -> String?
    /// Counts the pushes of a request that were stored, and those that were duplicates.
    func count(queued: [Route: Int], duplicates: [Route: Int])
    /// Counts a call of the queue that failed.
    func countStorageError(_ error: QueueError)
    /// Tells the dispatcher that there are new pushes.
    func signal()
}

/// The dispatcher's activity for a route.
struct RouteStatus: Sendable, Hashable {
    enum State: String, Sendable {
        /// Pushes are being sent.
        case sending
        /// Nothing is due.
        case idle
        /// The route is paused after an error, until APNs has accepted or rejected a push, or until an operator resumes its
        /// app. `reason` says why.
        case paused
    }

    var route: Route
    var state: State
    /// Why the route is or was paused; nil after APNs has accepted or rejected a push.
    var reason: String?
    /// When the route sends a few pushes to test whether the error is gone; nil while it does.
    var pausedUntil: QueueTime?
}

/// Counters since the start of the process.
struct RelayTotals: Sendable, Hashable {
    /// Pushes stored by requests.
    var queued = 0
    /// Pushes that requests submitted again.
    var duplicates = 0
    var accepted = 0
    var rejected = 0
    var notProcessed = 0
    var notSent = 0
    var unknown = 0
    /// Attempts after which a push returned to the queue.
    var retried = 0
    var parked = 0
    /// Outcomes that were not stored, because their push already had one.
    var late = 0
}

/// The state of a webhook.
struct WebhookStatus: Sendable, Hashable {
    /// A request that the receiver has yet to acknowledge.
    struct Request: Sendable, Hashable {
        var id: String
        /// The number of outcomes when it was made.
        var outcomes: Int
        /// When it was made, by the clock for leases.
        var since: QueueTime
        /// When its first outcome was settled.
        var oldestOutcome: QueueTime
    }

    /// A receiver that has not acknowledged a request for this long needs an operator.
    static let patience = Duration.seconds(3_600)

    var name: String
    var url: String
    /// The position of the last outcome that was acknowledged or skipped.
    var position: Int64
    /// The number of failed attempts of the current request.
    var failures: Int
    var lastError: String?
    /// Why nothing is posted although no request has failed: the stored position cannot be read.
    var fault: String?
    var nextAttempt: QueueTime?
    /// The current request; nil if there is none.
    var request: Request?

    /// Whether the receiver has not acknowledged the current request for an hour.
    ///
    /// - Parameter now: the time for leases.
    func isStuck(now: QueueTime) -> Bool {
        self.request.map { $0.since.duration(to: now) >= Self.patience } ?? false
    }
}
