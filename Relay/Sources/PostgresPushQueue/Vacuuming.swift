import Dispatch
import SupervisedPool
import Synchronization

/// Removes deleted rows from the tables of the queue, because autovacuum looks for work only once a minute by default.
///
/// A queue that sends 10,000 pushes a second collects 600,000 deleted rows in each table in that time. A role may vacuum
/// only tables that it owns; other tables are left to autovacuum.
///
/// It has a connection of its own, which is open only meanwhile, so that no call waits for it.
final class Vacuuming: Sendable {
    private struct State {
        var isRunning = false
        var isStopped = false
        var due = ContinuousClock.now
        /// The pauses after a vacuum that has not removed the rows: an old transaction needs them, or autovacuum is at work.
        var pauses = Backoff(.doubling(), minimum: .seconds(2), maximum: .seconds(60))
    }

    /// Tables with many deleted rows, also for their size. The statistics count those of all relays.
    private static let tables = """
        SELECT pg_catalog.quote_ident(c.relname), s.n_dead_tup FROM pg_catalog.pg_stat_user_tables s \
        JOIN pg_catalog.pg_class c ON c.oid = s.relid \
        WHERE s.schemaname = 'apns' AND s.n_dead_tup >= $1 + s.n_live_tup / 10 \
        AND pg_catalog.pg_has_role(c.relowner, 'USAGE')
        """
    /// The time limit for one table.
    private static let timeout = Duration.seconds(600)

    private let settings: ConnectionSettings
    /// A table with fewer deleted rows is left alone.
    private let threshold: Int
    private let state = Mutex(State())

    init(_ settings: ConnectionSettings, threshold: Int) {
        self.settings = settings
        self.threshold = threshold
    }

    /// Begins if it is time, and does not wait for the end.
    func begin() {
        let mayBegin = self.state.withLock { state in
            guard !state.isRunning, !state.isStopped, ContinuousClock.now >= state.due else { return false }
            state.isRunning = true
            return true
        }
        guard mayBegin else { return }
        DispatchQueue(label: "apns-relay.postgres.vacuum").async { self.run() }
    }

    /// Begins no more tables.
    func stop() { self.state.withLock { $0.isStopped = true } }

    /// Vacuums the tables. Errors only delay the next time. Blocks.
    private func run() {
        var isInVain = true
        do {
            let connection = try self.settings.connect()
            let before = try self.deletedRows(connection)
            for table in before.keys where !self.state.withLock({ $0.isStopped }) {
                // It skips tables that another relay or autovacuum is vacuuming, and does not lock readers out to truncate.
                let sql = "VACUUM (SKIP_LOCKED, TRUNCATE false) apns.\(table)"
                _ = try connection.run(sql, until: .now.advanced(by: Self.timeout))
            }
            isInVain = try self.deletedRows(connection).contains { table, rows in rows >= before[table] ?? .max }
        } catch {}
        self.state.withLock { state in
            state.isRunning = false
            if isInVain { state.due = .now.advanced(by: state.pauses.next()) } else { state.pauses.reset() }
        }
    }

    /// The estimated number of deleted rows of each table that has many.
    private func deletedRows(_ connection: Connection) throws -> [String: Int] {
        var parameters = Parameters()
        parameters.add(Int64(self.threshold))
        let rows = try connection.run(Self.tables, parameters, until: .now.advanced(by: .seconds(10)))
        return Dictionary((0..<rows.count).map { (rows[$0].text(0), rows[$0].int(1)) }) { first, _ in first }
    }
}
