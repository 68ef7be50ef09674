import APNSSimulator
import Foundation
import Logging
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// Disturbs a client during its lifetime: settings change, credentials are replaced and revoked, pushes are cancelled,
/// the server disappears, and shutdown comes at any moment. Each push has one outcome that agrees with the simulator's
/// record, and the shutdown ends in time.
///
/// `ci/steps/chaos` runs 300 storms. `SEED=n` repeats one. The scheduler determines how the events interleave.
@Suite(.timeLimit(.minutes(20)), .serialized)
struct LifecycleStormTests {
    private static let seeds: [UInt64] = {
        if let seed = TestScale.environment("SEED") { return [seed] }
        var random = SeededRandom()
        return (0..<(TestScale.environment("STORMS").map { Int(clamping: $0) } ?? TestScale.times(3))).map { _ in
            random.next()
        }
    }()

    /// The totals of all storms.
    private struct Sum {
        var pushes = 0
        var certainties: [Certainty: Int] = [:]
        var codes: [String: Int] = [:]
        var longestEnd = Duration.zero
    }

    @Test("Each push has one correct outcome and the client shuts down in time, whatever disturbs the client")
    func storms() async throws {
        var sum = Sum()
        for seed in Self.seeds { try await storm(seed, &sum) }
        print(
            """
            storms: \(Self.seeds.count), first seed \(Self.seeds.first ?? 0), \(sum.pushes) pushes, \(sum.certainties), \
            codes \(sum.codes), longest end \(sum.longestEnd)
            """
        )
    }

    private func storm(_ seed: UInt64, _ sum: inout Sum) async throws {
        let comment = "SEED=\(seed)"
        var random = SeededRandom(seed: seed)
        let keys = (0..<3).map { _ in SimulatedKey() }
        var simulation = Simulator.Configuration()
        simulation.seed = random.next()
        // The third key is unknown to the server.
        simulation.credential = .keys(keys.prefix(2).map { .init($0) })
        simulation.faults = Self.faults(&random)
        let simulator = try await Simulator.start(simulation)
        // The device token of probes, as APNs treats it: a probe is processed for no device.
        simulator.setToken(String(repeating: "0", count: 64), .bad)
        let client = try APNSClient(configuration: Self.configuration(simulator, keys[0], &random))
        let book = OutcomeBook()

        // Pushes may come before the client runs.
        let isEarly = Bool.random(using: &random)
        let clock = ContinuousClock()
        let shutdownTime = Duration.milliseconds([0, 0, 20, 300].randomElement(using: &random) ?? 0)
        let life = Duration.milliseconds([0, 1, 20, 200, 600].randomElement(using: &random) ?? 0)
        // The shutdown may come while the supervision tree is still starting.
        let isRaced = Int.random(in: 0..<4, using: &random) == 0
        let events = SeededRandom(seed: random.next())
        let whims = SeededRandom(seed: random.next())
        let took = await withTaskGroup(of: Void.self, returning: Duration.self) { group in
            if isEarly { self.addTraffic(to: &group, client, whims, book) }
            if isRaced {
                group.addTask { try? await client.run() }
            } else {
                try? await client.start()
            }
            if !isEarly { self.addTraffic(to: &group, client, whims, book) }
            group.addTask { await self.disturb(client, simulator, keys, events) }
            if life > .zero, !isRaced { try? await clock.sleep(for: life) }
            let began = clock.now
            await client.shutdown(within: shutdownTime)
            let took = began.duration(to: clock.now)
            await group.waitForAll()
            return took
        }
        sum.longestEnd = max(sum.longestEnd, took)
        #expect(client.runtime.lifecycle.pushesInFlight == 0, "\(comment)")
        let status = await client.status
        #expect(status.pool.leased == 0 && status.pool.queueDepth == 0, "\(comment): \(status.pool)")
        #expect(status.restarts == 0, "\(comment)")
        try await simulator.waitUntil(timeout: Patience.limit) { $0.connectionsOpened == $0.connectionsClosed }
        book.compare(with: simulator.record, comment)
        await simulator.stop()
        let outcomes = book.outcomes
        sum.pushes += outcomes.count
        for outcome in outcomes.values.joined() {
            sum.certainties[outcome.certainty, default: 0] += 1
            if let error = outcome.error { sum.codes[error.code.rawValue, default: 0] += 1 }
        }
    }

    private static func faults(_ random: inout SeededRandom) -> FaultScript {
        func maybe(_ effect: FaultEffect, _ most: Double) -> Fault {
            Fault(effect, when: .probability(Double.random(in: 0...most, using: &random)))
        }
        return FaultScript([
            maybe(.delay(.exponential(mean: .milliseconds(5))), 0.5),
            maybe(.respond(.serviceUnavailable), 0.05),
            maybe(.refuse, 0.05),
            maybe(.reset(code: 2, isProcessed: true), 0.01),
            maybe(.stall(isProcessed: true), 0.01),
            maybe(.goAway(.beforeThisRequest, reason: nil), 0.01),
            maybe(.goAway(.afterThisRequest, reason: "Shutdown"), 0.01),
            maybe(.dropConnection(isProcessed: true), 0.01),
            maybe(.silence, 0.002),
        ])
    }

