import APNSModel
import PushQueue

/// The pushes of a call of `apns.claim`.
struct ClaimBatch: Sendable {
    var pushes: [ClaimedPush] = []
    /// Pushes whose stored form is not one of this relay, perhaps because a person has changed it.
    var unreadable: [Claim] = []
    /// Whether pushes that are due must be settled first, because they are overdue.
    var isBlocked = false

    init(_ rows: Rows) {
        for index in 0..<rows.count {
            let row = rows[index]
            guard !row.isNull(0), let id = row.id(2) else {
                self.isBlocked = true
                continue
            }
            let claim = Claim(id: id, epoch: row.int64(1), position: row.int64(0))
            if let push = Self.push(row, claim) { self.pushes.append(push) } else { self.unreadable.append(claim) }
        }
    }

    private static func push(_ row: Row, _ claim: Claim) -> ClaimedPush? {
        guard let token = row.withBytes(3, TokenBytes.token) else { return nil }
        let collapse = row.optionalText(8)
        let collapseID = collapse.flatMap { try? CollapseID($0) }
        guard collapse == nil || collapseID != nil else { return nil }
        let expiration: Expiration =
            switch row.optionalInt64(7) {
            case nil: .systemDefault
            case 0: .immediate
            case .some(let seconds): .at(secondsSince1970: seconds)
            }
        let push = try? PreparedPush(
            topic: row.text(4),
            pushType: PushType(rawValue: row.text(5)),
            payload: row.bytes(9),
            priority: row.optionalInt64(6).map { Priority(rawValue: Int(clamping: $0)) },
            expiration: expiration,
            collapseID: collapseID,
            skippingValidation: true
        )
        return push.map { push in
            ClaimedPush(
                claim: claim,
                token: token,
                push: push,
                deadline: QueueTime(millisecondsSince1970: row.int64(11)),
                queuedAt: QueueTime(millisecondsSince1970: row.int64(10)),
                attempts: row.int(12),
                resendsUnknown: row.bool(13),
                mayBeProcessed: row.int64(14) == 2
            )
        }
    }
}

/// A page of the feed as `apns.outcomes_after` returns it.
struct FeedPart: Sendable {
    var entries: [FeedEntry] = []
    /// Where the next page begins; nil for the given cursor.
    var end: Int64?
    /// The last cursor, and the last one that was deleted.
    var last: Int64 = 0
    var pruned: Int64 = 0
    var generations = FeedGenerations([])

    init(_ rows: Rows) {
        for index in 0..<rows.count {
            let row = rows[index]
            guard row.isNull(1) else {
                // A row whose token no longer is one is left out.
                guard let push = PushStatus(row, settledAt: 14) else { continue }
                self.entries.append(FeedEntry(cursor: FeedCursor(position: row.int64(0)), push: push))
                continue
            }
            self.end = row.optionalInt64(0)
            self.last = row.int64(15)
            self.pruned = row.int64(16)
            self.generations = FeedGenerations(
                zip(row.int64s(17), row.int64s(18)).map { .init(id: UInt32(truncatingIfNeeded: $0), start: $1) }
            )
        }
    }

    func page(after cursor: FeedCursor?) -> FeedPage {
        let end = self.end.flatMap { $0 > max(cursor?.position ?? 0, 0) ? self.generations.cursor(at: $0) : nil }
        return FeedPage(
            entries: self.entries.map {
                FeedEntry(cursor: self.generations.cursor(at: $0.cursor.position), push: $0.push)
            },
            cursor: end ?? cursor
        )
    }
}

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
        self.init(row, first: 0, state: state, outcome: 11, settledAt: state == .settled ? 14 : nil)
    }

    /// Reads a row of `apns.outcomes_after`; nil if the token is not one.
    init?(_ row: Row, settledAt: Int32) {
        self.init(row, first: 1, state: .settled, outcome: 11, settledAt: settledAt)
    }

    private init?(_ row: Row, first: Int32, state: State, outcome: Int32, settledAt: Int32?) {
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
            settledAt: settledAt.map { QueueTime(millisecondsSince1970: row.int64($0)) }
        )
    }
}

extension Parameters {
    /// Adds the four arrays certainty, sends, invalidates and result.
    mutating func add(_ outcomes: [OutcomeColumns?]) {
        self.add(outcomes.lazy.map { $0?.certainty })
        self.add(outcomes.lazy.map { $0?.sends })
        self.add(outcomes.lazy.map { $0?.invalidates })
        self.addJSON(outcomes.lazy.map { $0?.result })
    }
}
