import APNSPool
import APNSSimulator
import SupervisedPool

/// Sends pushes to a simulator with faults.
///
/// By the protocol, none of these faults can lose a push. A response 503 and a GOAWAY below a push guarantee that the
/// push was not processed. The connection that is dropped has no open stream: it is dropped between two waves of
/// pushes, and the second wave waits until the client has noticed the loss.
struct Demo: Sendable {
    /// The fewest pushes for which all faults fit in.
    static let fewest = 100
    /// The most pushes that the simulator records individually.
    private static let mostRecorded = 200_000

    var pushes: Int
    var inFlight: Int
    var isVerbose: Bool

    struct Report: Sendable {
        var counts = OutcomeCounts()
        /// The simulator's record.
        var record = Ledger()
        var expected503 = 0
        var resent = 0
        var restarts = 0
        /// The time during which pushes were in flight.
        var seconds = 0.0
        var latencies: [Duration] = []
        var isRecorded = true

        func isGood(pushes: Int) -> Bool {
            self.counts.accepted == pushes && self.faultsMissing.isEmpty && self.processedTwice == 0
        }

        var responses503: Int { self.record.responses[503] ?? 0 }
        var processedTwice: Int { self.record.duplicates.count }

        var faultsMissing: [String] {
            var missing: [String] = []
            if self.responses503 < self.expected503 {
                missing.append("\(self.expected503 - self.responses503) responses 503")
            }
            if self.record.goAwaysSent == 0 { missing.append("GOAWAY") }
            if self.record.connectionsDropped == 0 { missing.append("dropped connection") }
            return missing
        }

        /// The last line of the report.
        func verdict(pushes: Int) -> String {
            var line = "\(self.counts.accepted) accepted"
            if self.counts.accepted < pushes {
                let causes = self.counts.causeLines.joined(separator: "; ")
                line += ", \(pushes - self.counts.accepted) not accepted: \(causes.isEmpty ? "no outcome" : causes)"
            }
            if self.processedTwice > 0 { line += ", \(self.processedTwice) processed twice" }
            if !self.faultsMissing.isEmpty {
                line += ", but these faults did not happen: \(self.faultsMissing.joined(separator: ", "))"
            }
            return line
        }
    }

    private struct Row: Sendable {
        var index: Int
        var start: ContinuousClock.Instant
    }

    func run() async throws -> Report {
        let isRecorded = self.pushes <= Self.mostRecorded
        let key = SimulatedKey()
        var configuration = Simulator.Configuration()
        configuration.credential = .keys([Simulator.Key(key)])
        configuration.recording = isRecorded ? .pushes : .counts
        let simulator = try await Simulator.start(configuration)
        do {
            var report = try await self.run(simulator, key)
            report.isRecorded = isRecorded
            await simulator.stop()
            return report
        } catch {
            await simulator.stop()
            throw error
        }
    }

    private func run(_ simulator: Simulator, _ key: SimulatedKey) async throws -> Report {
        var configuration = APNSClientConfiguration(
            authentication: .token(privateKeyPEM: key.p8, keyID: key.keyID, teamID: key.teamID),
            environment: .custom(host: "localhost", port: simulator.port),
            pool: .init(size: 2, maxOverflow: 2),
            trust: .init(caPEM: simulator.certificateAuthorityPEM),
            logger: .plain(isVerbose: self.isVerbose)
        )
        // The simulator does not treat many connections in quick succession as an attack.
        configuration.pool.connectSpacing = .milliseconds(20)

        let burst = min(40, self.pushes / 50)
        let first503 = self.pushes / 10
        // Each of these faults takes effect once, so the client's second attempt is accepted.
        for index in first503..<first503 + burst {
            let trigger = FaultTrigger(deviceTokens: [Self.token(index)])
            simulator.inject(Fault(.respond(.serviceUnavailable), when: trigger))
        }
        let trigger = FaultTrigger(deviceTokens: [Self.token(self.pushes * 3 / 10)])
        simulator.inject(Fault(.goAway(.beforeThisRequest), when: trigger))

        return try await withAPNSClient(configuration: configuration) { client in
            var report = Report()
            report.expected503 = burst
            report.latencies.reserveCapacity(self.pushes)
            let progress = Progress(total: self.pushes)
            let middle = self.pushes * 6 / 10
            try await self.send(0..<middle, with: client, &report, progress)
            await self.dropIdleConnection(of: simulator, client)
            try await self.send(middle..<self.pushes, with: client, &report, progress)
            progress.clear()

            let status = await client.status
            report.resent = status.resends
            report.restarts = status.restarts
            report.record = simulator.record
            report.latencies.sort()
            return report
        }
    }

