import APNSModel
import PushQueue
import Synchronization

/// The rates at which the pushes of apps are sent, by all relays together. Each relay has an equal share.
///
/// All routes of an app share one bucket. Bulk routes leave a reserve in it, so that interactive pushes do not wait behind
/// them.
final class AppRates: Sendable {
    private struct Pace {
        var rate: Double
        var bucket: TokenBucket
    }

    private struct State {
        /// The pushes per second of all relays together.
        var rates: [String: Int] = [:]
        var paces: [String: Pace] = [:]
        /// The number of relays that share the rates.
        var members: @Sendable () -> Int = { 1 }
    }

    /// The time whose pushes are sent at once.
    private static let burst = Duration.milliseconds(100)
    /// The reserve of interactive routes, as a part of the pushes that are sent at once.
    private static let reserve = 0.1

    /// The shortest waits of interactive and of bulk routes.
    private static let shortWait = Duration.milliseconds(2)
    private static let longWait = Duration.milliseconds(20)

    private let clock: any QueueClock
    private let state = Mutex(State())

    init(clock: any QueueClock) {
        self.clock = clock
    }

    /// Replaces the rates.
    func set(_ apps: [RelayApp]) {
        self.state.withLock { state in
            state.rates = [:]
            for app in apps { state.rates[app.name] = app.pushesPerSecond }
            state.paces = state.paces.filter { state.rates[$0.key] != nil }
        }
    }

    /// - Parameter members: the number of relays that share the rates.
    func follow(_ members: @escaping @Sendable () -> Int) { self.state.withLock { $0.members = members } }

    /// How many pushes of a route may be claimed now.
    ///
    /// - Parameter wanted: the maximum.
    /// - Returns: the number, and how long to wait if it is 0.
    func allowance(_ route: Route, wanted: Int) -> (count: Int, wait: Duration) {
        let (total, members) = self.state.withLock { ($0.rates[route.app], $0.members) }
        guard let total, wanted > 0 else { return (wanted, .zero) }
        let now = self.clock.lease
        let rate = Double(total) / Double(max(members(), 1))
        let burst = max(1, rate * (Self.burst / .seconds(1)))
        let reserve = max(1, burst * Self.reserve)
        return self.state.withLock { state in
            var pace =
                state.paces[route.app].flatMap { $0.rate == rate ? $0 : nil }
                ?? Pace(rate: rate, bucket: TokenBucket(rate: rate, burst: .zero, least: burst + reserve, now: now))
            defer { state.paces[route.app] = pace }
            let isInteractive = route.lane == .interactive
            let (count, wait) = pace.bucket.take(upTo: wanted, leaving: isInteractive ? 0 : reserve, now: now)
            // The bucket keeps what it gets meanwhile. Without this, each push would be claimed by itself.
            return (count, count > 0 ? wait : max(wait, isInteractive ? Self.shortWait : Self.longWait))
        }
    }

    /// Gives back what was allowed and not claimed.
    func giveBack(_ count: Int, _ route: Route) {
        guard count > 0 else { return }
        self.state.withLock { $0.paces[route.app]?.bucket.giveBack(count) }
    }
}
