import APNSModel
import PushQueue

extension Route {
    /// Stands for no batch in the tables.
    static let noBatch = APNSID(high: 0, low: 0)

    /// Reads five columns: app, environment, lane, batch and caller.
    init(_ row: Row, at first: Int32) {
        self.init(
            app: row.text(first),
            environment: row.text(first + 1),
            lane: row.int64(first + 2) == 0 ? .interactive : .bulk,
            caller: row.text(first + 4),
            batch: row.id(first + 3).flatMap { $0 == Self.noBatch ? nil : $0 }
        )
    }
}

extension PushStatus {
    /// Reads a row of `apns.status` or `apns.unsettled`; nil if the token is not one.
    init?(_ row: Row) {
        let states: [State] = [.queued, .claimed, .written, .parked, .settled]
        let state = states[max(0, min(row.int(11), states.count - 1))]
        self.init(row, first: 0, state: state, outcome: 12, key: 15, settledAt: state == .settled ? 17 : nil)
    }

    /// Reads a row of `apns.outcomes_after`; nil if the token is not one.
    init?(outcomeIn row: Row) {
        self.init(row, first: 1, state: .settled, outcome: 12, key: 16, settledAt: 15)
    }

    private init?(_ row: Row, first: Int32, state: State, outcome: Int32, key: Int32, settledAt: Int32?) {
        guard let id = row.id(first), let token = row.withBytes(first + 6, TokenBytes.token) else { return nil }
        self.init(
            id: id,
            state: state,
            route: Route(row, at: first + 1),
            token: token,
            queuedAt: QueueTime(millisecondsSince1970: row.int64(first + 7)),
            notBefore: QueueTime(millisecondsSince1970: row.int64(first + 8)),
            deadline: QueueTime(millisecondsSince1970: row.int64(first + 9)),
            attempts: row.int(first + 10),
            outcome: PushOutcome(row, at: outcome, of: id),
            settledAt: settledAt.map { QueueTime(millisecondsSince1970: row.int64($0)) },
            idempotencyKey: row.optionalText(key),
            metadata: row.optionalText(key + 1)
        )
    }
}