    private func send(
        _ range: Range<Int>,
        with client: APNSClient,
        _ report: inout Report,
        _ progress: Progress
    ) async throws {
        let push = try PushNotification(
            topic: "com.example.app",
            alert: Alert(title: "Hey There", subtitle: "Full moon sighting", body: "Did you see it?")
        )
        .badge(1).sound("cow.wav").prepared()
        let start = ContinuousClock.now
        let deliveries = client.deliveries(
            of: push,
            to: range.lazy.map { Row(index: $0, start: .now) },
            token: { Self.token($0.index) },
            options: BulkOptions(maxInFlight: self.inFlight)
        )
        for await delivery in deliveries {
            report.counts.count(delivery.outcome)
            report.latencies.append(delivery.element.start.duration(to: .now))
            progress.update(report.counts.total)
        }
        report.seconds += start.duration(to: .now) / .seconds(1)
    }

    /// Drops a connection while nothing is in flight, so that it has no open stream. Returns when the client has
    /// noticed the loss, because until then it could send on that connection.
    private func dropIdleConnection(of simulator: Simulator, _ client: APNSClient) async {
        // Do not drop connections that were replaced and are about to close.
        _ = await Self.poll {
            let workers = await client.status.pool.workers
            let ready = workers.count { $0.state == .ready }
            return ready > 0 && ready == simulator.openConnections
                && workers.allSatisfy { $0.state != .connecting && $0.state != .draining }
        }
        let before = await Self.ages(of: client)
        guard let newest = simulator.connectionNumbers.last,
            await simulator.dropConnections(.number(newest)) > 0
        else { return }
        _ = await Self.poll {
            let now = await Self.ages(of: client)
            return before.contains { worker, age in now[worker].map { $0 < age } ?? true }
        }
    }

    /// How long each ready session has been ready.
    private static func ages(of client: APNSClient) async -> [Int: Duration] {
        await client.status.pool.workers.reduce(into: [:]) { ages, worker in
            if worker.state == .ready { ages[worker.id.index] = worker.age }
        }
    }

    private static func poll(_ condition: () async -> Bool) async -> Bool {
        for _ in 0..<1000 {
            if await condition() { return true }
            try? await Task.sleep(for: .milliseconds(5))
        }
        return false
    }

    /// The device token of a push: 64 digits.
    private static func token(_ index: Int) -> String {
        let digits = String(index, radix: 16)
        return String(repeating: "0", count: max(0, 64 - digits.count)) + digits
    }

    // MARK: Table

    func table(_ report: Report) -> Table {
        var table = Table()
        table.add("pushes", self.pushes)
        table.add("accepted", report.counts.accepted)
        table.add("rejected", report.counts.rejected)
        table.add("not processed", report.counts.notProcessed)
        table.add("not sent", report.counts.notSent)
        table.add("unknown", report.counts.unknown)
        table.add("resent", report.resent)
        if report.isRecorded { table.add("processed twice by the simulator", report.processedTwice) }
        table.add("responses 503", report.responses503)
        table.add("GOAWAYs", report.record.goAwaysSent)
        table.add("connections dropped", report.record.connectionsDropped)
        table.add("connections opened", report.record.connectionsOpened)
        table.add("restarts by supervisors", report.restarts)
        table.add("pushes a second", report.seconds > 0 ? Int(Double(self.pushes) / report.seconds) : 0)
        table.add("latency p50", Self.milliseconds(report.latencies, 50))
        table.add("latency p99", Self.milliseconds(report.latencies, 99))
        return table
    }

    /// The nearest-rank percentile of sorted times.
    private static func milliseconds(_ sorted: [Duration], _ percent: Int) -> String {
        guard !sorted.isEmpty else { return "-" }
        let rank = min(sorted.count - 1, max(0, (sorted.count * percent + 99) / 100 - 1))
        let tenths = Int((sorted[rank] / .milliseconds(1) * 10).rounded())
        return "\(tenths / 10).\(tenths % 10) ms"
    }
}
