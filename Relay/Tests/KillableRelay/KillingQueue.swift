import APNSModel
import Foundation
import PushQueue
import Synchronization

/// Passes each call on to a queue, and kills the process at one of them.
struct KillingQueue: PushQueue {
    private let queue: any PushQueue
    private let point: KillPoint
    private let calls = CallCounter()

    init(_ queue: any PushQueue, point: KillPoint) {
        self.queue = queue
        self.point = point
    }

    private func at<Value>(
        _ call: String,
        _ body: () async throws(QueueError) -> Value
    ) async throws(QueueError) -> Value {
        let isHere = call == self.point.call && self.calls.next() == self.point.count
        if isHere, !self.point.isAfter { kill(getpid(), SIGKILL) }
        let value = try await body()
        if isHere { kill(getpid(), SIGKILL) }
        return value
    }

    func enqueue(_ pushes: [NewPush], isPartial: Bool) async throws(QueueError) -> [EnqueueResult] {
        try await self.at("enqueue") { () async throws(QueueError) in
            try await self.queue.enqueue(pushes, isPartial: isPartial)
        }
    }

    func claim(
        _ route: Route,
        limit: Int,
        worker: WorkerID,
        lease: Duration
    ) async throws(QueueError) -> [ClaimedPush] {
        let claimed = try await self.queue.claim(route, limit: limit, worker: worker, lease: lease)
        // Only claims of pushes count.
        guard !claimed.isEmpty else { return claimed }
        return try await self.at("claim") { () async throws(QueueError) in claimed }
    }

    func markWritten(_ claims: [Claim], lease: Duration) async throws(QueueError) -> [Bool] {
        try await self.at("markWritten") { () async throws(QueueError) in
            try await self.queue.markWritten(claims, lease: lease)
        }
    }

    func settle(_ settlements: [Settlement]) async throws(QueueError) -> [SettleResult] {
        try await self.at("settle") { () async throws(QueueError) in try await self.queue.settle(settlements) }
    }

    func release(_ releases: [Release]) async throws(QueueError) {
        try await self.at("release") { () async throws(QueueError) in try await self.queue.release(releases) }
    }

    func park(_ settlements: [Settlement]) async throws(QueueError) {
        try await self.at("park") { () async throws(QueueError) in try await self.queue.park(settlements) }
    }

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

private final class CallCounter: Sendable {
    private let count = Mutex(0)

    func next() -> Int {
        self.count.withLock { count in
            count += 1
            return count
        }
    }
}
