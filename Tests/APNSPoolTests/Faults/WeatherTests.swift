import APNSModel
import APNSSimulator
import APNSTesting
import Logging
import SupervisedPool
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// Campaigns and single pushes through failures that meet every push.
@Suite(.timeLimit(.minutes(20)), .serialized)
struct WeatherTests {
    struct Weather: Sendable, CustomTestStringConvertible {
        let name: String
        let effect: FaultEffect
        /// Whether a push that met it may have been processed, so that it is not sent again.
        let isUnknown: Bool
        /// Whether a single push that met it ends at once.
        var endsSinglePushes = false

        var testDescription: String { self.name }
    }

    static let weathers: [Weather] = [
        .init(name: "502", effect: .respond(status: 502, reason: nil), isUnknown: true),
        .init(name: "503 without a reason", effect: .respond(status: 503, reason: nil), isUnknown: true),
        .init(name: "reset", effect: .reset(code: 2), isUnknown: true),
        .init(name: "dropped", effect: .dropConnection(), isUnknown: true),
        .init(
            name: "TooManyProviderTokenUpdates",
            effect: .respond(.tooManyProviderTokenUpdates),
            isUnknown: false,
            endsSinglePushes: true
        ),
        .init(name: "ExpiredProviderToken", effect: .respond(.expiredProviderToken), isUnknown: false),
        .init(name: "InternalServerError", effect: .respond(.internalServerError), isUnknown: false),
        .init(name: "ServiceUnavailable", effect: .respond(.serviceUnavailable), isUnknown: false),
        .init(name: "Shutdown", effect: .respond(.shutdown), isUnknown: false),
        .init(name: "refused", effect: .reset(code: 7), isUnknown: false),
    ]

    private static let inFlight = 100
    /// How long the failure lasts.
    private static let span = Duration.milliseconds(TestScale.size(400, thorough: 10_000))

    /// The most pushes that a spell may cost: those in flight when it begins, and one for each trial. The pauses between
    /// the trials double from 10 ms, so a spell of a few seconds has at most twelve; connections add some of their own.
    private static func mostLost(_ spells: Int) -> Int { spells * (Self.inFlight + 30) }

    private func withClient(_ body: (APNSClient, Simulator) async throws -> Void) async throws {
        try await withSimulatedAPNS(
            configure: {
                $0.usePatientLimits()
                $0.logger.logLevel = .critical
            },
            body
        )
    }

    /// Checks what the outcomes say against the simulator's ledger.
    private func check(_ summary: BulkSummary, _ simulator: Simulator, isUnknown: Bool, spells: Int, _ comment: Comment)
    {
        #expect(simulator.record.duplicates.isEmpty, comment)
        #expect(summary.rejected == 0 && summary.notProcessed == 0 && summary.notSent == 0, comment)
        #expect(summary.unknown <= (isUnknown ? Self.mostLost(spells) : 0), comment)
    }

    @Test(
        "A campaign loses at most what was in flight, and nothing to a failure that proves no effect",
        arguments: weathers
    )
    func campaign(_ weather: Weather) async throws {
        try await self.withClient { client, simulator in
            let rows = 2_000
            let push = samplePush()
            let control = BulkControl()
            let run = Task {
                await client.sendAll(
                    push,
                    to: (0..<rows).map { DeviceToken.sample($0) },
                    options: BulkOptions(maxInFlight: Self.inFlight, control: control)
                )
            }
            await until { simulator.record.requestsProcessed >= 500 }
            simulator.inject(
                Fault(weather.effect, when: .during(.zero..<Self.span))
            )
            let summary = await run.value
            #expect(summary.total == rows)
            self.check(summary, simulator, isUnknown: weather.isUnknown, spells: 1, "\(weather.name): \(summary)")
            #expect(await client.health == .serving)
        }
    }

