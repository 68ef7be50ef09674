import HTTPTypes
import PushQueue
import Synchronization

/// The capacities of callers and apps: how many pushes without an outcome each of them may have.
///
/// Requests are checked against counts that are at most a second old, plus the pushes that this relay has stored since or is
/// storing. So several relays may together exceed a capacity by what they store in a second.
final class CapacityLimits: Sendable {
    /// Numbers of pushes by caller and by app.
    struct Use: Sendable, Hashable {
        var callers: [String: Int] = [:]
        var apps: [String: Int] = [:]

        init() {}

        init(_ counts: QueueCounts) {
            self.callers = counts.sums(\.caller).mapValues(\.unsettled)
            self.apps = counts.sums(\.app).mapValues(\.unsettled)
        }

        init(_ pushes: some Sequence<NewPush>) {
            for push in pushes {
                self.callers[push.route.caller, default: 0] += 1
                self.apps[push.route.app, default: 0] += 1
            }
        }

        static func += (left: inout Use, right: Use) { left.add(right, 1) }
        static func -= (left: inout Use, right: Use) { left.add(right, -1) }

        private mutating func add(_ other: Use, _ factor: Int) {
            for (name, count) in other.callers { self.callers[name, default: 0] += factor * count }
            for (name, count) in other.apps { self.apps[name, default: 0] += factor * count }
        }
    }

    private struct State {
        /// The capacities.
        var limits = Use()
        /// The counts of the last reading.
        var counts = Use()
        var readAt: QueueTime?
        var reading: Task<Result<Void, QueueError>, Never>?
        /// The pushes that are being stored.
        var reserved = Use()
        /// The pushes that were stored since the last reading began.
        var stored = Use()
    }

    /// The largest age of the counts.
    private static let age = Duration.seconds(1)
    /// The largest age of the counts for which a request is refused.
    private static let ageOfRefusal = Duration.milliseconds(50)
    /// The header `retry-after` of a refusal, in seconds.
    private static let retryAfter = 5

    private let queue: any PushQueue
    private let clock: any QueueClock
    private let state = Mutex(State())

    init(queue: any PushQueue, clock: any QueueClock) {
        self.queue = queue
        self.clock = clock
    }

    /// Replaces the capacities.
    func set(_ limits: Use) { self.state.withLock { $0.limits = limits } }

    /// The capacities.
    var limits: Use { self.state.withLock { $0.limits } }

    /// Reserves room for pushes that are about to be stored. ``end(_:stored:)`` must follow.
    ///
    /// - Throws: `quotaExceeded` if there is no room for all of them; the error of the queue if it cannot be counted.
    func reserve(_ pushes: Use) async throws(APIError) {
        try await self.refresh(for: pushes, olderThan: Self.age)
        guard self.tryReserve(pushes) != nil else { return }
        // Pushes that got their outcome meanwhile have made room.
        try await self.refresh(for: pushes, olderThan: Self.ageOfRefusal)
        if let error = self.tryReserve(pushes) { throw error }
    }

    private func tryReserve(_ pushes: Use) -> APIError? {
        self.state.withLock { state in
            var sum = state.counts
            sum += state.stored
            sum += state.reserved
            if let error = Self.excess("caller", pushes.callers, sum.callers, state.limits.callers) { return error }
            if let error = Self.excess("app", pushes.apps, sum.apps, state.limits.apps) { return error }
            state.reserved += pushes
            return nil
        }
    }

    /// Ends a reservation.
    ///
    /// - Parameter stored: the pushes that were stored.
    func end(_ pushes: Use, stored: Use) {
        self.state.withLock { state in
            state.reserved -= pushes
            state.stored += stored
        }
    }

    private static func excess(
        _ section: String,
        _ pushes: [String: Int],
        _ used: [String: Int],
        _ limits: [String: Int]
    ) -> APIError? {
        for (name, count) in pushes.sorted(by: { $0.key < $1.key }) {
            guard let limit = limits[name] else { continue }
            let present = max(0, used[name] ?? 0)
            guard present + count > limit else { continue }
            let setting = "\(section).\(name).capacity"
            let state = "The \(section) \(name) has \(present) pushes without an outcome, and \(setting) is \(limit). "
            let remedy =
                count > limit
                ? "These \(count) pushes were not stored: submit at most \(limit) at once, or let an operator raise \(setting)."
                : "These \(count) pushes were not stored: try again when others have their outcome, or let an operator "
                    + "raise \(setting)."
            return APIError(.tooManyRequests, .quotaExceeded, state + remedy, retryAfter: Self.retryAfter)
        }
        return nil
    }

    /// Counts the pushes in the queue if the last counts are too old and a capacity applies.
    private func refresh(for pushes: Use, olderThan age: Duration) async throws(APIError) {
        let now = self.clock.lease
        let reading = self.state.withLock { state -> Task<Result<Void, QueueError>, Never>? in
            let applies =
                pushes.callers.keys.contains { state.limits.callers[$0] != nil }
                || pushes.apps.keys.contains { state.limits.apps[$0] != nil }
            if let readAt = state.readAt, readAt.duration(to: now) < age { return nil }
            guard applies else { return nil }
            if let reading = state.reading { return reading }
            let reading = Task { await self.read() }
            state.reading = reading
            return reading
        }
        do throws(QueueError) {
            try await reading?.value.get()
        } catch {
            throw APIError(error)
        }
    }

    private func read() async -> Result<Void, QueueError> {
        let start = self.clock.lease
        let before = self.state.withLock { $0.stored }
        do throws(QueueError) {
            let counts = Use(try await self.queue.counts())
            self.state.withLock { state in
                state.counts = counts
                // The counts have the pushes that were stored before. They may have others, which then count twice until
                // the next reading.
                state.stored -= before
                state.readAt = start
                state.reading = nil
            }
            return .success(())
        } catch {
            self.state.withLock { $0.reading = nil }
            return .failure(error)
        }
    }
}
