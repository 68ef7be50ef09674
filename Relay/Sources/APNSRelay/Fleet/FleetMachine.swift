import PushQueue

/// Decides who is in the fleet, and which of its relays posts to the webhooks. `Fleet` performs it.
///
/// Each relay stores a *heartbeat*: a value that it changes at an interval. Relays have no clock in common, so each
/// observes by its own monotonic clock how long the values of the others have not changed.
///
/// The oldest relay that lives posts to the webhooks. For a few seconds after a change of the members, two relays may
/// post, or none. That does no harm: positions are stored by compare-and-set, and a repeated request has the same id.
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

    /// A stored value, and since when it has been there.
    private struct Observation: Sendable {
        var value: [UInt8]
        var since: QueueTime
    }

    /// This relay.
    let member: FleetMember
    let timing: Timing
    /// Whether other processes can use the queue. If not, nothing is stored, and this relay is the fleet.
    let isShared: Bool

    private var beats: UInt64 = 0
    private var hasLeft = false
    /// The heartbeats of all members.
    private var observed: [String: Observation] = [:]
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

    /// The values of the fleet were read, after the heartbeat was stored.
    ///
    /// While no heartbeat can be stored, the values of others need not be current: the last view stays, and the time does
    /// not count. Otherwise all relays would count each other as gone after an outage of the storage.
    ///
    /// - Parameters:
    ///   - values: the values with the prefix `fleet/`.
    ///   - now: the time after the call.
    /// - Returns: the values of relays that have been gone for long. Remove each if it is still the same.
    mutating func didRead(_ values: [String: [UInt8]], at now: QueueTime) -> [(key: String, value: [UInt8])] {
        guard self.isShared else { return [] }
        let members = Set(self.presentMembers)
        let gap = self.readAt.map { $0.duration(to: now) } ?? .zero
        let lost = gap > self.timing.expiry / 2 ? gap : .zero
        self.readAt = now
        var observed: [String: Observation] = [:]
        for (key, value) in values where key.hasPrefix(FleetKey.members) {
            if let last = self.observed[key], last.value == value {
                observed[key] = Observation(value: value, since: min(last.since.advanced(by: lost), now))
            } else {
                observed[key] = Observation(value: value, since: now)
            }
        }
        self.observed = observed
        if self.membersSince == nil || members != Set(self.presentMembers) { self.membersSince = now }
        return self.removals(now)
    }

    private func removals(_ now: QueueTime) -> [(key: String, value: [UInt8])] {
        let own = FleetKey.member(self.member.id)
        return self.observed.filter { key, observation in
            key != own && observation.since.duration(to: now) >= self.timing.removal
        }
        .map { ($0.key, $0.value.value) }
        .sorted { $0.0 < $1.0 }
    }

    /// Ends the membership.
    mutating func leave() { self.hasLeft = true }

    // MARK: Members

    private var presentMembers: [String] {
        guard let readAt = self.readAt else { return [] }
        return self.observed.filter { $0.value.since.duration(to: readAt) < self.timing.expiry }.map(\.key)
    }

    /// The members, this relay first, then by the time of their start.
    var members: [FleetMember] {
        let others = self.presentMembers.compactMap { key -> FleetMember? in
            let id = String(key.dropFirst(FleetKey.members.count))
            return id == self.member.id ? nil : FleetMember(id: id, value: self.observed[key]?.value ?? [])
        }
        .sorted { ($0.since, $0.id) < ($1.since, $1.id) }
        var members = [self.member] + others
        // The others are sorted by age already. Before the first reading, this relay does not know them.
        let isOldest = others.first.map { (self.member.since, self.member.id) < ($0.since, $0.id) } ?? true
        if !self.hasLeft, !self.isShared || self.readAt != nil { members[isOldest ? 0 : 1].postsWebhooks = true }
        return members
    }

    /// The number of members, including this one.
    var memberCount: Int {
        Set(self.presentMembers).union([FleetKey.member(self.member.id)]).count
    }

    /// Whether this relay is the one that posts to the webhooks.
    var postsWebhooks: Bool { self.members.first?.postsWebhooks ?? false }

    /// Whether the members have been the same for a heartbeat, so that each of them knows all others.
    func isStable(at now: QueueTime) -> Bool {
        guard self.isShared else { return true }
        return self.membersSince.map { $0.duration(to: now) >= self.timing.heartbeat } ?? false
    }
}
