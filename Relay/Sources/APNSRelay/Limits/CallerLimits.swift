import HTTPTypes
import PushQueue
import Synchronization

/// The limits on what callers submit: their rates, and the capacities of callers and apps. ``set(callers:apps:)`` replaces them
/// while requests run.
///
/// If several relays share the queue, a rate is that of all relays together.
final class CallerLimits: Sendable {
    private enum Bucket {
        case own(TokenBucket)
        case shared(SharedRate)
    }

    private struct Rate {
        var pushesPerSecond: Int
        var bucket: Bucket
    }

    private struct State {
        var rates: [String: Rate] = [:]
        /// The names of the callers in the settings.
        var callers: Set<String> = []
        var apps: [String: RelayApp] = [:]
    }

    let capacity: CapacityLimits
    private let queue: any PushQueue
    private let clock: any QueueClock
    private let state = Mutex(State())

    init(_ settings: RelaySettings, queue: any PushQueue, clock: any QueueClock) {
        self.capacity = CapacityLimits(queue: queue, clock: clock)
        self.queue = queue
        self.clock = clock
        self.set(callers: settings.callers, apps: settings.apps)
    }

    /// Replaces the limits. A rate that stays the same keeps its state.
    func set(callers: [Caller], apps: [RelayApp]) {
        var limits = CapacityLimits.Use()
        for caller in callers { limits.callers[caller.name] = caller.capacity }
        for app in apps { limits.apps[app.name] = app.capacity }
        self.capacity.set(limits)
        self.state.withLock { state in
            let old = state.rates
            state = State()
            for app in apps { state.apps[app.name] = app }
            for caller in callers {
                state.callers.insert(caller.name)
                guard let rate = caller.pushesPerSecond else { continue }
                let known = old[caller.name].flatMap { $0.pushesPerSecond == rate ? $0 : nil }
                state.rates[caller.name] = known ?? Rate(pushesPerSecond: rate, bucket: self.bucket(rate, caller.name))
            }
        }
    }

    private func bucket(_ rate: Int, _ caller: String) -> Bucket {
        guard self.queue.isShared else { return .own(TokenBucket(rate: Double(rate), now: self.clock.lease)) }
        return .shared(SharedRate(rate: Double(rate), caller: caller, queue: self.queue, clock: self.clock))
    }

    // MARK: Rates

    /// Takes pushes out of the caller's bucket.
    ///
    /// - Parameter count: the number of pushes; 0 to ask whether any push would be admitted.
    /// - Throws: `rateLimited` if the caller must wait; the error of the queue if several relays share the rate and the queue
    ///   cannot be used. Nothing was taken.
    func take(_ count: Int, _ caller: Caller) async throws(APIError) {
        let now = self.clock.lease
        let (rate, shared, ownWait) = self.state.withLock { state -> (Int, SharedRate?, Duration?) in
            guard var rate = state.rates[caller.name] else { return (0, nil, nil) }
            switch rate.bucket {
            case .shared(let shared): return (rate.pushesPerSecond, shared, nil)
            case .own(var bucket):
                let wait = bucket.take(count, now: now)
                rate.bucket = .own(bucket)
                state.rates[caller.name] = rate
                return (rate.pushesPerSecond, nil, wait)
            }
        }
        var wait = ownWait
        if let shared {
            do throws(QueueError) {
                wait = try await shared.take(count)
            } catch {
                throw APIError(error)
            }
        }
        guard let wait else { return }
        throw .rateLimited(wait, "The caller \(caller.name) submits more than \(rate) pushes per second.")
    }

    /// Gives pushes back that were taken out of the bucket and then not stored.
    func giveBack(_ count: Int, _ caller: Caller) {
        self.state.withLock { state in
            switch state.rates[caller.name]?.bucket {
            case .own(var bucket):
                bucket.giveBack(count)
                state.rates[caller.name]?.bucket = .own(bucket)
            case .shared(let shared): shared.giveBack(count)
            case nil: break
            }
        }
    }

    // MARK: Use

    /// What a caller or an app has in the queue, and its limits.
    struct Use: Sendable, Hashable {
        var name: String
        var unsettled: Int
        var capacity: Int?
        var pushesPerSecond: Int?
        /// How many pushes the caller may submit now; nil without limits.
        var available: Int?
    }

    /// The callers of the settings, and those that have pushes without an outcome, by name.
    func callers(_ counts: QueueCounts) async throws(QueueError) -> [Use] {
        let unsettled = CapacityLimits.Use(counts).callers
        let limits = self.capacity.limits.callers
        let (rates, names) = self.state.withLock { ($0.rates, $0.callers) }
        var uses: [Use] = []
        for name in names.union(unsettled.keys).sorted() {
            var use = Use(name: name, unsettled: unsettled[name] ?? 0, capacity: limits[name])
            use.pushesPerSecond = rates[name]?.pushesPerSecond
            switch rates[name]?.bucket {
            case .own(var bucket):
                _ = bucket.take(0, now: self.clock.lease)
                use.available = Int(max(0, bucket.state.balance))
            case .shared(let shared): use.available = try await shared.available()
            case nil: break
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