    @Test("A push that is admitted when it has its stream returns its admission if it is not written")
    func lateAdmission() async throws {
        try await self.withClient { client, _ in
            let (router, session) = (client.runtime.sending.router, client.runtime.credentials.latest)
            let (now, weather) = (client.runtime.clock.now, session.settings.weather)
            let unsigned = try router.route(by: session, to: .pushes, version: router.currentVersion, now: now)
            let route = try await router.sign(unsigned, until: .distantFuture)
            weather.observe(.init(weather: 1, cause: .init(description: "503")), now: now)
            for _ in 0..<2 {
                // Only one push is tried.
                let late = try route.admittedLate(now: now)
                #expect(late.isAdmitted && !route.isAdmitted)
                #expect(throws: AttemptEnd.self) { try route.admittedLate(now: now) }
                // The route without an admission has none to return.
                route.returnAdmission()
                #expect(throws: AttemptEnd.self) { try route.admittedLate(now: now) }
                late.returnAdmission()
            }
        }
    }

    @Test("A push that waits for the end of the failure makes no further attempt, and none is counted")
    func waitsAreNoResends() async throws {
        try await self.withClient { client, _ in
            let (sending, now) = (client.runtime.sending, client.runtime.clock.now)
            var history = PushHistory(id: APNSID.random(), deadline: now.advanced(by: .seconds(60)))
            let held = AttemptEnd.held(.init(description: "503"), since: now, until: now.advanced(by: .seconds(1)))
            for (end, resends) in [(held, 0), (.notProcessed(.refused, "refused"), 1)] {
                guard case .retry = sending.decide(end, &history) else {
                    Issue.record("\(end) ends the push")
                    return
                }
                #expect(await client.status.resends == resends)
            }
        }
    }

    @Test("A route whose token must be signed in bad weather is not admitted yet")
    func unsignedRoute() async throws {
        let signer = HangingSigner()
        try await withSimulatedAPNS(configure: {
            $0.usePatientLimits()
            $0.authentication = signer.authentication
        }) { client, _ in
            let (router, session) = (client.runtime.sending.router, client.runtime.credentials.latest)
            let (now, weather) = (client.runtime.clock.now, session.settings.weather)
            weather.observe(.init(weather: 1, cause: .init(description: "503")), now: now)
            let unsigned = try router.route(by: session, to: .pushes, version: router.currentVersion, now: now)
            #expect(unsigned.isUnsigned && !unsigned.isAdmitted)
            signer.release()
            #expect(try await router.sign(unsigned, until: .distantFuture).isAdmitted)
        }
    }

    @Test(
        "Single pushes of many tasks wait for the end of the failure",
        arguments: weathers.filter { !$0.endsSinglePushes }
    )
    func singlePushes(_ weather: Weather) async throws {
        try await self.withClient { client, simulator in
            let began = Journal<Bool>()
            let summary = await withTaskGroup(of: BulkSummary.self) { group in
                for task in 0..<Self.inFlight {
                    group.addTask {
                        var summary = BulkSummary()
                        for number in 0..<20 {
                            if task == 0, number == 3 {
                                simulator.inject(Fault(weather.effect, when: .during(.zero..<Self.span)))
                                began.write(true)
                            }
                            let token = DeviceToken.sample(task * 100 + number)
                            summary.count(await client.deliver(samplePush(), to: token).certainty)
                        }
                        return summary
                    }
                }
                return await group.reduce(into: BulkSummary()) { total, part in
                    total.accepted += part.accepted
                    total.rejected += part.rejected
                    total.notProcessed += part.notProcessed
                    total.notSent += part.notSent
                    total.unknown += part.unknown
                }
            }
            #expect(began.entries == [true])
            #expect(summary.total == Self.inFlight * 20)
            // Results of a tick that has verdicts, too, begin no spell. On a busy machine, a tick may have the results of
            // all tasks, and each then sends its next push.
            self.check(summary, simulator, isUnknown: weather.isUnknown, spells: 2, "\(weather.name): \(summary)")
        }
    }

