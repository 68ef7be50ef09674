public import APNSModel
public import PushQueue

/// A queue that wraps another one, for tests. Every call goes through one function, which may fail, wait or count.
public protocol WrappingPushQueue: PushQueue {
    /// The queue that does the work.
    var base: any PushQueue { get }

    /// Makes a call of the queue.
    ///
    /// - Parameters:
    ///   - name: the name of the function, for example `markWritten`.
    ///   - body: calls the queue inside.
    func call<Value: Sendable>(
        _ name: String,
        _ body: () async throws(QueueError) -> Value
    ) async throws(QueueError) -> Value
}

extension WrappingPushQueue {
    public var isShared: Bool { self.base.isShared }

    public var progress: QueueProgress? { self.base.progress }

    public func enqueue(_ pushes: [NewPush], isPartial: Bool) async throws(QueueError) -> [EnqueueResult] {
        try await self.call("enqueue") { () async throws(QueueError) in
            try await self.base.enqueue(pushes, isPartial: isPartial)
        }
    }

    public func claim(_ route: Route, limit: Int, lease: Duration) async throws(QueueError) -> [ClaimedPush] {
        try await self.call("claim") { () async throws(QueueError) in
            try await self.base.claim(route, limit: limit, lease: lease)
        }
    }

    public func markWritten(_ claims: [Claim], lease: Duration) async throws(QueueError) -> [Bool] {
        try await self.call("markWritten") { () async throws(QueueError) in
            try await self.base.markWritten(claims, lease: lease)
        }
    }

    public func settle(_ settlements: [Settlement]) async throws(QueueError) -> [SettleResult] {
        try await self.call("settle") { () async throws(QueueError) in try await self.base.settle(settlements) }
    }

    public func release(_ releases: [Release]) async throws(QueueError) {
        try await self.call("release") { () async throws(QueueError) in try await self.base.release(releases) }
    }

    public func park(_ settlements: [Settlement]) async throws(QueueError) {
        try await self.call("park") { () async throws(QueueError) in try await self.base.park(settlements) }
    }

    public func expireLeases() async throws(QueueError) -> ExpiredLeases {
        try await self.call("expireLeases") { () async throws(QueueError) in try await self.base.expireLeases() }
    }

    public func settleOverdue(limit: Int) async throws(QueueError) -> Int {
        try await self.call("settleOverdue") { () async throws(QueueError) in
            try await self.base.settleOverdue(limit: limit)
        }
    }

    public func cancelAll(_ route: Route, limit: Int) async throws(QueueError) -> Int {
        try await self.call("cancelAll") { () async throws(QueueError) in
            try await self.base.cancelAll(route, limit: limit)
        }
    }

    public func batchCounts(of routes: [Route]) async throws(QueueError) -> [BatchCounts] {
        try await self.call("batchCounts") { () async throws(QueueError) in
            try await self.base.batchCounts(of: routes)
        }
    }

    public func forget(_ route: Route) async throws(QueueError) {
        try await self.call("forget") { () async throws(QueueError) in try await self.base.forget(route) }
    }

    public func status(of id: APNSID) async throws(QueueError) -> PushStatus? {
        try await self.call("status") { () async throws(QueueError) in try await self.base.status(of: id) }
    }

    public func id(ofKey key: String, caller: String) async throws(QueueError) -> APNSID? {
        try await self.call("idOfKey") { () async throws(QueueError) in
            try await self.base.id(ofKey: key, caller: caller)
        }
    }

    public func cancel(_ id: APNSID) async throws(QueueError) -> CancelResult {
        try await self.call("cancel") { () async throws(QueueError) in try await self.base.cancel(id) }
    }

    public func outcomes(
        after cursor: FeedCursor?,
        apps: Set<String>?,
        kind: FeedKind,
        limit: Int
    ) async throws(QueueError) -> FeedPage {
        try await self.call("outcomes") { () async throws(QueueError) in
            try await self.base.outcomes(after: cursor, apps: apps, kind: kind, limit: limit)
        }
    }

    public func parked(after id: APNSID?, limit: Int) async throws(QueueError) -> [PushStatus] {
        try await self.call("parked") { () async throws(QueueError) in
            try await self.base.parked(after: id, limit: limit)
        }
    }

    public func retryParked(_ ids: [APNSID]) async throws(QueueError) -> [Bool] {
        try await self.call("retryParked") { () async throws(QueueError) in try await self.base.retryParked(ids) }
    }

    public func dropParked(_ ids: [APNSID]) async throws(QueueError) -> [Bool] {
        try await self.call("dropParked") { () async throws(QueueError) in try await self.base.dropParked(ids) }
    }

    public func counts() async throws(QueueError) -> QueueCounts {
        try await self.call("counts") { () async throws(QueueError) in try await self.base.counts() }
    }

    public func queuedRoutes() async throws(QueueError) -> [QueuedRoute] {
        try await self.call("queuedRoutes") { () async throws(QueueError) in try await self.base.queuedRoutes() }
    }

    public func requireRoom() async throws(QueueError) {
        try await self.call("requireRoom") { () async throws(QueueError) in try await self.base.requireRoom() }
    }

    public func checkStorage() async throws(QueueError) {
        try await self.call("checkStorage") { () async throws(QueueError) in try await self.base.checkStorage() }
    }

    public func value(forKey key: String) async throws(QueueError) -> [UInt8]? {
        try await self.call("value") { () async throws(QueueError) in try await self.base.value(forKey: key) }
    }

    public func setValue(_ value: [UInt8]?, forKey key: String) async throws(QueueError) {
        try await self.call("setValue") { () async throws(QueueError) in
            try await self.base.setValue(value, forKey: key)
        }
    }

    public func values(
        withPrefix prefix: String,
        after key: String?,
        limit: Int
    ) async throws(QueueError) -> [(key: String, value: [UInt8])] {
        try await self.call("values") { () async throws(QueueError) in
            try await self.base.values(withPrefix: prefix, after: key, limit: limit)
        }
    }

    public func exchangeValue(
        _ value: [UInt8]?,
        forKey key: String,
        expecting expected: [UInt8]?
    ) async throws(QueueError) -> Bool {
        try await self.call("exchangeValue") { () async throws(QueueError) in
            try await self.base.exchangeValue(value, forKey: key, expecting: expected)
        }
    }

    public func prune(_ retention: Retention, limit: Int) async throws(QueueError) -> Int {
        try await self.call("prune") { () async throws(QueueError) in
            try await self.base.prune(retention, limit: limit)
        }
    }

    public func close() async { await self.base.close() }
}
