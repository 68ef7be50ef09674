import APNSPool
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
        var isComplete: Bool
        var seconds: Double
        var causes: [Cause]
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
            isComplete: !self.counts.isIncomplete,
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
    let inFlight: Int
    let rate: PushRate?
    let progress: Progress

    /// How often rows are written while nobody waits for room.
    private static let tick = Duration.milliseconds(20)

    func send(with client: APNSClient, from reader: sending LineReader) async -> BulkReport {
        let writer = ResultWriter(
            path: self.start.file.path,
            descriptor: self.start.file.descriptor,
            window: self.inFlight
        )
        let feed = TokenFeed(reader, path: self.tokensPath, earlier: self.start.earlier, writer: writer)
        let control = BulkControl(rate: self.rate)
        let tally = BulkTally(self.emptyReport())
        let began = ContinuousClock.now
        await withTaskGroup { group in
            group.addTask {
                while !Task.isCancelled {
                    try? await Task.sleep(for: Self.tick)
                    writer.flush()
                    let hold = control.progress.hold
                    // The configuration cannot change during a run, so waiting pushes end with this error.
                    if Interrupts.isStopRequested || hold?.isConfigurationFault == true { control.stop() }
                    let (counts, sent) = tally.report.withLock { ($0.counts, $0.sent) }
                    self.progress.update(sent) { text in
                        text.inFlight = writer.inFlight
                        text.failures = counts.failures
                    }
                }
            }
            await self.deliver(with: client, feed, writer, control, tally)
            group.cancelAll()
        }
        writer.close()
        writer.flush()
        self.progress.clear()
        var result = tally.report.withLock { $0 }
        result.seconds = began.duration(to: .now) / .seconds(1)
        let end = await feed.end
        // Lines that were read but not sent have no row.
        result.counts.isIncomplete = end != .endOfFile || writer.inFlight > 0
        if let failure = writer.failure { result.failures.append(failure) }
        if case .failed(let text) = end {
            result.failures.append(InputOutputError(description: text))
            result.isOtherFile = await feed.isOtherFile
        }
        return result
    }

    private func emptyReport() -> BulkReport {
        var report = BulkReport()
        for (certainty, count) in self.start.earlier?.counts ?? [] { report.counts.add(certainty, count) }
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
            options: BulkOptions(maxInFlight: self.inFlight, control: control),
            apnsID: { BulkJobManifest.apnsID(run: id, line: $0.number) }
        )
        for await delivery in deliveries {
            let line = delivery.element
            let certainty = delivery.outcome.certainty
            // If an earlier run's push may have arrived, that remains true.
            let keepsRow = line.earlier == .unknown && (certainty == .notSent || certainty == .notProcessed)
            let mustStop = tally.report.withLock { report in
                report.sent += 1
                if keepsRow {
                    report.counts.countCause(of: delivery.outcome)
                } else {
                    if let earlier = line.earlier {
                        report.counts.add(earlier, -1)
                        report.hasReplaced = true
                    }
                    report.counts.count(delivery.outcome)
                }
                // No connection for a whole deadline: the run ends and can be resumed.
                return report.counts.configurationFault != nil || delivery.outcome.error?.code == .unavailable
            }
            writer.write(
                keepsRow ? nil : ResultRow(token: line.token, outcome: delivery.outcome, line: line.number)
            )
            if mustStop || writer.failure != nil { control.stop() }
        }
    }
}
