import APNSSimulator
import APNSTesting
import Foundation
import Logging
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// Each push has one outcome that agrees with the simulator's record, whatever the network, APNs and the callers do.
///
/// `ci/steps/chaos` runs 200,000 pushes, `CHAOS_PUSHES=10000000 ci/steps/chaos` ten million, and `SEED=n ci/steps/chaos`
/// repeats one run. The seed determines the server's faults and the callers' actions. The scheduler determines how they
/// interleave.
@Suite(.timeLimit(.minutes(TestScale.environment("CHAOS_PUSHES") == nil ? 20 : 240)), .serialized)
struct ChaosTests {
    private static let wanted = TestScale.environment("CHAOS_PUSHES").map { Int(clamping: $0) }
    private static let pushes = wanted ?? TestScale.times(5_000)
    /// The number of pushes in the lifetime of one client.
    private static let pushesPerRound = wanted == nil ? TestScale.size(2_500, thorough: 5_000) : 5_000

    /// The totals of all rounds.
    private struct Sum {
        var pushes = 0
        var certainties: [Certainty: Int] = [:]
        var codes: [String: Int] = [:]
        var responses: [Int: Int] = [:]
        var connections = 0
        var dropped = 0
        var goAways = 0
        var refused = 0
        var faults = 0
    }

    private func script(_ random: inout SeededRandom) -> FaultScript {
        /// A fault with a random probability up to `most`, so that some rounds are calm and some are not.
        func maybe(_ effect: FaultEffect, _ most: Double) -> Fault {
            Fault(effect, when: .probability(Double.random(in: 0...most, using: &random)))
        }
        return FaultScript([
            maybe(.delay(.exponential(mean: .milliseconds(2))), 0.1),
            maybe(.settings(maxConcurrentStreams: 1), 0.0005),
            maybe(.settings(maxConcurrentStreams: 200), 0.003),
            maybe(.respond(.serviceUnavailable), 0.03),
            Fault(.respond(.serviceUnavailable), when: .nth(Int.random(in: 1...2000, using: &random), times: 50)),
            maybe(.respond(.internalServerError), 0.02),
            Fault(.respond(.internalServerError), when: .nth(Int.random(in: 1...2000, using: &random), times: 20)),
            maybe(.respond(.unregistered, timestamp: 1_700_000_000_000), 0.02),
            maybe(.respond(.badDeviceToken), 0.02),
            maybe(.respond(.tooManyRequests), 0.01),
            maybe(.malformedBody(), 0.005),
            maybe(.oversizedBody(bytes: 100_000), 0.001),
            maybe(.earlyResponse(.payloadTooLarge), 0.005),
            maybe(.refuse, 0.02),
            maybe(.reset(code: 2, isProcessed: true), 0.005),
            maybe(.reset(code: 2, isProcessed: false), 0.005),
            maybe(.stall(isProcessed: true), 0.003),
            maybe(.stall(isProcessed: false), 0.003),
            maybe(.goAway(.beforeThisRequest, reason: nil), 0.001),
            maybe(.goAway(.afterThisRequest, reason: "Shutdown"), 0.001),
            maybe(.dropConnection(isProcessed: true), 0.0005),
            maybe(.dropConnection(.closeNotify), 0.0005),
            maybe(.silence, 0.0001),
        ])
    }

    @Test func eachPushHasOneOutcomeThatTheRecordConfirms() async throws {
        let seed = TestScale.environment("SEED") ?? UInt64.random(in: .min ... .max)
        var random = SeededRandom(seed: seed)
        var sum = Sum()
        let rounds = max(2, (Self.pushes + Self.pushesPerRound - 1) / Self.pushesPerRound)
        var descriptors = 0
        var memory = 0
        for round in 0..<rounds {
            try await play(round, seed, &random, &sum)
            if round == 0 {
                // From now on, descriptors that a process opens once are open.
                descriptors = try Self.descriptors()
            }
            if round == min(3, rounds - 1) { memory = try Self.residentBytes() }
        }
        let end = try Self.residentBytes()
        try await until { try Self.descriptors() <= descriptors }
        // In a run of 200,000 pushes, a leak of one kilobyte per push would be three times the limit. In a long one, a
        // leak of ten bytes per push would exceed it.
        let growth = end - memory
        #expect(growth < 64 << 20, "\(growth) bytes more, seed \(seed)")
        print(
            """
            chaos: seed \(seed), \(sum.pushes) pushes in \(rounds) lives of a client, \(sum.certainties), \
            codes \(sum.codes), responses \(sum.responses), \(sum.faults) faults (\(sum.refused) refused, \(sum.goAways) \
            GOAWAY, \(sum.dropped) dropped), \(sum.connections) connections, resident memory \(growth / 1024) KiB more
            """
        )
    }

