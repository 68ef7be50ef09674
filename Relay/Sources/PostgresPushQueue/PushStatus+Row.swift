import APNSModel
import PushQueue

extension Route.Destination {
    /// Reads the columns `app`, `environment` and `lane`.
    init(_ row: Row) {
        self.init(
            app: row.text("app"),
            environment: row.text("environment"),
            lane: row.int("lane") == 0 ? .interactive : .bulk
        )
    }
}

extension Route {
    /// Stands for no batch in the tables.
    static let noBatch = APNSID(high: 0, low: 0)

    /// Reads the columns `app`, `environment`, `lane`, `caller` and `batch`.
    init(_ row: Row) {
        let destination = Destination(row)
        self.init(
            app: destination.app,
            environment: destination.environment,
            lane: destination.lane,
            caller: row.text("caller"),
            batch: row.id("batch").flatMap { $0 == Self.noBatch ? nil : $0 }
        )
    }
}

extension PushStatus {
    /// Reads a row of `apns.status` or `apns.unsettled`; nil if the token is not one.
    init?(_ row: Row) {
        let states: [State] = [.queued, .claimed, .written, .parked, .settled]
        self.init(row, state: states[max(0, min(row.int("state"), states.count - 1))])
    }

    /// Reads a row of `apns.outcomes_after`; nil if the token is not one.
    init?(outcomeIn row: Row) {
        self.init(row, state: .settled)
    }

    private init?(_ row: Row, state: State) {
        guard let id = row.id("id"), let token = row.withBytes("token", TokenBytes.token) else { return nil }
        self.init(
            id: id,
            state: state,
            route: Route(row),
            token: token,
            queuedAt: QueueTime(millisecondsSince1970: row.int64("queued_at")),
            notBefore: QueueTime(millisecondsSince1970: row.int64("due")),
            deadline: QueueTime(millisecondsSince1970: row.int64("deadline")),
            attempts: row.int("attempts"),
            outcome: PushOutcome(row, of: id),
            settledAt: state == .settled ? QueueTime(millisecondsSince1970: row.int64("settled_at")) : nil,
            idempotencyKey: row.optionalText("key"),
            metadata: row.optionalText("metadata")
        )
    }
}
