import APNSModel
import APNSPool
import APNSSimulator
import Crypto
import Foundation
import Logging
import PushQueue
import PushQueueConformance
import RelayTestSupport
import Testing

@testable import APNSRelay

/// Kills the relay with SIGKILL, starts it again with the same file, and compares its outcomes with the simulator's
/// record.
@Suite(.serialized)
struct KillTests {
    private static let maxInFlight = 200

    private func simulator(delay: Duration = .milliseconds(2)) async throws -> Simulator {
        var configuration = Simulator.Configuration()
        configuration.credential = .none
        configuration.environment = .production
        configuration.responseDelay = delay
        return try await Simulator.start(configuration)
    }

    private func relay(_ simulator: Simulator, _ settings: [String: String] = [:]) throws -> RelayUnderTest {
        try RelayUnderTest(
            port: simulator.port,
            certificateAuthority: simulator.certificateAuthorityPEM,
            settings: ["DISPATCH_MAX_IN_FLIGHT": "\(Self.maxInFlight)", "DISPATCH_BATCH": "50"].merging(settings) { $1 }
        )
    }

    /// Waits until every push of the relay has an outcome, and compares.
    ///
    /// - Parameter mayRepeat: whether the owner asked for unknown pushes to be sent again.
    private func report(
        _ load: PushLoad,
        _ relay: RelayUnderTest,
        _ simulator: Simulator,
        mayRepeat: Bool = false
    ) async throws -> KillReport {
        try await relay.wait(for: "all pushes have an outcome") { $0.unsettled == 0 }
        let report = KillReport(load, try await relay.feed(), simulator)
        #expect(report.faults == [])
        if !mayRepeat { #expect(report.duplicates == 0) }
        return report
    }

    @Test(
        "Whichever step a kill interrupts, every acknowledged push has one outcome and none is processed twice",
        .timeLimit(.minutes(5)),
        arguments: [
            "enqueue.before:3", "enqueue.after:3", "claim.before:2", "claim.after:2", "markWritten.before:2",
            "markWritten.after:2", "settle.before:2", "settle.after:2",
        ]
    )
    func atEachPoint(point: String) async throws {
        let simulator = try await self.simulator()
        let relay = try self.relay(simulator)
        let load = PushLoad()
        try await relay.start(killPoint: point)
        var next = 0
        while try await load.post(next..<(next + 100), to: relay) == .acknowledged { next += 100 }
        await relay.waitForEnd()
        try await relay.start()
        // The application cannot know whether its last request was stored, and repeats it.
        try #require(try await load.post(next..<(next + 100), to: relay) == .acknowledged)
        let report = try await self.report(load, relay, simulator)
        print("\(point): \(report)")
        let unknown = report.unknown
        #expect(unknown <= Self.maxInFlight)
        // What was not marked is sent.
        if !point.hasPrefix("markWritten.after"), !point.hasPrefix("settle") { #expect(unknown < report.pushes) }
        await relay.kill()
        await simulator.stop()
    }

    @Test(
        "A push that returns to the queue survives a kill at that moment",
        .timeLimit(.minutes(5)),
        arguments: ["release.before:1", "release.after:1"]
    )
    func whileReturning(point: String) async throws {
        let simulator = try await self.simulator()
        simulator.inject(.refuse(count: 100_000))
        let relay = try self.relay(simulator, ["DISPATCH_ATTEMPT_DEADLINE": "1s"])
        let load = PushLoad()
        try await relay.start(killPoint: point)
        try #require(try await load.post(0..<100, to: relay) == .acknowledged)
        await relay.waitForEnd()
        simulator.removeFaults()
        try await relay.start()
        let report = try await self.report(load, relay, simulator)
        print("\(point): \(report)")
        await relay.kill()
        await simulator.stop()
    }

    @Test("Kills at random moments under load lose nothing and repeat nothing", .timeLimit(.minutes(10)))
    func atRandomMoments() async throws {
        let kills = ProcessInfo.processInfo.environment["RELAY_KILLS"].flatMap(Int.init) ?? 50
        let seed = ProcessInfo.processInfo.environment["SEED"].flatMap(UInt64.init) ?? .random(in: 1...(1 << 32))
        var random = SeededRandom(seed: seed)
        print("SEED=\(seed)")
        let simulator = try await self.simulator()
        let relay = try self.relay(simulator)
        let load = PushLoad()
        var next = 0
        for _ in 0..<kills {
            try await relay.start()
            let moment = Duration.milliseconds(Int.random(in: 20...600, using: &random))
            let killer = Task {
                try await Task.sleep(for: moment)
                await relay.kill()
            }
            while try await load.post(next..<(next + 100), to: relay) == .acknowledged { next += 100 }
            try await killer.value
        }
        try await relay.start()
        try #require(try await load.post(next..<(next + 100), to: relay) == .acknowledged)
        let report = try await self.report(load, relay, simulator)
        print("\(report)")
        #expect(report.unknown <= kills * Self.maxInFlight)
        #expect((report.outcomes["accepted"] ?? 0) > report.pushes / 2)
        await relay.kill()
        await simulator.stop()
    }

    @Test("Pushes whose owner wants them sent again are accepted in the end", .timeLimit(.minutes(5)))
    func resendsUnknown() async throws {
        let simulator = try await self.simulator(delay: .milliseconds(200))
        let relay = try self.relay(simulator)
        let load = PushLoad(resendsUnknown: true)
        try await relay.start(killPoint: "settle.before:1")
        try #require(try await load.post(0..<500, to: relay) == .acknowledged)
        await relay.waitForEnd()
        try await relay.start()
        let report = try await self.report(load, relay, simulator, mayRepeat: true)
        print("\(report)")
        #expect(report.outcomes == ["accepted": 500])
        #expect(report.duplicates > 0 && report.duplicates <= Self.maxInFlight)
        await relay.kill()
        await simulator.stop()
    }

    @Test("SIGTERM under load ends in time, and leaves no unknown push", .timeLimit(.minutes(5)))
    func graceful() async throws {
        let simulator = try await self.simulator()
        let relay = try self.relay(simulator)
        let load = PushLoad()
        try await relay.start()
        for start in stride(from: 0, to: 3_000, by: 500) {
            try #require(try await load.post(start..<(start + 500), to: relay) == .acknowledged)
        }
        await relay.terminate()
        try await relay.start()
        let report = try await self.report(load, relay, simulator)
        print("\(report)")
        #expect(report.outcomes == ["accepted": 3_000])
        await relay.kill()
        await simulator.stop()
    }

    @Test("A relay whose port is in use says so", .timeLimit(.minutes(5)))
    func portInUse() async throws {
        let simulator = try await self.simulator()
        let relay = try self.relay(simulator)
        try await relay.start()
        let port = try #require(relay.port)
        for (variable, setting) in [("HTTP_PORT", "http.port"), ("HTTP_PROBE_PORT", "http.probePort")] {
            let other = try self.relay(simulator, [variable: "\(port)"])
            // The API may listen for a moment before the probes cannot.
            try? await other.start()
            await other.waitForEnd()
            let message = "\(setting): 127.0.0.1:\(port) is in use by another program"
            #expect(other.output.contains(message), "\(other.output)")
        }
        await relay.kill()
        await simulator.stop()
    }

    @Test("Doctor and a relay that was restarted use the relay's provider token", .timeLimit(.minutes(5)))
    func providerToken() async throws {
        var configuration = Simulator.Configuration()
        configuration.environment = .production
        configuration.limitsProviderTokenUpdates = true
        let simulator = try await Simulator.start(configuration)
        let key = P256.Signing.PrivateKey().pemRepresentation
        let credential = [
            "APP_FERN_PRIVATE_KEY": key, "APP_FERN_KEY_ID": "ABC123DEFG", "APP_FERN_TEAM_ID": "ABCDE12345",
        ]
        let relay = try self.relay(simulator, credential)
        let settings = try RelaySettings([
            .values([
                "apps": "fern", "app.fern.topic": "com.grasscove.Fern", "app.fern.environments": "production",
                "app.fern.privateKey": key, "app.fern.keyID": "ABC123DEFG", "app.fern.teamID": "ABCDE12345",
                "server.production": "localhost:\(simulator.port)", "storage.file": relay.file,
                "client.caFile": relay.folder.appendingPathComponent("ca.pem").path,
            ])
        ])
        func check() async {
            let app = await RelayDoctor(settings).findings().first { $0.subject.hasPrefix("app") }
            #expect(app?.isOK == true, "\(app?.description ?? "none")")
        }
        // Each token of its own would be refused with 429, and the relay would wait 20 minutes.
        let load = PushLoad()
        await check()
        for number in 0..<3 {
            try await relay.start()
            try #require(try await load.post(number..<(number + 1), to: relay) == .acknowledged)
            try await relay.wait(for: "the push has an outcome") { $0.unsettled == 0 }
            await check()
            await relay.terminate()
        }
        try await relay.start()
        let report = try await self.report(load, relay, simulator)
        #expect(report.outcomes == ["accepted": 3])
        await relay.kill()
        await simulator.stop()
    }

    @Test("Pushes that wait while APNs cannot be reached are neither marked nor lost", .timeLimit(.minutes(5)))
    func outage() async throws {
        let simulator = try await self.simulator()
        await simulator.stopListening()
        let relay = try self.relay(simulator, ["DISPATCH_ATTEMPT_DEADLINE": "2s"])
        let load = PushLoad()
        try await relay.start()
        try #require(try await load.post(0..<1_000, to: relay) == .acknowledged)
        // While the route is paused, nothing waits behind a mark.
        try await relay.wait(for: "the state before the kill") { $0.written == 0 && $0.queued == 1_000 && $0.isPaused }
        await relay.kill()
        // Only the attempts of the outage must end soon.
        try await relay.start(settings: ["DISPATCH_ATTEMPT_DEADLINE": "10m"])
        await simulator.startListening()
        let report = try await self.report(load, relay, simulator)
        print("\(report)")
        #expect(report.outcomes == ["accepted": 1_000])
        await relay.kill()
        await simulator.stop()
    }

    @Test("A shutdown while APNs does not respond is in order, and stores every outcome", .timeLimit(.minutes(5)))
    func slowShutdown() async throws {
        let simulator = try await self.simulator()
        simulator.inject(Fault(.stall(), when: .next(100_000)))
        let relay = try self.relay(simulator, ["DISPATCH_SHUTDOWN_TIMEOUT": "6s"])
        let load = PushLoad()
        try await relay.start()
        try #require(try await load.post(0..<500, to: relay) == .acknowledged)
        try await relay.wait(for: "the state before the kill") { $0.written > 0 }
        await relay.terminate()
        #expect(relay.exitStatus == 0)
        simulator.removeFaults()
        try await relay.start()
        let recovered = relay.output.contains("unknown=0")
        #expect(recovered, "a push was left with a mark and without an outcome: \(relay.output)")
        let report = try await self.report(load, relay, simulator)
        print("\(report)")
        await relay.kill()
        await simulator.stop()
    }

    @Test(
        "A relay that starts with a backup of its file parks what may have been sent, and a restored machine needs a word",
        .timeLimit(.minutes(5)),
        arguments: [true, false]
    )
    func restore(isNoticed: Bool) async throws {
        let simulator = try await self.simulator()
        let relay = try self.relay(simulator)
        let load = PushLoad()
        try await relay.start(stopPoint: "claim.before:1")
        let request = Task { try await load.post(0..<100, to: relay) }
        try await relay.waitForStop()
        let copy = relay.folder.appending(path: "copy").path
        for suffix in ["", "-wal"] {
            try FileManager.default.copyItem(atPath: relay.file + suffix, toPath: copy + suffix)
        }
        relay.resume()
        try #require(try await request.value == .acknowledged)
        try await relay.wait(for: "all pushes have an outcome") { $0.unsettled == 0 }
        #expect(simulator.record.requestsReceived == 100)
        await relay.terminate()
        for suffix in ["", "-wal"] {
            try? FileManager.default.removeItem(atPath: relay.file + suffix)
            try FileManager.default.moveItem(atPath: copy + suffix, toPath: relay.file + suffix)
        }
        try? FileManager.default.removeItem(atPath: "\(relay.file)-shm")
        if !isNoticed {
            // As if the whole machine had been restored.
            try FileManager.default.removeItem(atPath: "\(relay.file).progress")
            var settings = RelaySettings(apps: [])
            settings.storage.file = relay.file
            #expect(
                try await RelayProcess.restored(settings).hasPrefix("100 pushes may have been sent after the backup.")
            )
        }
        try await relay.start()
        let lines = relay.output.split(separator: "\n").filter { $0.contains("may have been sent before") }
        #expect(lines.count == (isNoticed ? 1 : 0))
        #expect(lines.allSatisfy { $0.contains("critical") && $0.contains("100") })
        #expect(try await relay.dropParked() == 100)
        #expect(try await relay.feed().map(\.outcome.outcome) == Array(repeating: "unknown", count: 100))
        #expect(simulator.record.requestsReceived == 100)
        await relay.kill()
        await simulator.stop()
    }
}
