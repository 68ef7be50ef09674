import APNSModel
import PushQueue

/// Stops a route for a while after errors that would meet every one of its pushes, so that an outage does not use up the
/// attempts of all of them. After a pause, a few pushes test whether the error is gone.
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

    /// Takes the outcome of an attempt into account.
    ///
    /// - Parameters:
    ///   - outcome: the outcome.
    ///   - now: a time that never jumps.
    mutating func record(_ outcome: PushOutcome, at now: QueueTime) {
        if let error = outcome.error, let fault = RouteFault(error) {
            self.fail(fault, retryAfter: error.retryAfter, at: now)
        } else if outcome.certainty == .rejected, outcome.error?.suggestsMisconfiguration ?? false {
            // Says nothing about a route that works. Of a route that is being tested, it confirms the suspicion.
            if let reason, self.isProbing { self.fail(RouteFault(reason), retryAfter: nil, at: now) }
        } else if outcome.certainty == .accepted || outcome.certainty == .rejected {
            self = RoutePause()
        }
    }

    /// An attempt failed for a reason that would meet every push. Further failures within a pause change nothing.
    mutating func fail(_ fault: RouteFault, retryAfter: Duration?, at now: QueueTime) {
        guard !self.isPaused(at: now) else { return }
        let pause = min(Self.firstPause * (1 << min(self.failures, 6)), Self.longestPause)
        self.failures += 1
        self.reason = fault.message
        self.until = now.advanced(by: max(pause, min(retryAfter ?? .zero, Self.longestPause)))
    }
}

/// An error that would meet every push of a route, so that the route pauses.
struct RouteFault: Sendable, Hashable {
    var message: String

    init(_ message: String) {
        self.message = message
    }

    /// Nil for errors of a single push.
    init?(_ error: PushError) {
        switch error.code {
        case .unavailable, .credential, .configuration, .suspectedMisconfiguration, .notRunning, .queueFull:
            self.message = error.message
        default:
            guard error.advice == .fixCredential else { return nil }
            self.message = error.message
        }
    }
}

extension PushError {
    /// Whether the rejection is of the kind that many pushes get if the environment or the topic is wrong.
    fileprivate var suggestsMisconfiguration: Bool {
        self.advice == .checkEnvironment || self.reason == .topicDisallowed
    }
}
