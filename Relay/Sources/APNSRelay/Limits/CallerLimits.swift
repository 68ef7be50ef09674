import HTTPTypes
import PushQueue
import Synchronization

/// The limits on what callers submit: their rates, and the capacities of callers and apps. ``set(callers:apps:)`` replaces them
/// while requests run.
///
/// If several relays share the queue, each has an equal share of a rate.
final class CallerLimits: Sendable {
    private struct State {
        var rates: [String: RateShare] = [:]
        /// The names of the callers in the settings.
        var callers: Set<String> = []
        var apps: [String: RelayApp] = [:]
    }

    /// How many seconds' pushes a caller may submit at once.
    private static let burst = Duration.seconds(10)

    let capacity: CapacityLimits
    private let clock: any QueueClock
    private let state = Mutex(State())
    /// The number of relays that share the rates.
    private let members: @Sendable () -> Int

    /// - Parameter members: the number of relays that share the rates.
    init(
        _ settings: RelaySettings,
        queue: any PushQueue,
        clock: any QueueClock,
        members: @escaping @Sendable () -> Int = { 1 }
    ) {
        self.capacity = CapacityLimits(queue: queue, clock: clock)
        self.clock = clock
        self.members = members
        self.set(callers: settings.callers, apps: settings.apps)
    }

    /// Replaces the limits. A rate that stays the same keeps its state.
    func set(callers: [Caller], apps: [RelayApp]) {
        var limits = CapacityLimits.Use()
        for caller in callers { limits.callers[caller.name] = caller.capacity }
        for app in apps { limits.apps[app.name] = app.capacity }
        self.capacity.set(limits)
        let now = self.clock.lease
        self.state.withLock { state in
            let old = state.rates
            state = State()
            for app in apps { state.apps[app.name] = app }
            for caller in callers {
                state.callers.insert(caller.name)
                guard let rate = caller.pushesPerSecond.map(Double.init) else { continue }
                let known = old[caller.name].flatMap { $0.total == rate ? $0 : nil }
                state.rates[caller.name] = known ?? RateShare(rate, burst: Self.burst, now: now)
            }
        }
    }

    // MARK: Rates

    /// Takes pushes out of the caller's bucket.
    ///
    /// - Parameter count: the number of pushes; 0 to ask whether any push would be admitted.
    /// - Throws: `rateLimited` if the caller must wait. Nothing was taken then.
    func take(_ count: Int, _ caller: Caller) throws(APIError) {
        let (now, members) = (self.clock.lease, max(1, self.members()))
        let refused = self.state.withLock { state -> (rate: Int, wait: Duration)? in
            guard var rate = state.rates.removeValue(forKey: caller.name) else { return nil }
            defer { state.rates[caller.name] = rate }
            rate.divide(by: members, now: now)
            return rate.bucket.take(count, now: now).map { (Int(rate.total), $0) }
        }
        guard let refused else { return }
        let share = members > 1 ? " Each of the \(members) relays has an equal share of it." : ""
        throw .rateLimited(
            refused.wait,
            "The caller \(caller.name) submits more than \(refused.rate) pushes per second.\(share)"
        )
    }

    /// Gives pushes back that were taken out of the bucket and then not stored.
    func giveBack(_ count: Int, _ caller: Caller) {
        self.state.withLock { $0.rates[caller.name]?.bucket.giveBack(count) }
    }

    // MARK: Use

    /// What a caller or an app has in the queue, and its limits.
    struct Use: Sendable, Hashable {
        var name: String
        var unsettled: Int
        var capacity: Int?
        var pushesPerSecond: Int?
        /// How many pushes the caller may submit to this relay now; nil without limits.
        var available: Int?
    }

    /// The callers of the settings, and those that have pushes without an outcome, by name.
    func callers(_ counts: QueueCounts) -> [Use] {
        let unsettled = CapacityLimits.Use(counts).callers
        let limits = self.capacity.limits.callers
        let (rates, names) = self.state.withLock { ($0.rates, $0.callers) }
        let (now, members) = (self.clock.lease, max(1, self.members()))
        var uses: [Use] = []
        for name in names.union(unsettled.keys).sorted() {
            var use = Use(name: name, unsettled: unsettled[name] ?? 0, capacity: limits[name])
            use.pushesPerSecond = rates[name].map { Int($0.total) }
            if var rate = rates[name] {
                rate.divide(by: members, now: now)
                _ = rate.bucket.take(0, now: now)
                use.available = Int(max(0, rate.bucket.state.balance))
            }
            if let capacity = use.capacity {
                use.available = min(use.available ?? .max, max(0, capacity - use.unsettled))
            }
            uses.append(use)
        }
        return uses
    }

    /// The apps of the settings, and those that have pushes without an outcome, by name.
    func apps(_ counts: QueueCounts) -> [Use] {
        let unsettled = CapacityLimits.Use(counts).apps
        let apps = self.state.withLock { $0.apps }
        return Set(apps.keys).union(unsettled.keys).sorted().map { name in
            Use(
                name: name,
                unsettled: unsettled[name] ?? 0,
                capacity: apps[name]?.capacity,
                pushesPerSecond: apps[name]?.pushesPerSecond
            )
        }
    }

    /// The part of its capacity that each caller uses.
    func usedParts(_ counts: QueueCounts) -> [String: Double] {
        let unsettled = CapacityLimits.Use(counts).callers
        return Dictionary(
            uniqueKeysWithValues: self.capacity.limits.callers.map { name, capacity in
                (name, Double(unsettled[name] ?? 0) / Double(max(1, capacity)))
            }
        )
    }
}
