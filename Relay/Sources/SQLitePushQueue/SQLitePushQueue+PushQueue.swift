public import APNSModel
import Dispatch
import GRDB
public import PushQueue

import Foundation

extension SQLitePushQueue: PushQueue {
    /// False: one process at a time can use the file.
    public var isShared: Bool { false }

    public var progress: QueueProgress? { self.group.committed.progress }

    /// The maximum number of overdue pushes that one transaction of `claim` settles.
    static let claimScan = 1_000

    public func enqueue(_ pushes: [NewPush], isPartial: Bool) async throws(QueueError) -> [EnqueueResult] {
        guard !pushes.isEmpty else { return [] }
        let limits = IntakeLimits(capacity: self.options.capacity, disk: self.disk)
        do {
            return try await self.run(isIntake: true) { try $0.enqueue(pushes, isPartial: isPartial, limits) }
        } catch let conflict as EnqueueConflict {
            return conflict.results
        } catch {
            throw self.queueError(error)
        }
    }

    public func claim(_ route: Route, limit: Int, lease: Duration) async throws(QueueError) -> [ClaimedPush] {
        while true {
            // Losing a claim in a power failure is harmless. A mark is always stored together with its claim.
            let batch = try await self.write(isDurable: false) {
                try $0.claim(route, limit: limit, lease: lease)
            }
            guard batch.pushes.isEmpty, batch.isBlocked else { return batch.pushes }
            try await self.write { try $0.settleUnclaimable(of: route, limit: Self.claimScan) }
        }
    }

    public func markWritten(_ claims: [Claim], lease: Duration) async throws(QueueError) -> [Bool] {
        guard !claims.isEmpty else { return [] }
        return try await self.write { try $0.markWritten(claims, lease: lease) }
    }

    public func settle(_ settlements: [Settlement]) async throws(QueueError) -> [SettleResult] {
        guard !settlements.isEmpty else { return [] }
        return try await self.write { try $0.settle(settlements) }
    }

    public func release(_ releases: [Release]) async throws(QueueError) {
        guard !releases.isEmpty else { return }
        try await self.write { try $0.release(releases) }
    }

    public func park(_ settlements: [Settlement]) async throws(QueueError) {
        guard !settlements.isEmpty else { return }
        try await self.write { try $0.park(settlements) }
    }

    public func expireLeases() async throws(QueueError) -> ExpiredLeases {
        try await self.write { try $0.expireLeases() }
    }

    public func settleOverdue(limit: Int) async throws(QueueError) -> Int {
        try await self.write { try $0.settleOverdue(limit: limit) }
    }

    public func cancelAll(_ route: Route, limit: Int) async throws(QueueError) -> Int {
        try await self.write { try $0.cancelAll(route, limit: limit) }
    }

    public func batchCounts(of routes: [Route]) async throws(QueueError) -> [BatchCounts] {
        guard !routes.isEmpty else { return [] }
        // The writer has both at one moment: its totals in memory, and the outcomes in the file.
        return try await self.write(isDurable: false) { transaction in
            try routes.map { try transaction.batchCounts(of: $0) }
        }
    }

    public func forget(_ route: Route) async throws(QueueError) {
        try await self.write { try $0.forget(route) }
    }

    public func status(of id: APNSID) async throws(QueueError) -> PushStatus? {
        try await self.read { db in
            var transaction = ReadTransaction(db)
            return try transaction.status(of: id)
        }
    }

    public func id(ofKey key: String, caller: String) async throws(QueueError) -> APNSID? {
        try await self.read { try ReadTransaction($0).id(ofKey: key, caller: caller) }
    }

    public func cancel(_ id: APNSID) async throws(QueueError) -> CancelResult {
        try await self.write { try $0.cancel(id) }
    }

    public func outcomes(
        after cursor: FeedCursor?,
        apps: Set<String>?,
        kind: FeedKind,
        limit: Int
    ) async throws(QueueError) -> FeedPage {
        let generations = self.generations
        return try await self.read { db in
            var transaction = ReadTransaction(db)
            return try transaction.outcomes(
                after: cursor,
                apps: apps,
                kind: kind,
                limit: limit,
                generations: generations
            )
        }
    }

    public func parked(after id: APNSID?, limit: Int) async throws(QueueError) -> [PushStatus] {
        try await self.read { db in
            var transaction = ReadTransaction(db)
            return try transaction.parked(after: id, limit: limit)
        }
    }

    public func retryParked(_ ids: [APNSID]) async throws(QueueError) -> [Bool] {
        guard !ids.isEmpty else { return [] }
        return try await self.write { transaction in try ids.map { try transaction.retryParked($0) } }
    }

    public func dropParked(_ ids: [APNSID]) async throws(QueueError) -> [Bool] {
        guard !ids.isEmpty else { return [] }
        return try await self.write { transaction in try ids.map { try transaction.dropParked($0) } }
    }

    public func counts() async throws(QueueError) -> QueueCounts {
        let state = self.group.committed
        let routes = try await self.read { db in
            var transaction = ReadTransaction(db, names: state.names)
            return try transaction.counts(state.totals)
        }
        return QueueCounts(routes: routes, capacity: self.options.capacity)
    }

    public func queuedRoutes() async throws(QueueError) -> [QueuedRoute] {
        let state = self.group.committed
        return try await self.read { db in
            var transaction = ReadTransaction(db, names: state.names)
            return try transaction.queuedRoutes(state.totals)
        }
    }

    public func checkStorage() async throws(QueueError) {
        if let error = self.failure.first { throw error }
        try await self.setValue([], forKey: "ready")
        try await self.requireRoom()
        if let capacity = self.options.capacity, self.group.committed.totals.unsettled >= capacity {
            throw QueueError.full(capacity)
        }
    }

    public func requireRoom() async throws(QueueError) {
        let disk = self.disk
        try await self.read { try disk.require($0, bytes: QueueDisk.smallRequest) }
    }

    /// Reads the sizes of the files.
    package func fileState() async throws(QueueError) -> FileState {
        let disk = self.disk
        let room = try await self.read { try disk.room($0) }
        let file = self.file
        do {
            return try await DispatchQueue.global().perform {
                func size(_ path: String) throws -> Int {
                    (try FileManager.default.attributesOfItem(atPath: path)[.size] as? NSNumber)?.intValue ?? 0
                }
                // SQLite deletes the log when it is closed.
                let log = (try? size(file + "-wal")) ?? 0
                return FileState(databaseBytes: try size(file), logBytes: log, disk: room)
            }
        } catch {
            throw QueueError(error, file: file)
        }
    }

    public func value(forKey key: String) async throws(QueueError) -> [UInt8]? {
        try await self.read { try ReadTransaction($0).value(forKey: key) }
    }

    public func values(
        withPrefix prefix: String,
        after key: String?,
        limit: Int
    ) async throws(QueueError) -> [(key: String, value: [UInt8])] {
        try await self.read { try ReadTransaction($0).values(withPrefix: prefix, after: key, limit: limit) }
    }

    public func setValue(_ value: [UInt8]?, forKey key: String) async throws(QueueError) {
        try await self.write { try $0.setValue(value, forKey: key) }
    }

    public func exchangeValue(
        _ value: [UInt8]?,
        forKey key: String,
        expecting expected: [UInt8]?
    ) async throws(QueueError) -> Bool {
        try await self.write { try $0.exchangeValue(value, forKey: key, expecting: expected) }
    }

    public func prune(_ retention: Retention, limit: Int) async throws(QueueError) -> Int {
        try await self.write { try $0.prune(retention, limit: limit) }
    }
}
