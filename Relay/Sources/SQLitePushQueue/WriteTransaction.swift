import APNSModel
import GRDB
import PushQueue

/// The writing operations, in a transaction that the caller begins and ends.
final class WriteTransaction {
    let db: Database
    /// The time of day.
    let now: QueueTime
    /// The time for leases.
    let leaseNow: QueueTime
    /// The time that decides which pushes are overdue and which rows are pruned. It is never later than `now`.
    let expiryNow: QueueTime
    var state: WriterState
    private var statements: [ObjectIdentifier: PreparedSQL] = [:]

    init(
        _ db: Database,
        now: QueueTime,
        leaseNow: QueueTime,
        expiryNow: QueueTime? = nil,
        state: WriterState
    ) {
        self.db = db
        self.now = now
        self.leaseNow = leaseNow
        self.expiryNow = min(expiryNow ?? now, now)
        self.state = state
    }

    /// The prepared statement of a text. Do not use it again while its rows are being read.
    func prepared(_ sql: SQLText) throws -> PreparedSQL {
        if let statement = self.statements[ObjectIdentifier(sql)] { return statement }
        let statement = try self.db.prepared(sql.text)
        self.statements[ObjectIdentifier(sql)] = statement
        return statement
    }

    /// A row of `push`, without the columns that only a sender needs.
    struct Push {
        var position: Int64
        var id: APNSID
        var route: Int64
        var due: Int64
        /// The number of marks before the current one.
        var attempts: Int
        var hasAttempt: Bool
        var resends: Bool
        var place: Place

        var isParked: Bool { self.place == .parked }
        /// The number of marks, with the current one.
        var marks: Int { self.attempts + (self.place.isWritten ? 1 : 0) }
    }

    /// The state of a push without an outcome, and so the table that it is in besides `push`.
    enum Place: Equatable {
        case queued
        case claimed(epoch: Int64)
        case written(epoch: Int64)
        case parked

        var epoch: Int64? {
            switch self {
            case .claimed(let epoch), .written(let epoch): epoch
            case .queued, .parked: nil
            }
        }

        var isWritten: Bool { if case .written = self { true } else { false } }
    }

    static let claimedState: Int64 = 1
    static let writtenState: Int64 = 2

    func push(at position: Int64) throws -> Push? {
        let sql = try self.prepared(Self.selectPush)
        sql.bind(1, position)
        return try sql.first { row in
            guard let id = row.id(0) else {
                throw DatabaseError(resultCode: .SQLITE_CORRUPT, message: "push \(position) has no id")
            }
            return Push(
                position: position,
                id: id,
                route: row.int64(1),
                due: row.int64(2),
                attempts: row.count(3),
                hasAttempt: row.int64(4) != 0,
                resends: row.int64(5) != 0,
                place: Self.place(row)
            )
        }
    }

    private static let selectPush = SQLText(
        """
        SELECT id, push.route, due, attempts, tried, resends, expires IS NULL, state, epoch
        FROM push LEFT JOIN flight ON flight.position = push.position WHERE push.position = ?
        """
    )

    private static func place(_ row: PreparedSQL) -> Place {
        if row.int64(6) != 0 { return .parked }
        switch row.optionalInt64(7) {
        case nil: return .queued
        case Self.writtenState: return .written(epoch: row.int64(8))
        default: return .claimed(epoch: row.int64(8))
        }
    }

    func push(of id: APNSID) throws -> Push? {
        let sql = try self.db.prepared("SELECT position FROM ident WHERE id = ?")
        sql.bind(1, id)
        return try sql.first({ $0.int64(0) }).flatMap { try self.push(at: $0) }
    }

    /// Stores the outcome of a push and deletes the push.
    func settle(_ push: Push, with outcome: PushOutcome) throws {
        try self.count(try self.store(outcome, of: push), of: push.route)
    }

