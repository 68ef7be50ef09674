public import PushQueue
import Synchronization

/// What the metrics report about the server behind a queue, as far as the role may see it.
public struct DatabaseState: Sendable, Hashable {
    /// A table of the queue.
    public struct Table: Sendable, Hashable {
        public var name: String
        /// Its size with indexes and TOAST.
        public var bytes: Int
        /// The server's estimate of its rows.
        public var liveRows: Int
        /// The server's estimate of the deleted rows and old versions that are still in it.
        public var deadRows: Int

        package init(name: String, bytes: Int, liveRows: Int, deadRows: Int) {
            self.name = name
            self.bytes = bytes
            self.liveRows = liveRows
            self.deadRows = deadRows
        }
    }

    /// What keeps the server from removing deleted rows.
    public enum Holder: String, Sendable, Hashable, CaseIterable {
        /// A transaction of a session in this database.
        case session
        /// A transaction that was prepared for a two-phase commit.
        case prepared
        /// A replication slot.
        case replicationSlot = "slot"
        /// A query on a standby that reports it without a slot.
        case standby
    }

    /// The tables of the schema `apns`.
    public package(set) var tables: [Table] = []
    /// The age of the oldest holder of each kind. Holders without a known age are missing.
    public package(set) var oldest: [Holder: Duration] = [:]
    /// The id that the server gives to the next transaction.
    var nextID: Int64 = 0
    /// The oldest id that each kind of holder needs.
    var heldIDs: [Holder: Int64] = [:]

    /// A state of nothing. For tests.
    package init() {}

    /// Reads the result of ``query`` or ``transactions``.
    init(_ rows: Rows) {
        for index in 0..<rows.count {
            let row = rows[index]
            switch row.text("kind") {
            case "next":
                self.nextID = row.int64("value")
            case "held":
                guard let holder = Holder(rawValue: row.text("name")) else { continue }
                self.heldIDs[holder] = row.int64("value")
                self.oldest[holder] = row.optionalInt64("other").map { .milliseconds(max($0, 0)) }
            case "table":
                self.tables.append(
                    Table(
                        name: row.text("name"),
                        bytes: row.int("value"),
                        liveRows: row.int("other"),
                        deadRows: row.int("dead")
                    )
                )
            default: break
            }
        }
    }

    /// Replaces the ages that the server knows by those from earlier readings, which every role can make.
    ///
    /// A transaction can be much older than the rows that it keeps: its snapshot may be new. So the server's ages are only
    /// used for ids that were given before the first reading.
    mutating func setAges(_ times: inout TransactionTimes, now: ContinuousClock.Instant) {
        times.read(next: self.nextID, oldest: self.heldIDs.values.min() ?? self.nextID, at: now)
        for holder in Holder.allCases {
            guard let id = self.heldIDs[holder] else {
                self.oldest[holder] = .zero
                continue
            }
            self.oldest[holder] = times.age(of: id, at: now) ?? max(times.span(at: now), self.oldest[holder] ?? .zero)
        }
    }

    /// Selects what keeps the server from removing deleted rows: one row for each fact, with its kind, a name and up to three
    /// numbers.
    ///
    /// A plain role sees the ids, the databases and the roles of all sessions, but neither the kinds nor the times of those
    /// that belong to other roles. A `VACUUM` keeps no rows.
    static let transactions = """
        WITH held AS (
          SELECT CASE WHEN datid IS NULL THEN 'standby' ELSE 'session' END AS holder,
            greatest(age(backend_xid), age(backend_xmin)) AS age,
            floor(extract(epoch FROM clock_timestamp() - xact_start) * 1000)::bigint AS milliseconds
          FROM pg_stat_activity
          WHERE coalesce(backend_xid, backend_xmin) IS NOT NULL AND pid <> pg_backend_pid()
            AND (datid IS NULL OR datname = current_database())
            AND pid NOT IN (SELECT pid FROM pg_stat_progress_vacuum)
          UNION ALL
          SELECT 'slot', age(xmin), NULL FROM pg_replication_slots WHERE xmin IS NOT NULL
          UNION ALL
          SELECT 'prepared', age(transaction), floor(extract(epoch FROM clock_timestamp() - prepared) * 1000)::bigint
          FROM pg_prepared_xacts WHERE database = current_database()
        ), next AS (
          SELECT xmax::text::bigint + age(xmax::xid) AS id FROM pg_snapshot_xmax(pg_current_snapshot()) AS xmax
        )
        SELECT 'next'::text AS kind, ''::text AS name, id AS value, NULL::bigint AS other, NULL::bigint AS dead FROM next
        UNION ALL
        (SELECT DISTINCT ON (holder) 'held', holder, id - age, milliseconds, NULL FROM held, next
        ORDER BY holder, age DESC, milliseconds DESC NULLS LAST)
        """

    /// Selects what the metrics report: the rows of ``transactions``, and one for each table.
    static let query =
        transactions + """

            UNION ALL
            (SELECT 'table', relname, pg_total_relation_size(oid), pg_stat_get_live_tuples(oid),
              pg_stat_get_dead_tuples(oid)
            FROM pg_class WHERE relnamespace = to_regnamespace('apns') AND relkind = 'r'
            ORDER BY 3 DESC NULLS LAST LIMIT 100)
            """
}

extension PostgresPushQueue {
    /// Reads the state of the server. This takes the server a few milliseconds, and changes nothing.
    public func databaseState() async throws(QueueError) -> DatabaseState {
        var state = try await self.call(DatabaseState.query, .reading) { rows, _ in DatabaseState(rows) }
        self.transactionTimes.withLock { state.setAges(&$0, now: .now) }
        return state
    }
}
