import APNSModel
import Logging
import SupervisedPool
import Synchronization

/// What became of a client's pushes when it ended: `APNSClientStatus.drain`.
///
/// Each of these pushes has its outcome; here they are counted. Those of a bulk call count when its reader has asked for
/// them. Pushes that came when the client took none any more are not among them: they were never taken.
public struct DrainReport: Sendable, Hashable, CustomStringConvertible {
    /// How long the drain was allowed to take; nil if there was none: the task that ran the client was cancelled, or
    /// nobody ran it.
    public var within: Duration?
    /// How long it took.
    public var took: Duration
    /// Pushes that ended by themselves while it drained, accepted or not.
    public var finished: Int
    /// Pushes that had been taken and that nothing was sent of: `notSent`, `shuttingDown`. They may be sent again.
    public var notSent: Int
    /// Pushes that were written, and whose answer did not come in time: `unknown`, `shuttingDown`. Those of a run that was
    /// cancelled lost their connection; their outcomes say so, and they are not counted here.
    public var unknown: Int

    /// Whether every push that had been taken ended by itself.
    public var isComplete: Bool { self.notSent == 0 && self.unknown == 0 }

    public var description: String {
        "\(self.finished) pushes finished, \(self.notSent) not sent, \(self.unknown) unknown, in \(self.took)"
    }
}

/// Counts how pushes ended at the end of a client. Pure.
struct DrainCounter: Sendable {
    private struct Totals: Sendable {
        var all = 0
        var notSent = 0
        var unknown = 0

        /// - Parameter refused: pushes that were not taken, which are counted as ended all the same.
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

    /// A drain begins. Pushes that ended before do not count.
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
    /// What became of the pushes. Meaningful when the client has stopped.
    var drainReport: DrainReport {
        let counter = self.drainCounter.withLock { $0 }
        return counter.report(self.monitor.pushes.totals, refused: self.refusedPushes, now: self.clock.now)
    }

    func beginDrainCounter(within time: Duration) {
        self.drainCounter.withLock {
            $0.begin(self.monitor.pushes.totals, refused: self.refusedPushes, within: time, now: self.clock.now)
        }
    }

    private var refusedPushes: Int { self.monitor.refusals.load(ordering: .relaxed) }

    /// The last line of a client's life. By the task that ran it, when the last push has its outcome.
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
        metadata["within"] = "\(report.within.map { "\($0)" } ?? "no time: the run was cancelled")"
        self.logger.warning("the client ended before all pushes had a response", metadata: metadata)
    }
}
