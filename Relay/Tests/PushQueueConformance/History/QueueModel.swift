import APNSModel
import PushQueue

/// A queue in memory with the required behaviour. It is the reference for random histories.
///
/// Some behaviour is the queue's choice, such as how many pushes `claim` returns. The model then follows the queue if
/// the choice is allowed.
struct QueueModel {
    struct Push {
        var new: NewPush
        /// The order in which pushes were stored.
        var order: Int
        var state = PushStatus.State.queued
        var due: QueueTime
        var attempts = 0
        /// The outcome of the attempts so far, or of the settled push.
        var outcome: PushOutcome?
        /// The epoch of the present claim; nil if there is none.
        var epoch: Int64?
        /// The epoch of the last claim.
        var lastEpoch = Int64.min
        var lease = QueueTime(millisecondsSince1970: .min)
        /// The position of the push in the order of settling. Pushes that one call settled have the same number.
        var settledStep: Int?
    }

    private(set) var pushes: [APNSID: Push] = [:]
    private var keys: [String: APNSID] = [:]
    private var stored = 0
    private var step = 0
    let capacity: Int

    init(capacity: Int) {
        self.capacity = capacity
    }

    mutating func beginStep() { self.step += 1 }

    var unsettled: Int { self.pushes.values.count { $0.state != .settled } }

    // MARK: Enqueueing

    enum EnqueueOutcome: Equatable {
        case results([EnqueueResult])
        case full

        var hasConflict: Bool {
            guard case .results(let results) = self else { return false }
            return results.contains { if case .conflict = $0 { true } else { false } }
        }
    }

    mutating func enqueue(_ pushes: [NewPush], isPartial: Bool) -> EnqueueOutcome {
        let before = self
        var results: [EnqueueResult] = []
        for push in pushes {
            let result = self.result(of: push)
            results.append(result)
            guard result == .queued else { continue }
            guard self.unsettled < self.capacity else {
                self = before
                return .full
            }
            self.stored += 1
            self.pushes[push.id] = Push(new: push, order: self.stored, due: push.notBefore)
            if let key = Self.key(of: push) { self.keys[key] = push.id }
        }
        let outcome = EnqueueOutcome.results(results)
        if outcome.hasConflict, !isPartial { self = before }
        return outcome
    }

    private func result(of push: NewPush) -> EnqueueResult {
        if let key = Self.key(of: push), let known = self.keys[key] {
            return self.hasDigest(of: push, known) ? .duplicate(of: known) : .conflict(with: known)
        }
        guard self.pushes[push.id] != nil else { return .queued }
        return self.hasDigest(of: push, push.id) ? .duplicate(of: push.id) : .conflict(with: push.id)
    }

    private func hasDigest(of push: NewPush, _ known: APNSID) -> Bool {
        guard let digest = push.idempotency?.digest else { return false }
        return self.pushes[known]?.new.idempotency?.digest == digest
    }

    private static func key(of push: NewPush) -> String? {
        push.idempotency.map { "\(push.route.caller)/\($0.key)" }
    }

    /// Other pushes without an outcome that have the same supersede key, device, app and environment.
    private func rivals(of push: NewPush) -> [APNSID] {
        guard let key = push.supersedes else { return [] }
        return self.pushes.values.filter { other in
            other.new.supersedes == key && other.new.token == push.token && other.new.route.app == push.route.app
                && other.new.route.environment == push.route.environment && other.new.id != push.id
                && other.state != .settled
        }
        .map(\.new.id)
    }

    private func isSuperseded(_ push: Push) -> Bool {
        self.rivals(of: push.new).contains { (self.pushes[$0]?.order ?? 0) > push.order }
    }

    /// Whether another push with the key is in flight.
    private func mustWait(_ push: Push) -> Bool {
        self.rivals(of: push.new).contains { self.pushes[$0]?.epoch != nil }
    }

