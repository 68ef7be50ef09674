import APNSPool
import ArgumentParser
import Synchronization

/// The result of a run of `apns bulk`.
struct BulkReport: Sendable {
    /// The outcomes of all rows in the results.
    var counts = OutcomeCounts()
    /// The outcomes of this run.
    var sent = 0
    /// Lines that were skipped because an earlier run completed them.
    var earlier = 0
    var seconds = 0.0
    var hasReplaced = false
    /// Whether the tokens differ from those of the earlier run.
    var isOtherFile = false
    var failures: [InputOutputError] = []
    /// Why the run stopped before the end of the tokens, for the user; nil if nothing but a signal stopped it.
    var stop: String?

    struct Summary: Encodable {
        struct Cause: Encodable {
            var cause: String
            var count: Int
        }

        var accepted: Int
        var rejected: Int
        var notProcessed: Int
        var notSent: Int
        var unknown: Int
        var sent: Int
        var earlier: Int
        /// Lines that the next run with `--resume` sends; left out if the number is not known.
        var remaining: Int?
        /// Those of them that have no row; left out if the number is not known.
        var withoutRow: Int?
        /// Lines that `--resume` sends again once the environment or the topic is corrected.
        var misdirected: Int
        var isComplete: Bool
        var exitStatus: Int32
        var seconds: Double
        var causes: [Cause]
    }

    /// The exit status of the run.
    var status: ExitCode {
        if self.isOtherFile { return ExitStatus.usage }
        return self.failures.isEmpty ? self.counts.status : ExitStatus.inputOutput
    }

    var summary: Summary {
        Summary(
            accepted: self.counts.accepted,
            rejected: self.counts.rejected,
            notProcessed: self.counts.notProcessed,
            notSent: self.counts.notSent,
            unknown: self.counts.unknown,
            sent: self.sent,
            earlier: self.earlier,
            remaining: self.counts.remaining,
            withoutRow: self.counts.withoutOutcome,
            misdirected: self.counts.misdirected,
            isComplete: !self.counts.isIncomplete,
            exitStatus: self.status.rawValue,
            seconds: (self.seconds * 1000).rounded() / 1000,
            causes: self.counts.sortedCauses.map { .init(cause: $0.cause, count: $0.count) }
        )
    }
}

/// A report that is updated while other tasks read it.
private final class BulkTally: Sendable {
    let report: Mutex<BulkReport>

    init(_ report: BulkReport) {
        self.report = Mutex(report)
    }
}

/// Sends the pushes of a run.
struct BulkJob: Sendable {
    let push: PreparedPush
    let start: BulkStart
    let tokensPath: String
    /// The number of lines to send; nil if it is not known.
    let lines: Int?
    /// The most pushes that are started and have no written row. After a kill, at most this many are sent twice.
    let inFlight: Int
    let rate: PushRate?
    let massRejection: MassRejectionLimits
    let progress: Progress

    /// The longest time that a row waits to be written.
    private static let tick = Duration.milliseconds(20)

    /// Rows are written when this many are buffered. The rest of `inFlight` is for pushes in flight and unread outcomes.
    private var rowsPerWrite: Int { min(max(self.inFlight / 4, 1), 256) }

