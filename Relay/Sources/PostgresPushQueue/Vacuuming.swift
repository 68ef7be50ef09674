import PushQueue
import SupervisedPool
import Synchronization

/// Removes deleted rows from the tables of the queue, because autovacuum looks for work only once a minute by default.
///
/// A queue that sends 10,000 pushes a second collects 600,000 deleted rows in each table in that time. A role may vacuum
/// only tables that it owns; other tables are left to autovacuum.
final class Vacuuming: Sendable {
    private struct State {
        var isRunning = false
        var due = ContinuousClock.now
        /// The pauses after a vacuum that has not removed the rows: an old transaction needs them, or autovacuum is at work.
        var pauses = Backoff(.doubling(), minimum: .seconds(2), maximum: .seconds(60))
    }

    /// A table with fewer deleted rows is left alone.
    private let threshold: Int
    private let state = Mutex(State())

    init(threshold: Int) {
        self.threshold = threshold
    }

    /// The tables with many deleted rows: the statistics count those of all relays.
    private static let tables = """
        SELECT pg_catalog.quote_ident(c.relname), s.n_dead_tup FROM pg_catalog.pg_stat_user_tables s \
        JOIN pg_catalog.pg_class c ON c.oid = s.relid \
        WHERE s.schemaname = 'apns' AND s.n_dead_tup >= $1 \
        AND pg_catalog.pg_has_role(c.relowner, 'USAGE')
        """
    /// The time limit for one table. Then autovacuum does it.
    private static let timeout = Duration.seconds(25)

    /// Whether to begin now. ``run(_:)`` must follow.
    func begin() -> Bool {
        self.state.withLock { state in
            guard !state.isRunning, ContinuousClock.now >= state.due else { return false }
            state.isRunning = true
            return true
        }
    }

    /// Vacuums the tables. Errors only delay the next time. Blocks.
    func run(_ worker: Worker) {
        var isInVain = true
        do {
            let before = try self.deletedRows(worker)
            for table in before.keys {
                // It skips tables that another relay or autovacuum is vacuuming, and does not lock readers out to truncate.
                _ = try worker.run(
                    "VACUUM (SKIP_LOCKED, TRUNCATE false) apns.\(table)",
                    Parameters(),
                    .harmless,
                    until: .now.advanced(by: Self.timeout)
                )
            }
            isInVain = try self.deletedRows(worker).contains { table, rows in rows >= before[table] ?? .max }
        } catch {}
        self.state.withLock { state in
            state.isRunning = false
            if isInVain { state.due = .now.advanced(by: state.pauses.next()) } else { state.pauses.reset() }
        }
    }

    /// The estimated number of deleted rows of each table that has many.
    private func deletedRows(_ worker: Worker) throws(QueueError) -> [String: Int] {
        let deadline = ContinuousClock.now.advanced(by: Self.timeout)
        var parameters = Parameters()
        parameters.add(Int64(self.threshold))
        let rows = try worker.run(Self.tables, parameters, .reading, until: deadline).rows
        return Dictionary((0..<rows.count).map { (rows[$0].text(0), rows[$0].int(1)) }) { first, _ in first }
    }
}
