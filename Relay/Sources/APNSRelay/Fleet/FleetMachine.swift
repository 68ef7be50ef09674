import PushQueue

/// Decides who is in the fleet and which duties this relay has. `Fleet` performs it.
///
/// Each relay stores a *heartbeat*: a value that it changes at an interval. Relays have no clock in common, so each
/// observes by its own monotonic clock how long the values of the others have not changed. A *duty* is a value, too: its
/// holder changes it with each heartbeat, and another relay replaces it once it has not changed for a while.
///
/// A holder counts the time from the moment at which it began to store its last change. The others cannot have seen that
/// change earlier, so the holder gives the duty up before another relay takes it.
struct FleetMachine: Sendable {
    /// The times of a fleet. All of its relays must have the same.
    struct Timing: Sendable, Hashable {
        /// The interval between heartbeats of a relay.
        var heartbeat = Duration.seconds(5)
        /// The time without a change of its value after which a relay counts as gone.
        var expiry = Duration.seconds(20)
        /// The time without a change after which a value is removed.
        var removal = Duration.seconds(60)
    }

    /// A compare-and-set that the shell performs, and then reports to `didExchange`.
    struct Exchange: Sendable, Hashable {
        var key: String
        /// nil removes the value.
        var value: [UInt8]?
        var expected: [UInt8]?
    }

    /// A stored value, and since when it has been there.
    private struct Observation: Sendable {
        var value: [UInt8]
        var since: QueueTime
    }

    private static let memberPrefix = FleetKey.members
    private static let dutyPrefix = FleetKey.duties

    /// This relay.
    let member: FleetMember
    let timing: Timing
    /// Whether other processes can use the queue. If not, nothing is stored: this relay is the fleet, and has each duty.
    let isShared: Bool

    private var beats: UInt64 = 0
    /// The duties that this relay can do.
    private(set) var wanted: Set<FleetDuty> = [.leader]
    private var observed: [String: Observation] = [:]
    /// When the last stored change of each duty that this relay has began.
    private var renewed: [FleetDuty: QueueTime] = [:]
    /// When the last stored heartbeat began.
    private var heartbeatAt: QueueTime?
    /// When the values were last read after a stored heartbeat.
    private var readAt: QueueTime?
    /// Since when the members are the same.
    private var membersSince: QueueTime?

    init(member: FleetMember, isShared: Bool, timing: Timing = Timing()) {
        self.member = member
        self.isShared = isShared
        self.timing = timing
    }

    // MARK: Heartbeats

    /// The value of this relay's next heartbeat.
    mutating func nextHeartbeat() -> [UInt8] {
        self.beats &+= 1
        return self.member.encoded(beat: self.beats)
    }

    /// The heartbeat is stored.
    ///
    /// - Parameter start: when the call that stored it began.
    mutating func didStoreHeartbeat(at start: QueueTime) { self.heartbeatAt = start }

    /// The values of the fleet were read, after the heartbeat was stored.
    ///
    /// While no heartbeat can be stored, the values of others need not be current: the last view stays, and the time does
    /// not count. Otherwise all relays would count each other as gone after an outage of the storage.
    ///
    /// - Parameters:
    ///   - values: the values with the prefix `fleet/`.
    ///   - now: the time after the call.
    /// - Returns: the exchange to perform now.
    mutating func didRead(_ values: [String: [UInt8]], at now: QueueTime) -> [Exchange] {
        guard self.isShared else { return [] }
        let members = Set(self.presentMembers)
        let gap = self.readAt.map { $0.duration(to: now) } ?? .zero
        let lost = gap > self.timing.expiry / 2 ? gap : .zero
        self.readAt = now
        var observed: [String: Observation] = [:]
        for (key, value) in values where key.hasPrefix(Self.memberPrefix) || key.hasPrefix(Self.dutyPrefix) {
            if let last = self.observed[key], last.value == value {
                observed[key] = Observation(value: value, since: min(last.since.advanced(by: lost), now))
            } else {
                observed[key] = Observation(value: value, since: now)
            }
        }
        self.observed = observed
        if self.membersSince == nil || members != Set(self.presentMembers) { self.membersSince = now }
        return self.dutyExchanges(now) + self.removals(now)
    }

    /// An exchange has been performed.
    ///
    /// - Parameters:
    ///   - exchange: the exchange that `didRead` returned.
    ///   - isDone: whether the value was stored.
    ///   - start: when the call began.
    mutating func didExchange(_ exchange: Exchange, isDone: Bool, at start: QueueTime) {
        if isDone {
            self.observed[exchange.key] = exchange.value.map { Observation(value: $0, since: start) }
        }
        guard exchange.key.hasPrefix(Self.dutyPrefix),
            let duty = FleetDuty(rawValue: String(exchange.key.dropFirst(Self.dutyPrefix.count)))
        else { return }
        self.renewed[duty] = isDone && exchange.value != nil ? start : nil
    }