    /// The queued and parked pushes that a newer one replaces once a claim looks at either of them.
    var superseded: [APNSID] {
        self.pushes.values.filter { $0.state == .queued || $0.state == .parked }.filter(self.isSuperseded).map(\.new.id)
    }

    /// Whether an overdue push competes with others. How it ends, and whether an older one is claimed, depends on which of
    /// them the queue looks at first.
    func hasOverdueRival(now: QueueTime) -> Bool {
        self.pushes.values.contains { push in
            push.state == .queued && Self.isOverdue(push, now) && !self.rivals(of: push.new).isEmpty
        }
    }

    mutating func supersede(_ id: APNSID) {
        self.settle(id, .superseded(id, attempts: self.pushes[id]?.attempts ?? 0))
    }

    // MARK: Sending

    /// The pushes that can be claimed, in the order in which they became due.
    func claimable(_ route: Route, now: QueueTime) -> [APNSID] {
        self.pushes.values.filter {
            $0.state == .queued && $0.new.route == route && $0.due <= now && !Self.isOverdue($0, now)
                && !self.mustWait($0) && !self.isSuperseded($0)
        }
        .sorted { ($0.due, $0.order) < ($1.due, $1.order) }
        .map(\.new.id)
    }

    mutating func claim(_ claims: [Claim], until lease: QueueTime) {
        for claim in claims {
            guard let push = self.pushes[claim.id] else { continue }
            for id in self.rivals(of: push.new) where self.pushes[id]?.epoch == nil { self.supersede(id) }
            self.pushes[claim.id]?.state = .claimed
            self.pushes[claim.id]?.epoch = claim.epoch
            self.pushes[claim.id]?.lastEpoch = claim.epoch
            self.pushes[claim.id]?.lease = lease
        }
    }

    mutating func markWritten(_ claims: [Claim], now: QueueTime, until lease: QueueTime) -> [Bool] {
        claims.map { claim in
            guard let push = self.pushes[claim.id], push.state == .claimed, push.epoch == claim.epoch,
                push.lease > now
            else { return false }
            self.pushes[claim.id]?.state = .written
            self.pushes[claim.id]?.attempts += 1
            self.pushes[claim.id]?.lease = lease
            return true
        }
    }

    mutating func settle(_ settlements: [Settlement]) -> [SettleResult] {
        settlements.map { settlement in
            let id = settlement.claim.id
            guard let push = self.pushes[id] else { return .stale }
            if push.state == .settled { return push.outcome.map { .alreadySettled($0) } ?? .stale }
            let isCurrent = push.epoch == settlement.claim.epoch
            guard isCurrent || settlement.outcome.certainty == .accepted else { return .stale }
            self.settle(id, settlement.outcome)
            return .settled
        }
    }

    private mutating func settle(_ id: APNSID, _ outcome: PushOutcome) {
        let earlier = self.pushes[id]?.outcome
        self.pushes[id]?.outcome = outcome.merged(with: earlier)
        self.pushes[id]?.state = .settled
        self.pushes[id]?.epoch = nil
        self.pushes[id]?.settledStep = self.step
    }

    mutating func release(_ releases: [Release]) {
        for release in releases where self.isCurrent(release.claim) {
            self.requeue(release.claim.id, due: release.notBefore, outcome: release.outcome)
        }
    }

    private func isCurrent(_ claim: Claim) -> Bool {
        self.pushes[claim.id].map { $0.epoch != nil && $0.epoch == claim.epoch } ?? false
    }

    private mutating func requeue(_ id: APNSID, due: QueueTime?, outcome: PushOutcome?) {
        self.addAttempt(id, outcome)
        self.pushes[id]?.state = .queued
        if let due { self.pushes[id]?.due = due }
    }

    /// Ends the claim, and keeps the outcome of the attempt.
    private mutating func addAttempt(_ id: APNSID, _ outcome: PushOutcome?) {
        let earlier = self.pushes[id]?.outcome
        self.pushes[id]?.epoch = nil
        if let outcome { self.pushes[id]?.outcome = outcome.merged(with: earlier) }
    }