    private func play(_ round: Int, _ seed: UInt64, _ random: inout SeededRandom, _ sum: inout Sum) async throws {
        let base = round * Self.pushesPerRound * 2
        let comment = "seed \(seed), round \(round)"
        let book = OutcomeBook()
        var simulation = Simulator.Configuration()
        simulation.seed = random.next()
        simulation.faults = script(&random)
        let stopsMidway = round % 4 == 3
        let whims = SeededRandom(seed: random.next())
        let time = Duration.milliseconds(Int.random(in: 0...500, using: &random))
        let midway = Int.random(in: 1...Self.pushesPerRound / 2, using: &random)
        let ledger = try await withSimulatedAPNS(
            simulation: simulation,
            configure: { configuration in
                configuration.pool = .init(size: 3, maxOverflow: 2, connectSpacing: .milliseconds(5))
                configuration.timeouts.response = .milliseconds(500)
                configuration.timeouts.deadline = .seconds(30)
                configuration.logger = .init(label: "chaos") { _ in SwiftLogNoOpLogHandler() }
            },
            { client, simulator in
                await withTaskGroup(of: Void.self) { group in
                    for worker in 0..<50 {
                        group.addTask { await self.sendSingles(client, worker, base, whims, book) }
                    }
                    for call in 0..<2 {
                        group.addTask { await self.sendBulk(client, call, base, book) }
                    }
                    if stopsMidway {
                        group.addTask {
                            await book.wait(for: midway)
                            await client.shutdown(within: time)
                        }
                    }
                }
                let status = await client.status
                #expect(status.pool.leased == 0 && status.pool.queueDepth == 0, "\(comment): \(status.pool)")
                #expect(status.restarts == 0, "\(comment)")
                #expect(client.runtime.lifecycle.pushesInFlight == 0, "\(comment)")
                await client.shutdown()
                try await simulator.waitUntil(timeout: Patience.limit) { $0.connectionsOpened == $0.connectionsClosed }
                return simulator.record
            }
        )
        book.compare(with: ledger, comment)
        let outcomes = book.outcomes
        count(outcomes, ledger, &sum)
        if !stopsMidway { #expect(outcomes.count == Self.pushesPerRound, "\(comment)") }
    }

    private func sendSingles(
        _ client: APNSClient,
        _ worker: Int,
        _ base: Int,
        _ whims: SeededRandom,
        _ book: OutcomeBook
    ) async {
        var random = SeededRandom(seed: whims.seed &+ UInt64(worker))
        for number in 0..<Self.pushesPerRound / 100 {
            let id = APNSID.sample(base + worker * 1000 + number)
            let token = DeviceToken.sample(base + worker * 1000 + number)
            let isShort = Int.random(in: 0..<20, using: &random) == 0
            let deadline = isShort ? Duration.milliseconds(Int64.random(in: 0...20, using: &random)) : nil
            let push = Task {
                await client.deliver(samplePush(), to: token, options: .init(deadline: deadline, apnsID: id))
            }
            if Int.random(in: 0..<20, using: &random) == 0 {
                let pause = Int64.random(in: 0...3_000_000, using: &random)
                try? await ContinuousClock().sleep(for: .nanoseconds(pause))
                push.cancel()
            }
            book.write(id, await push.value)
        }
    }

    private func sendBulk(_ client: APNSClient, _ call: Int, _ base: Int, _ book: OutcomeBook) async {
        let rows = (0..<Self.pushesPerRound / 4).map { base + 1_000_000_000 + call * 1_000_000 + $0 }
        let options = BulkOptions(maxInFlight: 300)
        let deliveries = client.deliveries(
            of: samplePush(),
            to: rows,
            token: { DeviceToken.sample($0) },
            options: options,
            apnsID: { APNSID.sample($0) }
        )
        for await delivery in deliveries {
            book.write(.sample(delivery.element), delivery.outcome)
        }
    }

    private func count(_ outcomes: [APNSID: [PushOutcome]], _ ledger: Ledger, _ sum: inout Sum) {
        for outcome in outcomes.values.joined() {
            sum.certainties[outcome.certainty, default: 0] += 1
            if let error = outcome.error { sum.codes[error.code.rawValue, default: 0] += 1 }
        }
        sum.pushes += outcomes.count
        sum.responses.merge(ledger.responses, uniquingKeysWith: +)
        sum.connections += ledger.connectionsOpened
        sum.dropped += ledger.connectionsDropped
        sum.goAways += ledger.goAwaysSent
        sum.refused += ledger.streamsRefused
        sum.faults += ledger.faultsApplied
    }

    private static func descriptors() throws -> Int {
        try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count
    }

    private static func residentBytes() throws -> Int {
        let fields = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8).split(separator: " ")
        return fields.count > 1 ? (Int(fields[1]) ?? 0) * 4096 : 0
    }
}
