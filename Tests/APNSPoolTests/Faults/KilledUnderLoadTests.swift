import HTTP2Wire
import NIOCore
import SupervisedPool
import Synchronization
import TestSupport
import Testing

@testable import APNSPool

/// Connection actors that crash on a broken invariant while thousands of pushes are in flight.
@Suite(.timeLimit(.minutes(1)), .serialized)
struct KilledUnderLoadTests {
    private static let pushes = TestScale.size(4_000, thorough: 10_000)

    /// A request with more fields than a session accepts.
    private static func poison() -> HTTP2Request {
        HTTP2Request(
            shared: HeaderBlock((0..<70).map { HeaderBlock.Field("x-\($0)", "y") }),
            credential: nil,
            values: Array("/3/device/00".utf8),
            valueLengths: SIMD8<UInt16>(12, 0, 0, 0, 0, 0, 0, 0),
            body: []
        )
    }

    /// Sends one push that crashes its connection actor, on the same path as all pushes.
    private func deliverPoison(_ client: APNSClient) async -> PushOutcome {
        let core = client.runtime
        var history = PushHistory(id: APNSID.random(), deadline: core.sending.deadline(nil))
        while true {
            let end: AttemptEnd
            do {
                let lease = try await core.pool.checkout(deadline: history.deadline, atFront: history.isResend)
                let deadline = core.clock.now.advanced(by: .seconds(10))
                let result = await lease.worker.send(Self.poison(), deadline: deadline)
                end = core.sending.evaluate(result, of: nil, &history)
            } catch {
                end = AttemptEnd(error)
            }
            switch core.sending.decide(end, &history) {
            case .finish(let outcome): return outcome
            // Without this delay, all attempts could end on a connection that is already being closed.
            case .retry(let delay): try? await core.clock.sleep(until: core.clock.now.advanced(by: delay))
            }
        }
    }

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
            let killed = Journal<PushOutcome>()
            let outcomes = await send(client) { ended in
                guard [1, 4, 7].contains(where: { ended == $0 * Self.pushes / 10 }) else { return }
                killed.write(await deliverPoison(client))
            }
            let poisons = killed.entries
            #expect(poisons.count == 3)
            for outcome in poisons {
                #expect(outcome.error?.code == .connectionFault && outcome.certainty == .notSent, "\(outcome)")
            }
            let counts = compare(outcomes, server.record)
            // A crash affects at most the pushes in flight on one connection.
            #expect(counts[.unknown, default: 0] <= 300, "\(counts)")
            await expectWhole(client, restarts: 3)
            print("killed under load: \(counts), \(server.record.connections) connections")
        }
    }

    @Test("A push that crashes its connection affects no other connection")
    func onePoison() async throws {
        try await withServer(limit: 100, configure: { $0.pool.size = 2 }) { client, server in
            let poisoned = Journal<PushOutcome>()
            let outcomes = await send(client) { ended in
                guard ended == 3 * Self.pushes / 10 else { return }
                poisoned.write(await deliverPoison(client))
            }
            let outcome = try #require(poisoned.entries.first)
            #expect(outcome.error?.code == .connectionFault && outcome.certainty == .notSent)
            #expect(outcome.error?.attempts == 0)
            let counts = compare(outcomes, server.record)
            #expect(counts[.unknown, default: 0] <= 100, "\(counts)")
            await expectWhole(client, restarts: 1)
            // Two initial connections, and one that replaces the lost connection.
            #expect(server.record.connections == 3)
            print("one poison: \(counts)")
        }
    }
}
