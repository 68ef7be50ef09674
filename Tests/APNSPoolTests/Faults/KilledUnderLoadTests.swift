import APNSTransport
import NIOCore
import SupervisedPool
import Synchronization
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// Connection actors that crash on a broken invariant while thousands of pushes are in flight.
@Suite(.timeLimit(.minutes(5)), .serialized)
struct KilledUnderLoadTests {
    private static let pushes = TestScale.size(4_000, thorough: 10_000)

    /// The outcomes of all pushes, by device token.
    private final class Book: Sendable {
        private let outcomes = Mutex<[String: [PushOutcome]]>([:])
        private let ended = Atomic<Int>(0)

        /// Returns the number of outcomes so far.
        func write(_ token: DeviceToken, _ outcome: PushOutcome) -> Int {
            outcomes.withLock { $0[token.hexadecimal, default: []].append(outcome) }
            return ended.wrappingAdd(1, ordering: .relaxed).newValue
        }

        var all: [String: [PushOutcome]] { outcomes.withLock { $0 } }
    }

    /// Sends from 200 tasks and one bulk call, and calls `midway` with the number of outcomes so far.
    private func send(
        _ client: APNSClient,
        midway: @escaping @Sendable (Int) async -> Void
    ) async -> [String: [PushOutcome]] {
        let book = Book()
        await withTaskGroup(of: Void.self) { group in
            for worker in 0..<200 {
                group.addTask {
                    for number in 0..<Self.pushes / 400 {
                        let token = DeviceToken.sample(worker * 1000 + number)
                        let outcome = await client.deliver(samplePush(), to: token)
                        await midway(book.write(token, outcome))
                    }
                }
            }
            group.addTask {
                let rows = (0..<Self.pushes / 2).map { 1_000_000 + $0 }
                for await delivery in client.deliveries(of: samplePush(), to: rows, token: { DeviceToken.sample($0) }) {
                    await midway(book.write(.sample(delivery.element), delivery.outcome))
                }
            }
        }
        return book.all
    }

    /// Checks that each push has one outcome, and that the server's record agrees with it.
    private func compare(_ outcomes: [String: [PushOutcome]], _ record: ScriptedServer.Record) -> [Certainty: Int] {
        #expect(outcomes.count == Self.pushes)
        var processed: [String: Int] = [:]
        for push in record.pushes { processed[push.token, default: 0] += record.count(push.id) }
        var counts: [Certainty: Int] = [:]
        for (token, all) in outcomes {
            #expect(all.count == 1, "\(token) has \(all.count) outcomes")
            guard let outcome = all.first else { continue }
            counts[outcome.certainty, default: 0] += 1
            switch outcome.certainty {
            case .accepted: #expect(processed[token] == 1, "\(token) \(outcome)")
            case .unknown:
                #expect(processed[token, default: 0] <= 1, "\(token) \(outcome)")
                #expect(outcome.error?.code == .connectionLost, "\(outcome)")
            case .notSent, .notProcessed, .rejected: Issue.record("\(token) \(outcome)")
            }
        }
        return counts
    }

    /// Checks that all workers are ready and that nothing is leased.
    private func expectWhole(_ client: APNSClient, restarts: Int) async {
        await until { await client.status.pool.workers.allSatisfy { $0.state == .ready } }
        let status = await client.status
        #expect(status.restarts == restarts)
        #expect(status.pool.leased == 0 && status.pool.queueDepth == 0)
        #expect(client.runtime.monitor.escalations.load(ordering: .relaxed) == 0)
        #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
    }

    @Test("Each push has one outcome although connections restart three times under load")
    func threeKills() async throws {
        try await withServer(limit: 100, configure: { $0.pool.size = 3 }) { client, server in
            let (requests, request) = AsyncStream<Void>.makeStream()
            let killer = Task {
                for await _ in requests {
                    // One after the other, so that no two hit the same worker.
                    let before = await client.status.restarts
                    #expect(await client.crashWorker())
                    await until { await client.status.restarts > before }
                }
            }
            let outcomes = await send(client) { ended in
                guard [1, 4, 7].contains(where: { ended == $0 * Self.pushes / 10 }) else { return }
                request.yield()
            }
            request.finish()
            await killer.value
            let counts = compare(outcomes, server.record)
            // A crash affects at most the pushes in flight on one connection.
            #expect(counts[.unknown, default: 0] <= 300, "\(counts)")
            await expectWhole(client, restarts: 3)
            print("killed under load: \(counts), \(server.record.connections) connections")
        }
    }
}
