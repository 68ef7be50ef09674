import APNSModel
import PushQueue
import SupervisedPool

/// Pauses a route after an error that affects all its pushes, so that an outage does not use up their attempts.
///
/// After a pause, the route sends a few pushes to test whether the error is gone.
struct RoutePause: Sendable, Hashable {
    static let pauses = Backoff(.doubling(), minimum: .seconds(1), maximum: .seconds(60))
    /// The longest pause while there is no connection to APNs.
    static let longestPauseWithoutConnection = Duration.seconds(2)
    /// The maximum number of pushes in flight during such a test.
    static let probes = 10

    private(set) var reason: String?
    private(set) var until: QueueTime?
    private var failures = 0

    /// Whether the route was paused, and APNs has neither accepted nor rejected a push since then. It still counts as paused.
    var isProbing: Bool { self.failures > 0 }

    func isPaused(at now: QueueTime) -> Bool { self.until.map { now < $0 } ?? false }

    /// Takes the outcome of an attempt into account.
    ///
    /// - Parameters:
    ///   - outcome: the outcome.
    ///   - now: a time that never jumps.
    mutating func record(_ outcome: PushOutcome, at now: QueueTime) {
        if let error = outcome.error, let fault = RouteFault(error) {
            self.fail(fault, retryAfter: error.retryAfter, at: now)
        } else if outcome.certainty == .accepted || outcome.certainty == .rejected {
            self = RoutePause()
        }
    }

    /// Begins a pause after an error that affects all pushes. During a pause, further errors have no effect.
    mutating func fail(_ fault: RouteFault, retryAfter: Duration?, at now: QueueTime) {
        guard !self.isPaused(at: now) else { return }
        self.failures += 1
        let pause = Self.pauses.wait(after: self.failures)
        self.reason = fault.message
        self.until = now.advanced(by: min(max(pause, retryAfter ?? .zero), fault.longestPause))
    }
}

/// An error that affects all pushes of a route. The route then pauses.
struct RouteFault: Sendable, Hashable {
    var message: String
    /// The longest pause after this error.
    var longestPause = RoutePause.pauses.maximum

    init(_ message: String) {
        self.message = message
    }

    /// Nil for errors of a single push.
    init?(_ error: PushError) {
        self.message = error.message
        switch error.code {
        case .unavailable, .outage, .notRunning, .queueFull:
            // The pause can be short, because the client limits how often it connects: the tests cause no traffic.
            self.longestPause = RoutePause.longestPauseWithoutConnection
        case .credential, .configuration, .suspectedMisconfiguration:
            break
        case .rejected where error.certainty == .unknown:
            // A proxy or gateway responds instead of APNs. Without a pause, all pushes would end as unknown.
            break
        default:
            guard error.advice == .fixCredential else { return nil }
        }
    }
}