    @Test("Random weathers, one after another, cost at most what was in flight at the beginning of each")
    func randomWeathers() async throws {
        for seed in TestScale.seeds(fixed: TestScale.size(2, thorough: 200)) {
            var random = SeededRandom(seed: seed)
            try await self.withClient { client, simulator in
                let rows = 3_000
                let run = Task {
                    await client.sendAll(
                        samplePush(),
                        to: (0..<rows).map { DeviceToken.sample($0) },
                        options: BulkOptions(maxInFlight: Self.inFlight)
                    )
                }
                var spells = 0
                var isUnknown = false
                for threshold in [300, 1_000, 2_000] {
                    await until { simulator.record.requestsProcessed >= threshold }
                    guard let weather = Self.weathers.randomElement(using: &random) else { continue }
                    let time = Duration.milliseconds(Int64.random(in: 1...600, using: &random))
                    simulator.inject(Fault(weather.effect, when: .during(.zero..<time)))
                    spells += 1
                    isUnknown = isUnknown || weather.isUnknown
                }
                let summary = await run.value
                #expect(summary.total == rows)
                self.check(summary, simulator, isUnknown: isUnknown, spells: spells, "seed \(seed): \(summary)")
            }
        }
    }

    @Test("Within five seconds, health says that nothing is delivered and why; the log has one line at each end")
    func health() async throws {
        let (logger, lines) = RecordingLog.make()
        try await withSimulatedAPNS(
            configure: {
                $0.usePatientLimits()
                $0.logger = logger
            }
        ) { client, simulator in
            simulator.inject(Fault(.respond(status: 502, reason: nil), when: .always))
            let run = Task {
                await client.sendAll(
                    samplePush(),
                    to: (0..<200).map { DeviceToken.sample($0) },
                    options: BulkOptions(maxInFlight: 50)
                )
            }
            await until { await client.health.cause?.code == .outage }
            let health = await client.health
            #expect(
                health.name == "failing" && health.cause?.message.contains("502 without a reason") == true,
                "\(health)"
            )
            #expect(!health.isReady)
            simulator.removeFaults()
            #expect(await run.value.accepted >= 100)
            await until { await client.health == .serving }
        }
        let texts = lines.entries.map(\.message)
        #expect(texts.count { $0.hasPrefix("pushes are not delivered") } == 1, "\(texts)")
        #expect(texts.count { $0 == "pushes are delivered again" } == 1, "\(texts)")
    }

    @Test("A second process with the same key and no shared token holds its campaign, and names the reason")
    func secondProcess() async throws {
        var simulation = Simulator.Configuration()
        simulation.limitsProviderTokenUpdates = true
        let simulator = try await Simulator.start(simulation)
        let key = SimulatedKey()
        simulator.addKey(key)
        var configuration = APNSClientConfiguration.local(
            port: simulator.port,
            caPEM: simulator.certificateAuthorityPEM
        )
        configuration.authentication = .token(privateKeyPEM: key.p8, keyID: key.keyID, teamID: key.teamID)
        try await withAPNSClient(configuration: configuration) { first in
            #expect(await first.deliver(samplePush(), to: deviceToken).certainty == .accepted)
        }
        try await withAPNSClient(configuration: configuration) { second in
            let control = BulkControl()
            let run = Task {
                await second.sendAll(
                    samplePush(),
                    to: (0..<5_000).map { DeviceToken.sample($0) },
                    options: BulkOptions(maxInFlight: Self.inFlight, control: control)
                )
            }
            await until { control.progress.hold?.message.contains("429 TooManyProviderTokenUpdates") == true }
            #expect(control.progress.hold?.code == .credential)
            // As soon as the first response has been evaluated, the next trial knows when a new token is possible.
            await until { control.progress.hold?.retryAfter ?? .zero > .seconds(19 * 60) }
            await until { await second.health.cause?.code == .credential }
            control.stop()
            let summary = await run.value
            #expect(summary.accepted == 0 && summary.unknown == 0)
            #expect(summary.rejected <= Self.mostLost(1), "\(summary)")
            #expect(control.progress.pulled <= Self.mostLost(1) + 64, "\(summary)")
        }
        await simulator.stop()
    }
}
