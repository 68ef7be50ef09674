import APNSModel
import PushQueue

/// A batch and its progress, as the API reports it.
struct BatchJSON: Encodable, Sendable {
    enum State: String, Encodable {
        /// Devices are being stored. Nothing is sent yet.
        case receiving
        case running
        case paused
        /// The pushes that were not being sent are cancelled, or will be in a moment.
        case cancelled
        /// Every push has its outcome.
        case finished
    }

    struct Outcomes: Encodable {
        var accepted: Int
        var rejected: Int
        var notProcessed: Int
        var notSent: Int
        var unknown: Int
    }

    var id: String
    /// The batch's own name, else its idempotency key.
    @OrNull var name: String?
    var state: State
    var app: String
    var environment: String
    var caller: String
    @OrNull var idempotencyKey: String?
    @OrNull var metadata: JSONText?
    var createdAt: Double
    var notBefore: Double
    var deadline: Double
    @OrNull var pushesPerSecond: Double?
    /// The number of lines that are stored, or were invalid.
    var lines: Int
    /// The lines that were left out.
    var invalid: Int
    var queued: Int
    /// Claimed or written.
    var inFlight: Int
    var parked: Int
    var outcomes: Outcomes
    /// The rejected pushes whose device token is dead.
    var deadTokens: Int

    /// - Parameter counts: at a later moment than the state, so that they contain all lines of the state.
    init(_ batch: Batch, _ state: BatchState, _ counts: BatchCounts) {
        let (pushes, outcomes) = (counts.pushes, counts.outcomes)
        let unsettled = pushes.unsettled
        self.id = "\(batch.id)"
        self.name = batch.name ?? batch.idempotencyKey
        self.state =
            if state.isCancelled { .cancelled } else if !state.isComplete { .receiving } else if unsettled == 0 {
                .finished
            } else if state.isPaused { .paused } else { .running }
        self.app = batch.app
        self.environment = batch.environment
        self.caller = batch.caller
        self.idempotencyKey = batch.idempotencyKey
        self.metadata = batch.metadata.map { JSONText($0) }
        self.createdAt = QueueTime(millisecondsSince1970: batch.createdAt).seconds
        self.notBefore = QueueTime(millisecondsSince1970: batch.notBefore).seconds
        self.deadline = QueueTime(millisecondsSince1970: batch.deadline).seconds
        self.pushesPerSecond = state.pushesPerSecond
        // A request stores pushes before it counts their lines.
        self.lines = max(state.lines, state.invalid + counts.total)
        self.invalid = state.invalid
        self.queued = pushes.queued
        self.inFlight = pushes.claimed + pushes.written
        self.parked = pushes.parked
        self.outcomes = Outcomes(
            accepted: outcomes[.accepted] ?? 0,
            rejected: outcomes[.rejected] ?? 0,
            notProcessed: outcomes[.notProcessed] ?? 0,
            notSent: outcomes[.notSent] ?? 0,
            unknown: outcomes[.unknown] ?? 0
        )
        self.deadTokens = counts.deadTokens
    }
}
