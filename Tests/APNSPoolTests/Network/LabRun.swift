import Foundation
import Logging
import Synchronization
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// A client on a network of its own. It records each push with its times and its outcome.
final class LabRun: Sendable {
    private struct Entry {
        /// Nil for a row of a bulk call, which waits for those before it.
        var start: ContinuousClock.Instant?
        var end: ContinuousClock.Instant
        var id: APNSID
        var outcome: PushOutcome
    }

    private struct State {
        var entries: [Entry] = []
        var accepted = 0
        var lastAcceptance: ContinuousClock.Instant?
        var recovery: Duration?
        var connects = 0
        var losses = 0
    }

    let name: String
    let host: String
    let network: LabNetwork
    let names: LabNameServer
    let client: APNSClient
    /// All pushes of this run go to this device, so that they can be found in the server's ledger.
    private let device: DeviceToken
    private let resendsUnknown: Bool
    private let book = OutcomeBook()
    private let state = Mutex(State())

    init(_ labCase: LabCase, number: Int, names: LabNameServer, server: LabServer) throws {
        self.name = labCase.name
        self.names = names
        self.host = "case\(number).\(LabServer.domain)"
        self.device = DeviceToken.sample(number)
        self.network = try LabNetwork(number: number, labCase.commands)
        names.set(self.host, [self.network.address])
        var variables = server.variables
        variables["APNS_ENDPOINT"] = "https://\(self.host):\(Lab.port)"
        var configuration = try APNSClientConfiguration(settings: [.environment(variables)])
        configuration.logger = Logger(label: "lab") { _ in SwiftLogNoOpLogHandler() }
        labCase.configure(&configuration)
        self.resendsUnknown = configuration.retry.resendsUnknown
        self.client = try APNSClient(configuration: configuration)
    }

    // MARK: Steps of a case

    /// Starts the client, and sends pushes until the first few are accepted.
    func connect() async throws {
        try await self.client.start()
        await self.traffic { await self.waitForAcceptances(5, within: .seconds(30)) }
    }

    /// Sends one push.
    @discardableResult
    func push(payloadBytes: Int = 30) async -> PushOutcome {
        let id = APNSID.random()
        let start = ContinuousClock.now
        let options = DeliveryOptions(apnsID: id)
        let outcome = await self.client.deliver(Self.push(payloadBytes), to: self.device, options: options)
        self.record(outcome, of: id, since: start)
        return outcome
    }

    /// Sends pushes with one bulk call.
    ///
    /// - Returns: how many were accepted.
    func bulk(_ count: Int, payloadBytes: Int, options: BulkOptions) async -> Int {
        let deliveries = self.client.deliveries(
            of: Self.push(payloadBytes),
            to: (0..<count).map { _ in APNSID.random() },
            token: { [device] _ in device },
            options: options,
            apnsID: { $0 }
        )
        for await delivery in deliveries { self.record(delivery.outcome, of: delivery.element, since: nil) }
        return self.accepted
    }

