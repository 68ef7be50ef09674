import APNSModel
import PushQueue
import Synchronization

/// The rates at which the pushes of apps are sent, by all relays together. Each relay has an equal share.
///
/// All routes of an app share one bucket. Bulk routes leave a reserve in it, so that interactive pushes do not wait behind
/// them.
final class AppRates: Sendable {
    private struct State {
        var shares: [String: RateShare] = [:]
        /// The number of relays that share the rates.
        var members: @Sendable () -> Int = { 1 }
    }

    /// The time whose pushes are sent at once.
    private static let burst = Duration.milliseconds(100)
    /// The reserve of interactive routes, as a part of the pushes that are sent at once.
    private static let reservedPart = 0.1

    /// The shortest waits of interactive and of bulk routes.
    private static let shortWait = Duration.milliseconds(2)
    private static let longWait = Duration.milliseconds(20)

    private let clock: any QueueClock
    private let state = Mutex(State())

    init(clock: any QueueClock) {
        self.clock = clock
    }

    /// Replaces the rates. A rate that stays the same keeps its bucket.
    func set(_ apps: [RelayApp]) {
        let now = self.clock.lease
        self.state.withLock { state in
            let old = state.shares
            state.shares = [:]
            for app in apps {
                guard let rate = app.pushesPerSecond.map(Double.init) else { continue }
                state.shares[app.name] =
                    old[app.name].flatMap { $0.total == rate ? $0 : nil }
                    ?? RateShare(rate, burst: Self.burst, reservedPart: Self.reservedPart, now: now)
            }
        }
    }

    /// - Parameter members: the number of relays that share the rates.
    func follow(_ members: @escaping @Sendable () -> Int) { self.state.withLock { $0.members = members } }

    /// How many pushes of a route may be claimed now.
    ///
    /// - Parameter wanted: the maximum.
    /// - Returns: the number, and how long to wait if it is 0.
    func allowance(_ route: Route, wanted: Int) -> (count: Int, wait: Duration) {
        let (isLimited, members) = self.state.withLock { ($0.shares[route.app] != nil, $0.members) }
        guard isLimited, wanted > 0 else { return (wanted, .zero) }
        let (now, relays) = (self.clock.lease, members())
        return self.state.withLock { state in
            guard var share = state.shares.removeValue(forKey: route.app) else { return (wanted, .zero) }
            defer { state.shares[route.app] = share }
            share.divide(by: relays, now: now)
            let isInteractive = route.lane == .interactive
            let reserve = isInteractive ? 0 : share.reserve
            let (count, wait) = share.bucket.take(upTo: wanted, leaving: reserve, now: now)
            // The bucket keeps what it gets meanwhile. Without this, each push would be claimed by itself.
            return (count, count > 0 ? wait : max(wait, isInteractive ? Self.shortWait : Self.longWait))
        }
    }

    /// Gives back what was allowed and not claimed.
    func giveBack(_ count: Int, _ route: Route) {
        guard count > 0 else { return }
        self.state.withLock { $0.shares[route.app]?.bucket.giveBack(count) }
    }
}