    private func isUnchanged(_ key: String, for duration: Duration, _ now: QueueTime) -> Bool {
        self.observed[key].map { $0.since.duration(to: now) >= duration } ?? false
    }

    // MARK: Members

    private var presentMembers: [String] {
        guard let readAt = self.readAt else { return [] }
        return self.observed.keys.filter { key in
            key.hasPrefix(Self.memberPrefix) && !self.isUnchanged(key, for: self.timing.expiry, readAt)
        }
    }

    /// The members, this relay first, then by the time of their start.
    ///
    /// - Parameter now: the time, for this relay's duties.
    func members(at now: QueueTime) -> [FleetMember] {
        var own = self.member
        own.duties = FleetDuty.allCases.filter { self.holds($0, at: now) }.map(\.rawValue)
        var holders: [String: [String]] = [:]
        for (key, observation) in self.observed where key.hasPrefix(Self.dutyPrefix) {
            guard let value = DutyValue(observation.value) else { continue }
            holders[value.member, default: []].append(String(key.dropFirst(Self.dutyPrefix.count)))
        }
        let others = self.presentMembers.compactMap { key -> FleetMember? in
            let id = String(key.dropFirst(Self.memberPrefix.count))
            guard id != self.member.id else { return nil }
            var member = FleetMember(id: id, value: self.observed[key]?.value ?? [])
            member.duties = holders[id, default: []].sorted()
            return member
        }
        return [own] + others.sorted { ($0.since, $0.id) < ($1.since, $1.id) }
    }

    /// The number of members, including this one.
    var memberCount: Int {
        Set(self.presentMembers).union([FleetKey.member(self.member.id)]).count
    }

    /// Whether the members have been the same for a heartbeat, so that each of them knows all others.
    func isStable(at now: QueueTime) -> Bool {
        guard self.isShared else { return true }
        return self.membersSince.map { $0.duration(to: now) >= self.timing.heartbeat } ?? false
    }

    private func removals(_ now: QueueTime) -> [Exchange] {
        guard self.holds(.leader, at: now) else { return [] }
        return self.observed.filter { key, _ in
            key.hasPrefix(Self.memberPrefix) && key != FleetKey.member(self.member.id)
                && self.isUnchanged(key, for: self.timing.removal, now)
        }
        .map { Exchange(key: $0.key, value: nil, expected: $0.value.value) }
        .sorted { $0.key < $1.key }
    }

    // MARK: Duties

    /// Whether this relay has a duty now.
    func holds(_ duty: FleetDuty, at now: QueueTime) -> Bool {
        guard self.wanted.contains(duty) else { return false }
        return !self.isShared || self.end(of: duty).map { now < $0 } ?? false
    }

    /// When this relay's duties end unless they are renewed: the first time after a given one; nil if there is none.
    func nextEnd(after now: QueueTime) -> QueueTime? {
        self.renewed.keys.compactMap { self.end(of: $0) }.filter { $0 > now }.min()
    }

    private func end(of duty: FleetDuty) -> QueueTime? {
        guard let renewed = self.renewed[duty], let heartbeatAt = self.heartbeatAt else { return nil }
        // The others count a relay as gone whose heartbeat they miss, whatever happens to its duties.
        return min(renewed, heartbeatAt).advanced(by: self.timing.expiry)
    }

    /// This relay can do a duty from now on.
    mutating func want(_ duty: FleetDuty) { self.wanted.insert(duty) }

    /// Gives up a duty that this relay can no longer do. The next heartbeat lets another relay have it.
    mutating func stopWanting(_ duty: FleetDuty) { self.wanted.remove(duty) }

    /// Ends the membership.
    ///
    /// - Returns: an exchange, so that the others need not wait until this relay counts as gone.
    mutating func leave() -> [Exchange] {
        self.wanted = []
        defer { self.renewed = [:] }
        return FleetDuty.allCases.compactMap { duty in
            guard self.renewed[duty] != nil, let value = self.observed[FleetKey.duty(duty)]?.value else { return nil }
            return Exchange(key: FleetKey.duty(duty), value: nil, expected: value)
        }
    }

    private func dutyExchanges(_ now: QueueTime) -> [Exchange] {
        FleetDuty.allCases.compactMap { duty in
            let key = FleetKey.duty(duty)
            let current = self.observed[key]?.value
            let holder = current.flatMap { DutyValue($0) }
            let isOwn = holder?.member == self.member.id
            guard self.wanted.contains(duty) else {
                return isOwn ? Exchange(key: key, value: nil, expected: current) : nil
            }
            guard isOwn || current == nil || self.isUnchanged(key, for: self.timing.expiry, now) else { return nil }
            let next = DutyValue(member: self.member.id, beat: self.beats)
            return Exchange(key: key, value: next.encoded, expected: current)
        }
    }
}
