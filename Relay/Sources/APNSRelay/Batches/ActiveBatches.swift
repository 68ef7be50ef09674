import APNSModel
import Logging
import PushQueue
import Synchronization

/// The batches that have queued pushes, as the dispatcher knows them.
final class ActiveBatches: Sendable {
    /// What the dispatcher does with the pushes of a batch.
    enum Mode: Sendable, Hashable {
        case send
        /// Leaves them in the queue.
        case hold
        case cancel
        /// The queue has no such batch.
        case unknown
    }

    private struct Entry {
        var batch: Batch
        var template: PayloadTemplate
        var defaults: PlaceholderValues
        var state: BatchState
        /// Limits the rate; nil if the batch has none.
        var share: RateShare?
        var readAt = ContinuousClock.now
    }

    private struct State {
        var entries: [APNSID: Entry] = [:]
        /// Batches that are damaged, or that a newer version has stored. Their pushes wait.
        var unreadable: Set<APNSID> = []
        /// The number of relays that share the rates.
        var members: @Sendable () -> Int = { 1 }
    }

    /// The largest number of pushes that a batch with a rate sends at once, as a part of a second.
    private static let burst = Duration.milliseconds(100)
    /// How often a batch is read. Each push that is stored causes a refresh.
    private static let interval = Duration.milliseconds(100)

    private let store: BatchStore
    private let clock: any QueueClock
    private let state = Mutex(State())

    init(queue: any PushQueue, clock: any QueueClock) {
        self.store = BatchStore(queue: queue)
        self.clock = clock
    }

    /// - Parameter members: the number of relays that share the rates.
    func follow(_ members: @escaping @Sendable () -> Int) { self.state.withLock { $0.members = members } }

    /// The batches whose pushes wait because the batch cannot be read.
    var unreadable: Set<APNSID> { self.state.withLock { $0.unreadable } }

    /// Reads the batches of routes, and forgets all others.
    func refresh(_ routes: [Route]) async throws(QueueError) {
        let ids = routes.compactMap(\.batch)
        for id in ids where !self.isFresh(id) {
            guard let stored = try await self.store.storedState(id) else {
                self.state.withLock { $0.entries[id] = nil }
                continue
            }
            let state = BatchStore.state(stored)
            if let state, self.update(id, state) { continue }
            let batch = try await self.store.batch(id)
            guard let state, let batch, let defaults = try? PlaceholderValues(Array(batch.values.utf8)),
                let template = try? PayloadTemplate(Array(batch.payload.utf8))
            else {
                _ = self.state.withLock { $0.unreadable.insert(id) }
                continue
            }
            let entry = Entry(batch: batch, template: template, defaults: defaults, state: state)
            self.state.withLock { $0.entries[id] = entry }
            _ = self.update(id, state)
        }
        let kept = Set(ids)
        self.state.withLock { state in
            state.entries = state.entries.filter { kept.contains($0.key) }
            state.unreadable.formIntersection(kept)
        }
    }

    private func isFresh(_ id: APNSID) -> Bool {
        self.state.withLock { $0.entries[id]?.readAt.duration(to: .now) ?? Self.interval < Self.interval }
    }

    /// Returns whether the batch is known.
    private func update(_ id: APNSID, _ new: BatchState) -> Bool {
        let now = self.clock.lease
        return self.state.withLock { state in
            guard var entry = state.entries[id] else { return false }
            entry.state = new
            entry.readAt = .now
            state.unreadable.remove(id)
            if new.pushesPerSecond != entry.share?.total {
                entry.share = new.pushesPerSecond.map { RateShare($0, burst: Self.burst, now: now) }
            }
            state.entries[id] = entry
            return true
        }
    }

    /// What to do with the pushes of a route.
    func mode(of route: Route) -> Mode {
        guard let id = route.batch else { return .send }
        return self.state.withLock { state in
            if state.unreadable.contains(id) { return .hold }
            guard let entry = state.entries[id] else { return .unknown }
            if entry.state.isCancelled { return .cancel }
            return entry.state.isSending ? .send : .hold
        }
    }

    /// How many pushes of a route may be claimed now.
    ///
    /// - Parameter wanted: the maximum.
    /// - Returns: the number, and how long to wait if it is 0.
    func allowance(_ route: Route, wanted: Int) -> (count: Int, wait: Duration) {
        guard let id = route.batch, wanted > 0 else { return (wanted, .zero) }
        let (isLimited, members) = self.state.withLock { ($0.entries[id]?.share != nil, $0.members) }
        guard isLimited else { return (wanted, .zero) }
        let (now, relays) = (self.clock.lease, members())
        return self.state.withLock { state in
            guard var share = state.entries[id]?.share else { return (wanted, .zero) }
            defer { state.entries[id]?.share = share }
            share.divide(by: relays, now: now)
            let count = min(wanted, Int(share.held))
            return share.bucket.take(count, now: now).map { (0, $0) } ?? (count, .zero)
        }
    }

    /// Gives back what was allowed and not claimed.
    func giveBack(_ count: Int, _ route: Route) {
        guard let id = route.batch, count > 0 else { return }
        self.state.withLock { $0.entries[id]?.share?.bucket.giveBack(count) }
    }

    /// Gives claimed pushes of a batch their payloads.
    ///
    /// - Returns: the pushes that can be sent, and the claims of those whose stored values have been damaged; nil if the batch
    ///   is not known.
    func fill(_ pushes: [ClaimedPush], of route: Route) -> (pushes: [ClaimedPush], damaged: [Claim])? {
        guard let id = route.batch else { return (pushes, []) }
        guard let entry = self.state.withLock({ $0.entries[id] }) else { return nil }
        var filled: [ClaimedPush] = []
        var damaged: [Claim] = []
        func prepared(_ values: PlaceholderValues) throws -> PreparedPush {
            let payload = try entry.template.payload(values, defaults: entry.defaults)
            return try entry.batch.push(payload, skippingValidation: true)
        }
        let constant = entry.template.isConstant ? try? prepared(.none) : nil
        for var push in pushes {
            do {
                push.push = try constant ?? prepared(PlaceholderValues(push.push.payload))
                filled.append(push)
            } catch {
                damaged.append(push.claim)
            }
        }
        return (filled, damaged)
    }
}
