import Dispatch
import SupervisedPool
import Synchronization

/// Removes deleted rows from the tables of the queue, because autovacuum looks for work only once a minute by default.
///
/// A queue that sends 10,000 pushes a second collects 600,000 deleted rows in each table in that time. A role may vacuum
/// only tables that it owns; other tables are left to autovacuum.
///
/// `VACUUM` runs on a connection of its own, so that no call waits for it. The connection is open only while it runs.
final class Vacuuming: Sendable {
    private struct State {
        var isRunning = false
        var isStopped = false
        var due = ContinuousClock.now
        /// The pauses after a vacuum that has not removed the rows: an old transaction needs them, or autovacuum is at work.
        var pauses = Backoff(.doubling(), minimum: .seconds(2), maximum: .seconds(60))
    }

    /// Selects the tables that have many deleted rows, both absolutely and for their size. The statistics count the deleted
    /// rows of all relays.
    static let tables = """
        SELECT pg_catalog.quote_ident(c.relname) AS name, s.n_dead_tup FROM pg_catalog.pg_stat_user_tables s \
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

    /// Whether it is time to look for tables.
    var isDue: Bool { self.state.withLock { Self.isDue($0) } }

    private static func isDue(_ state: State) -> Bool {
        !state.isRunning && !state.isStopped && ContinuousClock.now >= state.due
    }

    /// Begins to vacuum tables if it is time, and does not wait for the end.
    ///
    /// - Parameter tables: the number of deleted rows of each table.
    func begin(_ tables: [String: Int]) {
        let mayBegin = self.state.withLock { state in
            guard Self.isDue(state) else { return false }
            state.isRunning = true
            return true
        }
        guard mayBegin else { return }
        DispatchQueue(label: "apns-relay.postgres.vacuum").async { self.run(tables) }
    }

    /// Begins no more tables.
    func stop() { self.state.withLock { $0.isStopped = true } }

    /// Vacuums the tables. Errors only delay the next time. Blocks.
    private func run(_ tables: [String: Int]) {
        var isInVain = true
        do {
            let connection = try self.settings.connect()
            for table in tables.keys where !self.state.withLock({ $0.isStopped }) {
                // It skips tables that another relay or autovacuum is vacuuming, and does not lock readers out to truncate.
                let sql = "VACUUM (SKIP_LOCKED, TRUNCATE false) apns.\(table)"
                _ = try connection.run(sql, until: .now.advanced(by: Self.timeout))
            }
            let rows = try connection.run(Self.tables, self.parameters, until: .now.advanced(by: .seconds(10)))
            isInVain = Self.deletedRows(rows).contains { table, rows in rows >= tables[table] ?? .max }
        } catch {}
        self.state.withLock { state in
            state.isRunning = false
            if isInVain { state.due = .now.advanced(by: state.pauses.next()) } else { state.pauses.reset() }
        }
    }

    /// The parameters of ``tables``.
    var parameters: Parameters {
        var parameters = Parameters()
        parameters.add(Int64(self.threshold))
        return parameters
    }

    /// The estimated number of deleted rows of each table that ``tables`` selected.
    static func deletedRows(_ rows: Rows) -> [String: Int] {
        Dictionary((0..<rows.count).map { (rows[$0].text("name"), rows[$0].int("n_dead_tup")) }) { first, _ in first }
    }
}
