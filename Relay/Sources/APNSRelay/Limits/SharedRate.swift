import PushQueue
import Synchronization

/// The rate of a caller, for all relays together: a token bucket in a small value of their queue, which they change by
/// compare-and-set.
///
/// A relay takes pushes for up to 100 ms out of the bucket at once, and returns the rest the next time. So each relay
/// changes the value about ten times a second for a caller at its limit, and the caller has its whole rate, even if it uses
/// only one relay.
///
/// The relays' clocks should agree, as for all of a fleet. A relay whose clock is behind also measures by itself how long the
/// value has not changed, so the bucket fills in any case, and never twice for the same time.
final class SharedRate: Sendable {
    private struct State {
        /// Pushes that were taken out of the bucket and not used.
        var allowance = 0.0
        /// The last known value, and when this relay saw it first.
        var seen: Seen?
        /// Until when requests are refused without reading the value, and what they are told.
        var refusal: (until: QueueTime, wait: Duration)?
        /// The change of the value that is under way.
        var change: Task<Result<Duration?, QueueError>, Never>?
    }

    private struct Seen {
        var value: [UInt8]?
        var since: QueueTime
    }

    private enum Step {
        case admitted
        case refused(Duration)
        /// Another request is changing the value.
        case wait(Task<Result<Duration?, QueueError>, Never>)
        case change(Task<Result<Duration?, QueueError>, Never>)
    }

    /// The time for which a relay takes pushes at once.
    private static let part = Duration.milliseconds(100)
    static func key(_ caller: String) -> String { "rate/caller/\(caller)" }

    private let rate: Double
    private let key: String
    private let queue: any PushQueue
    private let clock: any QueueClock
    private let state = Mutex(State())

    /// - Parameters:
    ///   - rate: the number of pushes per second.
    ///   - caller: the name of the caller.
    ///   - queue: the queue of the relays.
    ///   - clock: its clock.
    init(rate: Double, caller: String, queue: any PushQueue, clock: any QueueClock) {
        self.rate = rate
        self.key = Self.key(caller)
        self.queue = queue
        self.clock = clock
    }

    private var part: Double { self.rate * (Self.part / .seconds(1)) }
    /// The largest allowance that a relay keeps.
    private var largest: Double { 2 * self.part }

    /// Takes pushes out of the bucket.
    ///
    /// - Parameter count: the number of pushes; 0 to ask whether any push would be admitted.
    /// - Returns: nil if the request is admitted; otherwise how long to wait. Nothing was taken then.
    /// - Throws: `QueueError` if the queue cannot be used.
    func take(_ count: Int) async throws(QueueError) -> Duration? {
        while true {
            let now = self.clock.lease
            let step = self.state.withLock { state -> Step in
                let isEnough = state.allowance > 0 && state.allowance >= Double(count)
                // A larger allowance was given back, and belongs to all relays.
                if isEnough, state.allowance <= self.largest {
                    state.allowance -= Double(count)
                    return .admitted
                }
                if let change = state.change { return .wait(change) }
                if let refusal = state.refusal, now < refusal.until { return .refused(refusal.wait) }
                // Not a child: other requests wait for it, too.
                let change = Task { await self.change(count) }
                state.change = change
                return .change(change)
            }
            switch step {
            case .admitted: return nil
            case .refused(let wait): return wait
            case .wait(let change): _ = try await change.value.get()
            case .change(let change): return try await change.value.get()
            }
        }
    }

    /// Gives pushes back that were taken and then not stored. More than this relay may keep return to the bucket.
    func giveBack(_ count: Int) {
        guard count > 0 else { return }
        self.state.withLock { state in
            state.allowance += Double(count)
            guard state.allowance > self.largest, state.change == nil else { return }
            state.change = Task { await self.change(0) }
        }
    }

    /// How many pushes the caller may submit now.
    func available() async throws(QueueError) -> Int {
        let seen = try await self.read()
        let (stored, now) = self.bucket(seen)
        var bucket = stored
        _ = bucket.take(0, now: now)
        let allowance = self.state.withLock { $0.allowance }
        bucket.giveBack(allowance)
        return Int(max(0, bucket.state.balance))
    }

    private func change(_ count: Int) async -> Result<Duration?, QueueError> {
        var left = self.state.withLock { state in
            defer { state.allowance = 0 }
            return state.allowance
        }
        let result: Result<Duration?, QueueError>
        do throws(QueueError) {
            result = .success(try await self.exchange(count, returning: &left))
        } catch {
            result = .failure(error)
        }
        let now = self.clock.lease
        self.state.withLock { state in
            state.change = nil
            state.allowance += left
            state.refusal = nil
            guard case .success(let wait) = result else { return }
            if state.allowance > self.largest { state.change = Task { await self.change(0) } }
            // The bucket is empty. It keeps what it gets meanwhile, so no push is lost by waiting for it.
            let isEmpty = state.allowance > 0 && state.allowance < min(self.part, 1)
            guard wait != nil || isEmpty else { return }
            let next = wait ?? .seconds((1 - state.allowance) / self.rate)
            state.refusal = (now.advanced(by: Self.part), next)
        }
        return result
    }

    /// Changes the value: returns the rest of an earlier allowance, and takes the pushes and a new allowance.
    ///
    /// - Parameters:
    ///   - count: the number of pushes.
    ///   - left: the rest, and then the new allowance.
    private func exchange(_ count: Int, returning left: inout Double) async throws(QueueError) -> Duration? {
        var known = self.state.withLock { $0.seen }
        while true {
            let isRead = known == nil
            let seen: Seen
            if let last = known { seen = last } else { seen = try await self.read() }
            known = nil
            let (stored, now) = self.bucket(seen)
            var bucket = stored
            bucket.giveBack(left)
            let wait = bucket.take(count, now: now)
            if let wait {
                // Another relay may have given pushes back.
                guard isRead else { continue }
                if left <= self.largest { return wait }
            }
            let allowance = bucket.withdraw(upTo: wait == nil ? self.part : 0)
            let value = StoredJSON.encode(bucket.state)
            let lease = self.clock.lease
            let isStored: Bool
            do throws(QueueError) {
                isStored = try await self.queue.exchangeValue(value, forKey: self.key, expecting: seen.value)
            } catch {
                guard error.code == .undecided else { throw error }
                // The rest may be in the bucket again. At worst, it is lost. No push was stored.
                left = 0
                throw QueueError(code: .unavailable, message: error.message)
            }
            if isStored {
                self.state.withLock { $0.seen = Seen(value: value, since: lease) }
                left = allowance
                return wait
            }
        }
    }

    private func read() async throws(QueueError) -> Seen {
        let value = try await self.queue.value(forKey: self.key)
        let now = self.clock.lease
        return self.state.withLock { state in
            if let seen = state.seen, seen.value == value { return seen }
            let seen = Seen(value: value, since: now)
            state.seen = seen
            return seen
        }
    }

    /// The bucket, and the time up to which it may be filled.
    private func bucket(_ seen: Seen) -> (bucket: TokenBucket, now: QueueTime) {
        let now = self.clock.now
        let stored = seen.value.flatMap { StoredJSON.decode(TokenBucket.State.self, from: $0) }
        let bucket = TokenBucket(rate: self.rate, state: stored, now: now)
        guard let stored else { return (bucket, now) }
        let unchanged = seen.since.duration(to: self.clock.lease)
        return (bucket, max(now, stored.updated.advanced(by: max(.zero, unchanged))))
    }
}