    private static func push(_ payloadBytes: Int) -> PreparedPush {
        let text = String(repeating: "x", count: max(0, payloadBytes - 26))
        return samplePush(payload: #"{"aps":{"alert":"\#(text)"}}"#)
    }

    private func record(_ outcome: PushOutcome, of id: APNSID, since start: ContinuousClock.Instant?) {
        self.book.write(id, outcome)
        self.state.withLock { state in
            let entry = Entry(start: start, end: .now, id: id, outcome: outcome)
            state.entries.append(entry)
            guard outcome.certainty == .accepted else { return }
            state.accepted += 1
            state.lastAcceptance = entry.end
        }
    }

    /// Starts a push at regular intervals during `body`, and then waits for the outcomes of all pushes.
    func traffic(
        every interval: Duration = .milliseconds(100),
        payloadBytes: Int = 30,
        during body: @Sendable @escaping () async throws -> Void
    ) async rethrows {
        try await withThrowingTaskGroup(of: Void.self) { group in
            let sender = Task {
                await withTaskGroup(of: Void.self) { pushes in
                    while !Task.isCancelled {
                        // The pushes are not cancelled with the sender.
                        pushes.addTask { _ = await Task { await self.push(payloadBytes: payloadBytes) }.value }
                        try? await ContinuousClock().sleep(for: interval)
                    }
                }
            }
            group.addTask {
                defer { sender.cancel() }
                try await body()
            }
            try await group.waitForAll()
            await sender.value
        }
    }

    /// How long a fault lasts.
    func pause(_ duration: Duration) async throws { try await ContinuousClock().sleep(for: duration) }

    /// Waits until so many more pushes have been accepted.
    func waitForAcceptances(_ count: Int, within limit: Duration) async {
        let target = self.accepted + count
        let reached = await self.poll(within: limit) { self.accepted >= target }
        #expect(reached, "\(self.name): fewer than \(count) pushes were accepted within \(limit)")
    }

    /// Measures the time from now, the end of the disturbance, until a push is accepted.
    func waitForRecovery(within limit: Duration) async {
        let start = ContinuousClock.now
        let reached = await self.poll(within: limit) {
            self.state.withLock { $0.lastAcceptance.map { $0 >= start } ?? false }
        }
        #expect(reached, "\(self.name): no push was accepted within \(limit)")
        self.state.withLock { state in
            let first = state.entries.first { $0.end >= start && $0.outcome.certainty == .accepted }
            state.recovery = first.map { start.duration(to: $0.end) }
        }
    }

    private func poll(within limit: Duration, _ isMet: () -> Bool) async -> Bool {
        let clock = ContinuousClock()
        let end = clock.now.advanced(by: limit)
        while !isMet() {
            guard clock.now < end, !Task.isCancelled else { return false }
            try? await clock.sleep(for: .milliseconds(10))
        }
        return true
    }

    private var accepted: Int { self.state.withLock { $0.accepted } }

    /// How many pushes had another outcome than `accepted`.
    var failures: Int {
        self.state.withLock { $0.entries.count { $0.outcome.certainty != .accepted } }
    }

    /// How many connections ended that the client did not close on purpose.
    var losses: Int { self.client.runtime.monitor.connectionLosses.load(ordering: .relaxed) }

    /// Shuts the client down.
    func finish() async {
        let status = await self.client.status
        self.state.withLock {
            $0.connects = status.connects
            $0.losses = status.connectionLosses
        }
        await self.client.shutdown()
    }

    // MARK: Results

    /// Checks that the server's ledger confirms each outcome.
    func compare(with processed: [String: [APNSID: Int]]) {
        let own = processed[self.device.hexadecimal] ?? [:]
        self.book.compare(processed: own, resendsUnknown: self.resendsUnknown, self.name)
    }

    static let header = """
        | network | pushes | accepted | unknown | not sent | other | connects | losses | p50 ms | p99 ms | recovery |
        |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|
        """

    /// The row of the table of results.
    var row: String {
        let state = self.state.withLock { $0 }
        func count(_ certainties: Certainty...) -> Int {
            state.entries.count { certainties.contains($0.outcome.certainty) }
        }
        let times = state.entries.filter { $0.outcome.certainty == .accepted }
            .compactMap { entry in entry.start?.duration(to: entry.end) }.sorted()
        func percentile(_ share: Double) -> String {
            times.isEmpty ? "" : "\(Int(Self.seconds(times[Int(Double(times.count - 1) * share)]) * 1000))"
        }
        let cells = [
            self.name, "\(state.entries.count)", "\(count(.accepted))", "\(count(.unknown))", "\(count(.notSent))",
            "\(count(.rejected, .notProcessed))", "\(state.connects)", "\(state.losses)", percentile(0.5),
            percentile(0.99), state.recovery.map { String(format: "%.2f s", Self.seconds($0)) } ?? "",
        ]
        return "| " + cells.joined(separator: " | ") + " |"
    }

    /// The errors of the pushes, to explain a row.
    var details: [String] {
        let state = self.state.withLock { $0 }
        let errors = Dictionary(grouping: state.entries.compactMap(\.outcome.error)) { "\($0.certainty): \($0.code)" }
        return errors.sorted { $0.key < $1.key }.map { "\($0.value.count) pushes \($0.key): \($0.value[0].message)" }
    }

    private static func seconds(_ duration: Duration) -> Double { duration / .seconds(1) }
}
