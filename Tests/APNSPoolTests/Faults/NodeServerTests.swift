import Foundation
import SupervisedPool
import Synchronization
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// Each push has one outcome, and the record of a server that shares no code with this library agrees with it.
@Suite(
    .enabled(if: ForeignServer.isInstalled("node"), "node is not installed"),
    .timeLimit(.minutes(5)),
    .serialized
)
struct NodeServerTests {
    private static let singles = 1500
    private static let bulk = 1500

    /// The outcomes of all pushes, by device token.
    private final class Book: Sendable {
        private let outcomes = Mutex<[String: [PushOutcome]]>([:])

        func write(_ token: DeviceToken, _ outcome: PushOutcome) {
            self.outcomes.withLock { $0[token.hexadecimal, default: []].append(outcome) }
        }

        var all: [String: [PushOutcome]] { self.outcomes.withLock { $0 } }
    }

    @Test(arguments: TestScale.seeds(fixed: TestScale.size(0, thorough: 1)))
    func eachPushHasOneOutcomeThatNodeConfirms(_ seed: UInt64) async throws {
        let server = try await NodePushServer.start(seed: seed)
        defer { server.stop() }
        var configuration = APNSClientConfiguration.local(port: server.port, caPEM: server.caPEM)
        configuration.pool.size = 2
        configuration.pool.maxOverflow = 1
        // The clock advances five times as fast as real time, but only while this process runs.
        let clock = ManualClock()
        configuration.use(clock)
        configuration.timeouts.response = .seconds(5)
        configuration.timeouts.deadline = .seconds(200)
        let client = try APNSClient(configuration: configuration)
        try await client.start()
        let book = Book()
        let time = Task {
            while !Task.isCancelled {
                clock.advance(by: .milliseconds(5))
                try? await ContinuousClock().sleep(for: .milliseconds(1))
            }
        }
        defer { time.cancel() }
        await withTaskGroup(of: Void.self) { group in
            for worker in 0..<20 {
                group.addTask { await self.sendSingles(worker, seed, client, book) }
            }
            group.addTask { await self.sendBulk(client, book) }
        }
        #expect(await client.status.pool.leased == 0, "seed \(seed)")
        #expect(client.runtime.lifecycle.pushesInFlight == 0, "seed \(seed)")
        #expect(await client.status.restarts == 0, "seed \(seed)")
        await client.shutdown()
        // After that the server has read everything that the client wrote.
        try await until {
            let record = try server.record()
            return record.opened == record.closed
        }
        self.compare(book.all, try server.record(), seed)
    }

    private func sendSingles(_ worker: Int, _ seed: UInt64, _ client: APNSClient, _ book: Book) async {
        var random = SeededRandom(seed: seed &* 1000 &+ UInt64(worker))
        for number in 0..<Self.singles / 20 {
            let token = DeviceToken.sample(worker * 1000 + number)
            let isShort = Int.random(in: 0..<10, using: &random) == 0
            let deadline = isShort ? Duration.milliseconds(Int64.random(in: 0...20, using: &random)) : nil
            let push = Task {
                await client.deliver(samplePush(), to: token, options: DeliveryOptions(deadline: deadline))
            }
            if Int.random(in: 0..<10, using: &random) == 0 {
                for _ in 0..<Int.random(in: 0..<50, using: &random) { await Task.yield() }
                push.cancel()
            }
            book.write(token, await push.value)
        }
    }

    private func sendBulk(_ client: APNSClient, _ book: Book) async {
        let rows = (0..<Self.bulk).map { 1_000_000 + $0 }
        let options = BulkOptions(maxInFlight: 40)
        for await delivery in client.deliveries(
            of: samplePush(),
            to: rows,
            token: { DeviceToken.sample($0) },
            options: options
        ) {
            book.write(.sample(delivery.element), delivery.outcome)
        }
    }

    private func compare(_ outcomes: [String: [PushOutcome]], _ record: NodePushServer.Record, _ seed: UInt64) {
        #expect(record.faults.isEmpty, "seed \(seed): \(record.faults.prefix(3))")
        #expect(outcomes.count == Self.singles + Self.bulk, "seed \(seed)")
        #expect(Set(record.ids.keys).isSubset(of: Set(outcomes.keys)), "seed \(seed)")
        var certainties: [Certainty: Int] = [:]
        for (token, all) in outcomes {
            #expect(all.count == 1, "seed \(seed): \(token)")
            guard let outcome = all.first else { continue }
            certainties[outcome.certainty, default: 0] += 1
            let verdicts = record.verdicts[token] ?? []
            let isRight = self.agree(outcome, verdicts, wasSeen: record.ids[token] != nil)
            #expect(isRight, "seed \(seed): \(token) \(outcome), but the server's verdicts are \(verdicts)")
            // All attempts of a push have the id of its outcome: no response went to another push.
            if let ids = record.ids[token], let id = outcome.apnsID {
                #expect(ids == [id.description], "seed \(seed): \(token) \(outcome)")
            }
        }
        var counts: [NodePushServer.Verdict: Int] = [:]
        for verdict in record.verdicts.values.joined() { counts[verdict, default: 0] += 1 }
        // Every kind of fault occurred.
        #expect(Set(counts.keys) == Set(NodePushServer.Verdict.allCases), "seed \(seed): \(counts)")
        #expect(certainties[.accepted, default: 0] > 1500, "seed \(seed): \(certainties)")
        print("node: seed \(seed), \(record.opened) connections, \(certainties), verdicts \(counts)")
    }

    /// Whether a push's outcome agrees with the server's verdicts on its requests.
    private func agree(_ outcome: PushOutcome, _ verdicts: [NodePushServer.Verdict], wasSeen: Bool) -> Bool {
        let processed = verdicts.filter(\.isProcessed)
        switch outcome.certainty {
        case .accepted: return processed.count == 1 && processed.allSatisfy(\.isResponse200)
        case .notSent: return !wasSeen
        case .notProcessed: return processed.isEmpty
        case .rejected where outcome.status == 410: return processed == [.gone]
        case .rejected: return outcome.status == 503 && processed.isEmpty && verdicts.contains(.busy)
        case .unknown: return processed.count <= 1
        }
    }
}
