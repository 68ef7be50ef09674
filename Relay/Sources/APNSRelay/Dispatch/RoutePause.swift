import PushQueue

/// Stops a route for a while after errors that would meet every one of its pushes, so that an outage does not consume
/// the attempts of all of them. After a pause, a few pushes test whether the error is gone.
struct RoutePause: Sendable, Hashable {
    static let firstPause = Duration.seconds(1)
    static let longestPause = Duration.seconds(60)
    /// The most pushes in flight while it is not known whether the error is gone.
    static let probes = 10

    private(set) var reason: String?
    private(set) var until: QueueTime?
    private var failures = 0

    /// Whether the route was stopped and no push has got through since then.
    var isProbing: Bool { self.failures > 0 }

    func isPaused(at now: QueueTime) -> Bool { self.until.map { now < $0 } ?? false }

    /// An attempt failed for a reason that would meet every push. Further failures within a pause change nothing.
    mutating func fail(_ fault: RouteFault, retryAfter: Duration?, at now: QueueTime) {
        guard !self.isPaused(at: now) else { return }
        let pause = min(Self.firstPause * (1 << min(self.failures, 6)), Self.longestPause)
        self.failures += 1
        self.reason = fault.message
        self.until = now.advanced(by: max(pause, min(retryAfter ?? .zero, Self.longestPause)))
    }

    /// A push got a response that does not stop the route.
    mutating func succeed() {
        self = RoutePause()
    }
}
