import APNSModel
import Logging
import SupervisedPool
import Synchronization

/// Counts how a client's pushes ended during its drain: `APNSClientStatus.drain`.
///
/// Each of these pushes also has its own outcome. A push of a bulk call is counted only after the call's consumer has
/// asked for the outcome. A push that the caller passes to the client after the drain began is not counted, because the
/// client does not accept it.
public struct DrainReport: Sendable, Hashable, CustomStringConvertible {
    /// The time limit of the drain. Nil if there was no drain, for example because the task that ran the client was
    /// cancelled, or because the client never ran.
    public var within: Duration?
    /// The duration of the drain.
    public var took: Duration
    /// Pushes that completed during the drain, accepted or not.
    public var finished: Int
    /// Pushes in the client of which nothing was sent: `notSent`, `shuttingDown`. You can send them again.
    public var notSent: Int
    /// Pushes that were written but got no response in time: `unknown`, `shuttingDown`. If the run was cancelled,
    /// pushes lost their connection instead; their outcomes say so, and they are not counted here.
    public var unknown: Int

    /// Whether every push in the client completed: `notSent` and `unknown` are zero.
    public var isComplete: Bool { self.notSent == 0 && self.unknown == 0 }

    public var description: String {
        "\(self.finished) pushes finished, \(self.notSent) not sent, \(self.unknown) unknown, in \(self.took)"
    }
}

/// Counts how pushes end while a client shuts down. Pure.
struct DrainCounter: Sendable {
    private struct Totals: Sendable {
        var all = 0
        var notSent = 0
        var unknown = 0

        /// - Parameter refused: pushes that the client did not accept. They are in the totals and are subtracted here.
        init(_ pushes: [PushCounters.Key: Int], refused: Int) {
            for (key, count) in pushes {
                self.all += count
                guard key.reason == PushError.Code.shuttingDown.rawValue else { continue }
                if key.outcome == .notSent { self.notSent += count }
                if key.outcome == .unknown { self.unknown += count }
            }
            self.all -= refused
            self.notSent -= refused
        }
    }

    private var within: Duration?
    private var began: MonotonicInstant?
    private var atBegin: Totals?

    /// Records the beginning of a drain. Pushes that ended earlier are not counted.
    mutating func begin(_ pushes: [PushCounters.Key: Int], refused: Int, within: Duration, now: MonotonicInstant) {
        guard self.began == nil else { return }
        self.within = within
        self.began = now
        self.atBegin = Totals(pushes, refused: refused)
    }

    func report(_ pushes: [PushCounters.Key: Int], refused: Int, now: MonotonicInstant) -> DrainReport {
        let end = Totals(pushes, refused: refused)
        let lost = max(0, end.notSent) + end.unknown
        let lostBefore = self.atBegin.map { max(0, $0.notSent) + $0.unknown } ?? 0
        return DrainReport(
            within: self.within,
            took: self.began.map { $0.duration(to: now) } ?? .zero,
            finished: self.atBegin.map { max(0, (end.all - lost) - ($0.all - lostBefore)) } ?? 0,
            notSent: max(0, end.notSent),
            unknown: end.unknown
        )
    }
}

extension ClientRuntime {
    /// How the pushes ended. Meaningful when the client has stopped.
    var drainReport: DrainReport {
        let counter = self.drainCounter.withLock { $0 }
        return counter.report(self.monitor.pushes.totals, refused: self.refusedPushes, now: self.clock.now)
    }

    func recordDrainBegin(within time: Duration) {
        self.drainCounter.withLock {
            $0.begin(self.monitor.pushes.totals, refused: self.refusedPushes, within: time, now: self.clock.now)
        }
    }

    private var refusedPushes: Int { self.monitor.refusedPushes.load(ordering: .relaxed) }

    /// Logs the last line of a client. Called by the task that ran it, after the last push has its outcome.
    func logDrained() {
        let report = self.drainReport
        self.finalReport.withLock { $0 = report }
        var metadata: Logger.Metadata = ["finished": "\(report.finished)", "took": "\(report.took)"]
        guard !report.isComplete else {
            self.logger.info("drained", metadata: metadata)
            return
        }
        metadata["not-sent"] = "\(report.notSent)"
        metadata["unknown"] = "\(report.unknown)"
        metadata["within"] = "\(report.within.map { "\($0)" } ?? "the run ended without a drain")"
        self.logger.warning("the client ended before all pushes had a response", metadata: metadata)
    }
}
