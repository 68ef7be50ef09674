import APNSModel
import PushQueue
import Synchronization

/// A disk that tests fill.
final class FailingDisk: Sendable {
    let isFull = Mutex(false)
    let failures = Mutex(0)

    func check() throws(QueueError) {
        guard self.isFull.withLock({ $0 }) else { return }
        self.failures.withLock { $0 += 1 }
        throw QueueError(code: .unavailable, message: "the disk is full")
    }
}

/// A queue that cannot store results while its disk is full.
struct FailingQueue: PushQueue {
    let queue: any PushQueue
    let disk: FailingDisk

    func enqueue(_ pushes: [NewPush], isPartial: Bool) async throws(QueueError) -> [EnqueueResult] {
        try self.disk.check()
        return try await self.queue.enqueue(pushes, isPartial: isPartial)
    }

    func claim(
        _ route: Route,
        limit: Int,
        worker: WorkerID,
        lease: Duration
    ) async throws(QueueError) -> [ClaimedPush] {
        try await self.queue.claim(route, limit: limit, worker: worker, lease: lease)
    }

    func markWritten(_ claims: [Claim], lease: Duration) async throws(QueueError) -> [Bool] {
        try await self.queue.markWritten(claims, lease: lease)
    }

    func settle(_ settlements: [Settlement]) async throws(QueueError) -> [SettleResult] {
        try self.disk.check()
        return try await self.queue.settle(settlements)
    }

    func release(_ releases: [Release]) async throws(QueueError) { try await self.queue.release(releases) }
    func park(_ settlements: [Settlement]) async throws(QueueError) { try await self.queue.park(settlements) }
    func expireLeases() async throws(QueueError) -> ExpiredLeases { try await self.queue.expireLeases() }
    func settleOverdue(limit: Int) async throws(QueueError) -> Int { try await self.queue.settleOverdue(limit: limit) }
    func status(of id: APNSID) async throws(QueueError) -> PushStatus? { try await self.queue.status(of: id) }
    func cancel(_ id: APNSID) async throws(QueueError) -> CancelResult { try await self.queue.cancel(id) }

    func outcomes(
        after cursor: FeedCursor?,
        apps: Set<String>?,
        kind: FeedKind,
        limit: Int
    ) async throws(QueueError) -> FeedPage {
        try await self.queue.outcomes(after: cursor, apps: apps, kind: kind, limit: limit)
    }

    func parked(after id: APNSID?, limit: Int) async throws(QueueError) -> [PushStatus] {
        try await self.queue.parked(after: id, limit: limit)
    }

    func retryParked(_ id: APNSID) async throws(QueueError) -> Bool { try await self.queue.retryParked(id) }
    func dropParked(_ id: APNSID) async throws(QueueError) -> Bool { try await self.queue.dropParked(id) }
    func counts() async throws(QueueError) -> QueueCounts { try await self.queue.counts() }
    func queuedRoutes() async throws(QueueError) -> [QueuedRoute] { try await self.queue.queuedRoutes() }
    func value(forKey key: String) async throws(QueueError) -> [UInt8]? { try await self.queue.value(forKey: key) }

    func setValue(_ value: [UInt8]?, forKey key: String) async throws(QueueError) {
        try await self.queue.setValue(value, forKey: key)
    }

    func prune(_ retention: Retention, limit: Int) async throws(QueueError) -> Int {
        try await self.queue.prune(retention, limit: limit)
    }

    func close() async { await self.queue.close() }
}