    /// Does what ``settle(_:with:)`` does, without counting the outcome for its batch.
    ///
    /// - Returns: the kind of the stored outcome, which is merged with the outcome of earlier attempts.
    func store(_ outcome: PushOutcome, of push: Push) throws -> OutcomeKind {
        let outcome = push.hasAttempt ? outcome.merged(with: try self.attempt(of: push)) : outcome
        let stored = StoredOutcome(outcome, of: push.id)
        try self.remove(push)
        let cursor = self.state.nextCursor
        self.state.nextCursor &+= 1
        let insert = try self.prepared(Self.insertOutcome)
        insert.bind(1, cursor)
        insert.bind(2, push.marks)
        insert.bind(3, self.now.millisecondsSince1970)
        insert.bind(4, stored.invalidates ? 1 : 0)
        OutcomeColumns.bind(stored, to: insert, at: 5)
        insert.bind(8, push.position)
        try insert.run()
        let delete = try self.prepared(Self.deletePush)
        delete.bind(1, push.position)
        try delete.run()
        // The retention of its idempotency key, if it has one, begins now.
        let key = try self.prepared(Self.settleKey)
        key.bind(1, self.now.millisecondsSince1970)
        key.bind(2, push.position)
        try key.run()
        if push.hasAttempt {
            let delete = try self.db.prepared("DELETE FROM attempt WHERE position = ?")
            delete.bind(1, push.position)
            try delete.run()
        }
        return OutcomeKind(certainty: stored.certainty, invalidates: stored.invalidates)
    }

    private static let insertOutcome = SQLText(
        """
        INSERT INTO outcome (cursor, position, id, route, queued_at, due, deadline, token, attempts, settled_at,
        invalidates, metadata, \(OutcomeColumns.names))
        SELECT ?, position, id, route, queued_at, due, deadline, token, ?, ?, ?, metadata, \
        \(OutcomeColumns.placeholders) FROM push WHERE position = ?
        """
    )
    private static let deletePush = SQLText("DELETE FROM push WHERE position = ?")
    private static let settleKey = SQLText("UPDATE idempotency SET settled_at = ? WHERE position = ?")
    private static let deleteFlight = SQLText("DELETE FROM flight WHERE position = ?")

    /// Removes a push from `queue`, `flight` or `parked`, and from the totals.
    func remove(_ push: Push) throws {
        switch push.place {
        case .claimed, .written:
            let sql = try self.prepared(Self.deleteFlight)
            sql.bind(1, push.position)
            try sql.run()
            self.state.totals.add(-1, to: push.place.isWritten ? .written : .claimed, of: push.route)
        case .parked:
            let sql = try self.db.prepared("DELETE FROM parked WHERE position = ?")
            sql.bind(1, push.position)
            try sql.run()
            self.state.totals.add(-1, to: .parked, of: push.route)
        case .queued:
            let sql = try self.db.prepared("DELETE FROM queue WHERE route = ? AND due = ? AND position = ?")
            sql.bind(1, push.route)
            sql.bind(2, push.due)
            sql.bind(3, push.position)
            try sql.run()
            self.state.totals.add(-1, to: .queued, of: push.route)
        }
    }

    func addQueued(position: Int64, route: Int64, due: Int64) throws {
        let sql = try self.db.prepared("INSERT INTO queue (route, due, position) VALUES (?, ?, ?)")
        sql.bind(1, route)
        sql.bind(2, due)
        sql.bind(3, position)
        try sql.run()
    }

    // MARK: Attempts

    /// The outcome of the attempts so far.
    func attempt(of push: Push) throws -> PushOutcome? {
        let sql = try self.db.prepared("SELECT \(OutcomeColumns.names) FROM attempt WHERE position = ?")
        sql.bind(1, push.position)
        return try sql.first { OutcomeColumns.read($0, at: 0, of: push.id) }
    }

    /// Keeps the outcome of an attempt, merged with earlier ones, for a push that does not end with it.
    ///
    /// - Returns: the value of the column `tried`: 0 without outcome, 2 if the push may have been processed, else 1.
    func addAttempt(_ outcome: PushOutcome?, of push: Push) throws -> Int {
        let earlier = push.hasAttempt ? try self.attempt(of: push) : nil
        guard let merged = outcome?.merged(with: earlier) else { return Self.tried(earlier) }
        try self.setAttempt(merged, of: push.id, at: push.position)
        return Self.tried(merged)
    }

    func setAttempt(_ outcome: PushOutcome, of id: APNSID, at position: Int64) throws {
        let sql = try self.db.prepared(
            """
            INSERT OR REPLACE INTO attempt (position, \(OutcomeColumns.names))
            VALUES (?, \(OutcomeColumns.placeholders))
            """
        )
        sql.bind(1, position)
        OutcomeColumns.bind(StoredOutcome(outcome, of: id), to: sql, at: 2)
        try sql.run()
    }

    static func tried(_ outcome: PushOutcome?) -> Int {
        outcome.map { $0.certainty == .unknown ? 2 : 1 } ?? 0
    }
}
