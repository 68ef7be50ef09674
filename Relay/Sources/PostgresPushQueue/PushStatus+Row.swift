import APNSModel
import PushQueue

extension Route {
    /// Reads three columns: app, environment and lane.
    init(_ row: Row, at first: Int32) {
        self.init(
            app: row.text(first),
            environment: row.text(first + 1),
            lane: row.int64(first + 2) == 0 ? .interactive : .bulk
        )
    }
}

extension PushStatus {
    /// Reads a row of `apns.status` or `apns.unsettled`; nil if the token is not one.
    init?(_ row: Row) {
        let states: [State] = [.queued, .claimed, .written, .parked, .settled]
        let state = states[max(0, min(row.int(10), states.count - 1))]
        self.init(row, first: 0, state: state, outcome: 11, key: 14, settledAt: state == .settled ? 16 : nil)
    }

    /// Reads a row of `apns.outcomes_after`; nil if the token is not one.
    init?(outcomeIn row: Row) {
        self.init(row, first: 1, state: .settled, outcome: 11, key: 15, settledAt: 14)
    }

    private init?(_ row: Row, first: Int32, state: State, outcome: Int32, key: Int32, settledAt: Int32?) {
        guard let id = row.id(first), let token = row.withBytes(first + 5, TokenBytes.token) else { return nil }
        self.init(
            id: id,
            state: state,
            route: Route(row, at: first + 1),
            token: token,
            caller: row.text(first + 4),
            queuedAt: QueueTime(millisecondsSince1970: row.int64(first + 6)),
            notBefore: QueueTime(millisecondsSince1970: row.int64(first + 7)),
            deadline: QueueTime(millisecondsSince1970: row.int64(first + 8)),
            attempts: row.int(first + 9),
            outcome: OutcomeColumns.outcome(row, at: outcome, of: id),
            settledAt: settledAt.map { QueueTime(millisecondsSince1970: row.int64($0)) },
            idempotencyKey: row.optionalText(key),
            metadata: row.optionalText(key + 1)
        )
    }
}
