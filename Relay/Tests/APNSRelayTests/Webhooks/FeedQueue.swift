import APNSModel
import PushQueue
import Synchronization

/// A queue that has only feeds and small values, in memory. Its "disk" outlives it, so a test can kill it at any step.
final class FeedQueue: PushQueue {
    /// What is durable.
    final class Disk: Sendable {
        fileprivate let content = Mutex<(feed: [FeedEntry], values: [String: [UInt8]])>(([], [:]))

        /// Appends an outcome.
        func settle(_ push: PushStatus, at position: Int64) {
            self.content.withLock { $0.feed.append(FeedEntry(cursor: FeedCursor(position: position), push: push)) }
        }

        func value(_ key: String) -> [UInt8]? { self.content.withLock { $0.values[key] } }
        func setValue(_ value: [UInt8]?, _ key: String) { self.content.withLock { $0.values[key] = value } }

        /// Deletes the oldest outcomes.
        func prune(upTo position: Int64) {
            self.content.withLock { content in content.feed.removeAll { $0.cursor.position <= position } }
        }
    }

    private static let dead = QueueError(code: .closed, message: "the process was killed")

    let disk: Disk
    /// What `requireRoom` throws.
    let roomError = Mutex<QueueError?>(nil)
    /// How many more calls succeed; nil for any number.
    private let budget: Mutex<Int?>

    /// - Parameters:
    ///   - disk: what earlier queues stored.
    ///   - calls: how many calls succeed before the process is killed; nil for any number.
    init(_ disk: Disk = Disk(), calls: Int? = nil) {
        self.disk = disk
        self.budget = Mutex(calls)
    }

    /// Whether the process was killed.
    var isDead: Bool { self.budget.withLock { $0 == 0 } }

    /// Lets the next calls fail as if the process were killed.
    func kill() { self.budget.withLock { $0 = 0 } }
    /// Lets calls succeed again.
    func revive() { self.budget.withLock { $0 = nil } }

    private func spend() throws(QueueError) {
        let isAlive = self.budget.withLock { budget in
            guard let left = budget else { return true }
            budget = max(0, left - 1)
            return left > 0
        }
        if !isAlive { throw Self.dead }
    }

    func outcomes(
        after cursor: FeedCursor?,
        apps: Set<String>?,
        kind: FeedKind,
        limit: Int
    ) async throws(QueueError) -> FeedPage {
        try self.spend()
        return self.disk.content.withLock { content in
            let rest = content.feed.filter { $0.cursor.position > cursor?.position ?? .min }.prefix(limit)
            let entries = rest.filter { entry in
                (apps?.contains(entry.push.route.app) ?? true)
                    && (kind == .outcomes || entry.push.outcome?.invalidation != nil)
            }
            return FeedPage(entries: entries, cursor: rest.last?.cursor ?? cursor, isEnd: rest.count < limit)
        }
    }

    func value(forKey key: String) async throws(QueueError) -> [UInt8]? {
        try self.spend()
        return self.disk.content.withLock { $0.values[key] }
    }

    func values(
        withPrefix prefix: String,
        after key: String?,
        limit: Int
    ) async throws(QueueError) -> [(key: String, value: [UInt8])] {
        let values = self.disk.content.withLock { content in content.values.filter { $0.key.hasPrefix(prefix) } }
        return Array(values.filter { $0.key > key ?? "" }.sorted { $0.key < $1.key }.prefix(limit))
    }

    func setValue(_ value: [UInt8]?, forKey key: String) async throws(QueueError) {
        try self.spend()
        self.disk.content.withLock { $0.values[key] = value }
    }

    func exchangeValue(_ value: [UInt8]?, forKey key: String, expecting expected: [UInt8]?) async throws(QueueError)
        -> Bool
    {
        try self.spend()
        return self.disk.content.withLock { content in
            guard content.values[key] == expected else { return false }
            content.values[key] = value
            return true
        }
    }

    // MARK: What webhooks do not use

    var isShared: Bool { false }
    var progress: QueueProgress? { nil }

    func enqueue(_ pushes: [NewPush], isPartial: Bool) async throws(QueueError) -> [EnqueueResult] { throw Self.dead }
    func claim(
        _ route: Route,
        limit: Int,
        lease: Duration
    ) async throws(QueueError) -> [ClaimedPush] { throw Self.dead }
    func markWritten(_ claims: [Claim], lease: Duration) async throws(QueueError) -> [Bool] { throw Self.dead }
    func settle(_ settlements: [Settlement]) async throws(QueueError) -> [SettleResult] { throw Self.dead }
    func release(_ releases: [Release]) async throws(QueueError) { throw Self.dead }
    func park(_ settlements: [Settlement]) async throws(QueueError) { throw Self.dead }
    func expireLeases() async throws(QueueError) -> ExpiredLeases { throw Self.dead }
    func settleOverdue(limit: Int) async throws(QueueError) -> Int { throw Self.dead }
    func cancelAll(_ route: Route, limit: Int) async throws(QueueError) -> Int { throw Self.dead }
    func batchCounts(of routes: [Route]) async throws(QueueError) -> [BatchCounts] { throw Self.dead }
    func forget(_ route: Route) async throws(QueueError) { throw Self.dead }
    func status(of id: APNSID) async throws(QueueError) -> PushStatus? { throw Self.dead }
    func id(ofKey key: String, caller: String) async throws(QueueError) -> APNSID? { throw Self.dead }
    func cancel(_ id: APNSID) async throws(QueueError) -> CancelResult { throw Self.dead }
    func parked(after id: APNSID?, limit: Int) async throws(QueueError) -> [PushStatus] { throw Self.dead }
    func retryParked(_ ids: [APNSID]) async throws(QueueError) -> [Bool] { throw Self.dead }
    func dropParked(_ ids: [APNSID]) async throws(QueueError) -> [Bool] { throw Self.dead }
    func counts() async throws(QueueError) -> QueueCounts { throw Self.dead }
    func requireRoom() async throws(QueueError) { if let error = self.roomError.withLock({ $0 }) { throw error } }
    func checkStorage() async throws(QueueError) { throw Self.dead }
    func queuedRoutes() async throws(QueueError) -> [QueuedRoute] { throw Self.dead }
    func prune(_ retention: Retention, limit: Int) async throws(QueueError) -> Int { throw Self.dead }
    func close() async {}
}

extension PushStatus {
    /// A settled push.
    static func sample(app: String = "fern", outcome: PushOutcome? = nil, at time: QueueTime? = nil) throws
        -> PushStatus
    {
        let id = APNSID.random()
        let time = time ?? QueueTime(millisecondsSince1970: 1_795_440_000_123)
        return PushStatus(
            id: id,
            state: .settled,
            route: Route(app: app, environment: "production", lane: .interactive, caller: "crm"),
            token: try DeviceToken(String(repeating: "a1", count: 32)),
            queuedAt: time,
            notBefore: time,
            deadline: time.advanced(by: .seconds(60)),
            attempts: 1,
            outcome: outcome ?? .accepted(Receipt(apnsID: id)),
            settledAt: time
        )
    }
}