    private static func configuration(
        _ simulator: Simulator,
        _ key: SimulatedKey,
        _ random: inout SeededRandom
    ) -> APNSClientConfiguration {
        var configuration = APNSClientConfiguration.local(
            port: simulator.port,
            caPEM: simulator.certificateAuthorityPEM
        )
        configuration.authentication = Self.authentication(key)
        configuration.pool = .init(
            size: Int.random(in: 0...3, using: &random),
            maxOverflow: Int.random(in: 1...2, using: &random),
            connectSpacing: .milliseconds(Int.random(in: 0...5, using: &random))
        )
        configuration.pool.maxQueued = [5, 10_000].randomElement(using: &random) ?? 5
        configuration.timeouts.response = .milliseconds(300)
        configuration.timeouts.deadline = .seconds(2)
        return configuration
    }

    private static func authentication(_ key: SimulatedKey) -> APNSAuthentication {
        .token(privateKeyPEM: key.p8, keyID: key.keyID, teamID: key.teamID)
    }

    // MARK: Traffic

    private func addTraffic(
        to group: inout TaskGroup<Void>,
        _ client: APNSClient,
        _ whims: SeededRandom,
        _ book: OutcomeBook
    ) {
        for worker in 0..<12 {
            group.addTask { await self.sendSingles(client, worker, whims, book) }
        }
        for call in 0..<2 {
            group.addTask { await self.sendBulk(client, call, whims, book) }
        }
    }

    private func sendSingles(_ client: APNSClient, _ worker: Int, _ whims: SeededRandom, _ book: OutcomeBook) async {
        var random = SeededRandom(seed: whims.seed &+ UInt64(worker))
        for number in 0..<25 {
            let id = APNSID.sample(worker * 1000 + number)
            var options = DeliveryOptions(apnsID: id)
            if Int.random(in: 0..<6, using: &random) == 0 { options.lane = .bulk }
            if Int.random(in: 0..<10, using: &random) == 0 {
                options.deadline = .milliseconds(Int64.random(in: 0...50, using: &random))
            }
            // Two workers each send to the same device.
            let token = DeviceToken.sample(worker / 2)
            let push = Task { [options] in await client.deliver(samplePush(), to: token, options: options) }
            if Int.random(in: 0..<10, using: &random) == 0 {
                try? await ContinuousClock().sleep(
                    for: .nanoseconds(Int64.random(in: 0...3_000_000, using: &random))
                )
                push.cancel()
            }
            book.write(id, await push.value)
        }
    }

    private func sendBulk(_ client: APNSClient, _ call: Int, _ whims: SeededRandom, _ book: OutcomeBook) async {
        var random = SeededRandom(seed: whims.seed &+ 1000 &+ UInt64(call))
        let control = BulkControl(rate: Bool.random(using: &random) ? .perSecond(500) : nil)
        let isPaused = Int.random(in: 0..<4, using: &random) == 0
        let isSilent = Bool.random(using: &random)
        let isCancelled = Int.random(in: 0..<4, using: &random) == 0
        let options = BulkOptions(maxInFlight: Int.random(in: 1...100, using: &random), control: control)
        let base = (call + 1) * 1_000_000
        let run = Task {
            let (rows, row) = AsyncStream<Int>.makeStream()
            for number in 0..<300 { row.yield(base + number) }
            if !isSilent { row.finish() }
            let deliveries = client.deliveries(
                of: samplePush(),
                to: rows,
                token: { DeviceToken.sample($0) },
                options: options,
                apnsID: { APNSID.sample($0) }
            )
            var count = 0
            for await delivery in deliveries {
                count += 1
                book.write(.sample(delivery.element), delivery.outcome)
                if delivery.element % 100 == 99, isPaused { control.pause() }
            }
            #expect(control.progress.pulled == count && control.progress.unfinished == 0)
        }
        if isCancelled {
            try? await ContinuousClock().sleep(for: .milliseconds(Int64.random(in: 0...50, using: &random)))
            run.cancel()
        }
        await run.value
    }

    // MARK: Disturbances

    private func disturb(
        _ client: APNSClient,
        _ simulator: Simulator,
        _ keys: [SimulatedKey],
        _ seed: SeededRandom
    ) async {
        var random = SeededRandom(seed: seed.seed)
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<Int.random(in: 1...12, using: &random) {
                let pause = Int64.random(in: 0...20_000, using: &random)
                if pause > 2000 { try? await ContinuousClock().sleep(for: .microseconds(pause)) }
                switch Int.random(in: 0..<9, using: &random) {
                case 0..<3:
                    // Up to three updates in quick succession.
                    for _ in 0..<Int.random(in: 1...3, using: &random) {
                        let (size, overflow) = (
                            Int.random(in: 0...4, using: &random), Int.random(in: 1...3, using: &random)
                        )
                        try? client.update { settings in
                            settings.pool.size = size
                            settings.pool.maxOverflow = overflow
                        }
                    }
                case 3..<6:
                    let key = keys[Int.random(in: 0..<keys.count, using: &random)]
                    group.addTask {
                        try? await client.replaceAuthentication(Self.authentication(key), within: .seconds(1))
                    }
                case 6:
                    group.addTask {
                        await client.revokeAuthentication()
                        try? await client.replaceAuthentication(Self.authentication(keys[1]), within: .seconds(1))
                    }
                case 7: _ = await simulator.dropConnections()
                default:
                    await simulator.stopListening()
                    _ = await simulator.dropConnections()
                    await simulator.startListening()
                }
            }
        }
    }
}
