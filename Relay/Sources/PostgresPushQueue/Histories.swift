import PushQueue
import Synchronization

/// Notices that the database is older than what this process has seen: a backup was restored, or a standby was promoted.
/// Then the queue begins a history, and pushes that may have been sent are parked.
///
/// What a process has seen is the newest epoch of its own claims, and the newest position of the feed. Both are durable when
/// they are seen, so a crash of the server never makes them smaller. A comparison uses what the process had seen before it
/// read the database's progress: meanwhile, other calls have gone on.
final class Histories: Sendable {
    private let options: PostgresPushQueue.Options
    /// Numbers that another history may have given to other names.
    private let names: NameCache
    private let state: Mutex<QueueProgress?>
    private let checks = EverySecond()

    init(_ options: PostgresPushQueue.Options, _ names: NameCache) {
        self.options = options
        self.names = names
        self.state = Mutex(options.seen)
    }

    /// How far this process has seen the queue come; nil before the first connection.
    var seen: QueueProgress? { self.state.withLock { $0 } }

    /// Whether the progress must be read again.
    var isDue: Bool { self.options.beginsHistory && self.checks.isDue }

    static let query = "SELECT queue, history, epoch, feed, is_current FROM apns.progress()"

    /// The database's progress, and whether its last history belongs to its server.
    struct Found {
        var progress: QueueProgress
        var isCurrent: Bool

        init(_ row: Row) {
            self.progress = QueueProgress(
                queue: row.optionalInt64("queue") ?? 0,
                history: row.int64("history"),
                epoch: row.int64("epoch"),
                position: row.int64("feed")
            )
            self.isCurrent = row.bool("is_current")
        }
    }

    /// Reads the progress on a new connection, and begins a history if one is needed. Blocks.
    func check(_ connection: Connection) throws(PostgresFailure) {
        let deadline = ContinuousClock.now.advanced(by: .seconds(60))
        let seen = self.seen
        let found = Found(try connection.run(Self.query, until: deadline)[0])
        if found.isCurrent, seen.map({ !found.progress.isBehind($0) }) ?? true {
            return self.note(found)
        }
        if let restore = try self.begin(connection, after: found.progress, seen: seen) {
            self.options.whenRestored(restore)
        }
        self.note(Found(try connection.run(Self.query, until: .now.advanced(by: .seconds(60)))[0]))
    }

    /// Begins a history because an operator says that a backup was restored. Blocks.
    func restored(_ connection: Connection) throws(PostgresFailure) -> QueueRestore {
        let found = Found(try connection.run(Self.query)[0])
        return try self.begin(connection, after: found.progress, seen: self.seen) ?? QueueRestore()
    }

    /// Begins a history. This takes as long as there are pushes to park.
    ///
    /// - Returns: what was done; nil if it is the first history, or if another relay has begun it.
    private func begin(
        _ connection: Connection,
        after found: QueueProgress,
        seen: QueueProgress?
    ) throws(PostgresFailure) -> QueueRestore? {
        let seen = seen.flatMap { $0.queue == found.queue ? $0 : nil }
        var parameters = Parameters()
        parameters.add(self.options.clock.now.millisecondsSince1970)
        parameters.add(Int32(clamping: found.history))
        parameters.add(self.options.afterFailover == .park)
        parameters.add(seen?.epoch ?? 0)
        parameters.add(seen?.position ?? 0)
        let rows = try connection.run(
            "SELECT app, environment, lane, parked FROM apns.begin_history($1, $2, $3, $4, $5)",
            parameters
        )
        guard rows.count > 0, found.history > 0 else { return nil }
        let parked = (0..<rows.count).lazy.map { rows[$0] }.filter { $0.int("parked") > 0 }
        return QueueRestore(
            parked: Dictionary(parked.map { (Route.Destination($0), $0.int("parked")) }, uniquingKeysWith: +)
        )
    }

    /// Compares the progress that a call has read with what this process had seen before the call.
    ///
    /// - Returns: whether a history must begin.
    func isBehind(_ row: Row, seen: QueueProgress?) -> Bool {
        let found = Found(row)
        if !found.isCurrent || seen.map({ found.progress.isBehind($0) }) ?? false { return true }
        self.note(found)
        return false
    }

    /// Notes the epochs of claims.
    ///
    /// - Parameter seen: what this process had seen before the call of `claim`.
    /// - Returns: whether a history must begin, because an epoch was given before.
    func isBehind(claims: some Sequence<Claim>, seen: QueueProgress?) -> Bool {
        let epochs = claims.map(\.epoch)
        guard let seen, let first = epochs.min(), let last = epochs.max() else { return false }
        guard first > seen.epoch else { return true }
        self.state.withLock { state in
            let epoch = state?.epoch ?? 0
            state?.epoch = max(epoch, last)
        }
        return false
    }

    private func note(_ found: Found) {
        var progress = found.progress
        // Not that of the sequence: it is ahead of claims that are not committed, which a crash undoes.
        progress.epoch = 0
        let isOther = self.state.withLock { state in
            defer { state = state?.merged(with: progress) ?? progress }
            return state?.queue != progress.queue || state?.history != progress.history
        }
        if isOther { self.names.removeAll() }
    }
}