    func send(with client: APNSClient, from reader: sending LineReader) async -> BulkReport {
        let writer = ResultWriter(
            path: self.start.file.path,
            descriptor: self.start.file.descriptor,
            capacity: self.rowsPerWrite
        )
        let feed = TokenFeed(reader, path: self.tokensPath, earlier: self.start.earlier)
        let control = BulkControl(rate: self.rate)
        let tally = BulkTally(self.emptyReport())
        let began = ContinuousClock.now
        await withTaskGroup { group in
            group.addTask {
                var watch = HoldWatch()
                while !Task.isCancelled {
                    try? await Task.sleep(for: Self.tick)
                    writer.flush()
                    let progress = control.progress
                    let hold = progress.hold
                    if let stop = watch.stop(hold, now: .now) { tally.report.withLock { $0.stop(stop) } }
                    let (counts, sent, stop) = tally.report.withLock { ($0.counts, $0.sent, $0.stop) }
                    // Waiting pushes get one more attempt, and end with the reason of the hold.
                    if Interrupts.isStopRequested || stop != nil || writer.failure != nil { control.stop() }
                    self.progress.update(sent) { text in
                        text.inFlight = progress.unfinished
                        text.failures = counts.failures
                        text.hold = hold?.message
                    }
                }
            }
            await self.deliver(with: client, feed, writer, control, tally)
            group.cancelAll()
        }
        writer.flush()
        self.progress.clear()
        var result = tally.report.withLock { $0 }
        result.seconds = began.duration(to: .now) / .seconds(1)
        let (end, read) = await (feed.end, feed.count)
        // Lines that were read but not sent have no row.
        let isRead = end == .endOfFile && read == result.sent
        result.counts.withoutOutcome = isRead ? 0 : self.lines.map { max($0 - result.counts.total, 0) }
        if let failure = writer.failure { result.failures.append(failure) }
        if case .failed(let text) = end {
            result.failures.append(InputOutputError(description: text))
            result.isOtherFile = await feed.isOtherFile
        }
        return result
    }

    private func emptyReport() -> BulkReport {
        var report = BulkReport()
        report.counts.resendsUnknown = self.start.earlier?.resendsUnknown ?? false
        for (row, count) in self.start.earlier?.counts ?? [] {
            report.counts.add(row.certainty, row.prospect, count)
        }
        report.earlier = self.start.earlier?.done ?? 0
        return report
    }

    private func deliver(
        with client: APNSClient,
        _ feed: TokenFeed,
        _ writer: ResultWriter,
        _ control: BulkControl,
        _ tally: BulkTally
    ) async {
        let id = self.start.id
        let deliveries = client.deliveries(
            of: self.push,
            to: TokenLines(feed: feed),
            token: { $0.token },
            options: BulkOptions(
                maxInFlight: self.inFlight - (self.rowsPerWrite - 1),
                massRejection: self.massRejection,
                control: control
            ),
            apnsID: { BulkJobManifest.apnsID(run: id, line: $0.number) }
        )
        for await delivery in deliveries {
            let line = delivery.element
            let keepsRow = line.keepsRow(after: delivery.outcome)
            let mustStop = tally.report.withLock { report in
                report.sent += 1
                if keepsRow {
                    report.counts.countCause(of: delivery.outcome)
                } else {
                    if let earlier = line.earlier {
                        report.counts.add(earlier.certainty, earlier.prospect, -1)
                        report.hasReplaced = true
                    }
                    report.counts.count(delivery.outcome)
                }
                return report.counts.configurationFault != nil || delivery.outcome.error?.isWithoutConnection == true
            }
            if !keepsRow {
                writer.write(ResultRow(token: line.token, outcome: delivery.outcome, line: line.number))
            }
            if mustStop || writer.failure != nil { control.stop() }
        }
    }
}

extension BulkReport {
    /// Records why the run stops. The first reason counts.
    fileprivate mutating func stop(_ reason: BulkStop) {
        guard self.stop == nil else { return }
        self.stop = reason.message(now: WallTime.now, clockTime: WallTime.timeOfDay)
        switch reason {
        case .configuration(let error), .clock(let error): self.counts.stop(because: error)
        case .tokenUpdates: break
        }
    }
}

extension TokenLine {
    /// Whether the line keeps its row: a push of an earlier run may have arrived, and this outcome of a resend proves
    /// nothing about it.
    func keepsRow(after outcome: PushOutcome) -> Bool {
        guard self.earlier?.certainty == .unknown else { return false }
        switch outcome.certainty {
        case .accepted, .unknown: return false
        case .notProcessed, .notSent: return true
        // A row that is sent again without consent must not replace one that needs it.
        case .rejected: return LineProspect(.rejected, outcome.advice, resendsUnknown: false) != .done
        }
    }
}

extension PushError {
    /// Whether the push waited for its whole deadline without a connection. The run then ends, and can be resumed.
    ///
    /// An outage behind the connection, which APNs' own responses report, does not end the run.
    fileprivate var isWithoutConnection: Bool { self.code == .unavailable && self.rejection == nil }
}
