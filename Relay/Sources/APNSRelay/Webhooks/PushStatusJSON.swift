import APNSModel
import PushQueue

/// The JSON form of a push's status.
struct PushStatusJSON: Encodable {
    private let push: PushStatus
    private let cursor: FeedCursor?

    init(_ push: PushStatus, cursor: FeedCursor? = nil) {
        self.push = push
        self.cursor = cursor
    }

    private enum CodingKeys: String, CodingKey {
        case id, app, environment, lane, token, caller, state, queuedAt, notBefore, deadline, attempts, outcome
        case settledAt, cursor
    }

    private enum OutcomeKeys: String, CodingKey {
        case outcome, status, reason, code, message, apnsUniqueID, attempts, tokenInvalidSince, advice
        case retryAfterSeconds
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        let push = self.push
        try container.encode(push.id.description, forKey: .id)
        try container.encode(push.route.app, forKey: .app)
        try container.encode(push.route.environment, forKey: .environment)
        try container.encode(push.route.lane == .interactive ? "interactive" : "bulk", forKey: .lane)
        try container.encode(push.token.hexadecimal, forKey: .token)
        try container.encode(push.caller, forKey: .caller)
        try container.encode(push.state.rawValue, forKey: .state)
        try container.encode(Self.seconds(push.queuedAt), forKey: .queuedAt)
        try container.encode(Self.seconds(push.notBefore), forKey: .notBefore)
        try container.encode(Self.seconds(push.deadline), forKey: .deadline)
        try container.encode(push.attempts, forKey: .attempts)
        try container.encode(push.settledAt.map(Self.seconds), forKey: .settledAt)
        try container.encodeIfPresent(self.cursor.map { "\($0.position)" }, forKey: .cursor)
        guard let outcome = push.outcome else {
            try container.encodeNil(forKey: .outcome)
            return
        }
        var fields = container.nestedContainer(keyedBy: OutcomeKeys.self, forKey: .outcome)
        let rejection = outcome.error?.rejection
        try fields.encode(outcome.certainty.rawValue, forKey: .outcome)
        try fields.encode(outcome.status, forKey: .status)
        try fields.encode(outcome.error?.reason?.rawValue, forKey: .reason)
        try fields.encode(outcome.error?.code.rawValue, forKey: .code)
        try fields.encode(outcome.error?.message, forKey: .message)
        try fields.encode(outcome.receipt?.apnsUniqueID ?? rejection?.apnsUniqueID, forKey: .apnsUniqueID)
        try fields.encode(outcome.attempts, forKey: .attempts)
        try fields.encode(outcome.invalidation?.secondsSince1970, forKey: .tokenInvalidSince)
        try fields.encode(outcome.advice.rawValue, forKey: .advice)
        try fields.encode(
            outcome.retryAfter.map { Double($0.components.seconds) + Double($0.components.attoseconds) / 1e18 },
            forKey: .retryAfterSeconds
        )
    }

    private static func seconds(_ time: QueueTime) -> Double { Double(time.millisecondsSince1970) / 1_000 }
}