    mutating func park(_ settlements: [Settlement]) {
        for settlement in settlements where self.isCurrent(settlement.claim) {
            let id = settlement.claim.id
            self.addAttempt(id, settlement.outcome)
            self.pushes[id]?.state = .parked
        }
    }

    /// - Parameter now: the time for leases; nil to end all claims.
    mutating func expireLeases(now: QueueTime?) -> ExpiredLeases {
        var expired = ExpiredLeases()
        for (id, push) in self.pushes where push.epoch != nil && (now.map { push.lease <= $0 } ?? true) {
            if push.state == .claimed {
                self.requeue(id, due: nil, outcome: nil)
                expired.queued += 1
            } else if push.new.resendsUnknown {
                self.requeue(id, due: nil, outcome: .lost(id, attempts: push.attempts))
                expired.resent += 1
            } else {
                self.settle(id, .lost(id, attempts: push.attempts))
                expired.unknown += 1
            }
        }
        return expired
    }

    mutating func settleOverdue(now: QueueTime) {
        for (id, push) in self.pushes where push.state == .queued && Self.isOverdue(push, now) {
            let outcome = PushOutcome.overdue(
                id,
                deadline: push.new.deadline,
                expiration: push.new.push.expiration,
                attempts: push.attempts
            )
            self.settle(id, outcome)
        }
    }

    private static func isOverdue(_ push: Push, _ now: QueueTime) -> Bool {
        let expires = QueueTime(expirationOf: push.new.push.expiration)
        return push.new.deadline <= now || expires.map { $0 <= now } ?? false
    }

    // MARK: One push

    mutating func cancel(_ id: APNSID) -> CancelResult {
        guard let push = self.pushes[id] else { return .notFound }
        switch push.state {
        case .settled: return push.outcome.map { .settled($0) } ?? .notFound
        case .written: return .written
        case .queued, .claimed, .parked:
            self.settle(id, .cancelled(id, attempts: push.attempts))
            return .cancelled
        }
    }

    mutating func retryParked(_ id: APNSID, now: QueueTime) -> Bool {
        guard self.pushes[id]?.state == .parked else { return false }
        self.pushes[id]?.state = .queued
        self.pushes[id]?.due = now
        self.pushes[id]?.attempts = 0
        return true
    }

    mutating func dropParked(_ id: APNSID) -> Bool {
        guard let push = self.pushes[id], push.state == .parked, let outcome = push.outcome else { return false }
        self.settle(id, outcome)
        return true
    }

    // MARK: State

    func counts() -> [QueueCounts.OfRoute] {
        var counts: [Route: QueueCounts.OfRoute] = [:]
        for push in self.pushes.values {
            var count = counts[push.new.route] ?? QueueCounts.OfRoute(route: push.new.route)
            switch push.state {
            case .queued: count.queued += 1
            case .claimed: count.claimed += 1
            case .written: count.written += 1
            case .parked: count.parked += 1
            case .settled: continue
            }
            counts[push.new.route] = count
        }
        return counts.values.sorted { $0.route.description < $1.route.description }
    }

    func queuedRoutes() -> [Route: QueueTime] {
        var routes: [Route: QueueTime] = [:]
        for push in self.pushes.values where push.state == .queued {
            routes[push.new.route] = min(push.due, routes[push.new.route] ?? push.due)
        }
        return routes
    }

    /// Replaces a push with that of another model.
    mutating func replace(_ id: APNSID, from other: QueueModel) {
        self.pushes[id] = other.pushes[id]
        for (key, owner) in other.keys where owner == id { self.keys[key] = id }
        if self.pushes[id] == nil { self.keys = self.keys.filter { $0.value != id } }
        self.stored = max(self.stored, other.stored)
    }
}
