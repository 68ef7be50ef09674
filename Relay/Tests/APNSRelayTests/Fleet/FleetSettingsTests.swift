import PushQueue
import PushQueueConformance
import Synchronization
import Testing

@testable import APNSRelay

struct FleetSettingsTests {
    private func fault(_ json: String) -> FleetSettings.Fault? {
        do throws(FleetSettings.Fault) {
            _ = try FleetSettings(json: Array(json.utf8))
            return nil
        } catch {
            return error
        }
    }

    @Test("Settings are read as they are written")
    func roundTrip() throws {
        for settings in [
            FleetSettings(), FleetSettings(maxConnections: 1, maxInFlight: 100_000, pausedApps: ["moss", "fern"]),
        ] {
            #expect(try FleetSettings(json: settings.json) == settings)
        }
        #expect(try FleetSettings(json: Array("{}".utf8)) == FleetSettings())
        let json = FleetSettings(maxInFlight: 5, pausedApps: ["b", "a"]).json
        #expect(String(decoding: json, as: UTF8.self) == #"{"maxInFlight":5,"pausedApps":["a","b"]}"#)
    }

    @Test(
        "What is wrong is named",
        arguments: [
            (#"{"maxConnections":0}"#, "maxConnections"), (#"{"maxConnections":100001}"#, "maxConnections"),
            (#"{"maxConnections":"5"}"#, "maxConnections"), (#"{"maxConnections":2.5}"#, "maxConnections"),
            (#"{"maxConnections":null}"#, "maxConnections"), (#"{"maxInFlight":true}"#, "maxInFlight"),
            (#"{"maxInFlight":99999999999999999999}"#, "maxInFlight"), (#"{"pausedApps":"fern"}"#, "pausedApps"),
            (#"{"pausedApps":[1]}"#, "pausedApps"), (#"{"pausedApps":null}"#, "pausedApps"),
            (#"{"maxinflight":5}"#, "maxinflight"), ("[]", nil), ("", nil), ("{", nil), ("null", nil),
        ] as [(String, String?)]
    )
    func faults(json: String, member: String?) {
        let fault = self.fault(json)
        #expect(fault != nil && fault?.member == member)
    }

    @Test("Every relay applies new settings with its next heartbeat, and ignores those that it cannot read")
    func adopted() async throws {
        try await FleetFixture.run { fixture in
            let effects = Mutex<[String: FleetEffects]>([:])
            let record: @Sendable (String, FleetEffects) -> Void = { id, new in effects.withLock { $0[id] = new } }
            let (a, b) = (fixture.relay("a", record), fixture.relay("b", record))
            a.fleet.update()
            // Nothing is known yet, so that no paused app is sent to.
            #expect(effects.withLock { $0["a"] } == FleetEffects(pausedApps: nil))
            await fixture.pass(5, a, b)
            #expect(effects.withLock { $0["a"] } == FleetEffects(pausedApps: [], postsWebhooks: true))
            let settings = FleetSettings(maxInFlight: 7, pausedApps: ["fern"])
            let isStored = try await a.queue.exchangeValue(settings.json, forKey: "fleet/settings", expecting: nil)
            #expect(isStored)
            a.fleet.didStore(settings.json)
            let expected = FleetEffects(maxInFlight: 7, pausedApps: ["fern"], postsWebhooks: true)
            #expect(effects.withLock { $0["a"] } == expected)
            #expect(effects.withLock { $0["b"] } == FleetEffects(pausedApps: []))
            await fixture.pass(5, a, b)
            #expect(effects.withLock { $0["b"] } == FleetEffects(maxInFlight: 7, pausedApps: ["fern"]))
            try await fixture.base.setValue(Array(#"{"color":"red"}"#.utf8), forKey: "fleet/settings")
            await fixture.pass(10, a, b)
            #expect(effects.withLock { $0["b"] } == FleetEffects(maxInFlight: 7, pausedApps: ["fern"]))
            try await fixture.base.setValue(nil, forKey: "fleet/settings")
            await fixture.pass(5, a, b)
            #expect(effects.withLock { $0["b"] } == FleetEffects(pausedApps: []))
        }
    }

    @Test("Settings that are stored while a relay reads older ones stay in effect")
    func storedWhileReading() async throws {
        try await FleetFixture.run { fixture in
            let effects = Mutex<FleetEffects?>(nil)
            let relay = fixture.relay("a") { _, new in effects.withLock { $0 = new } }
            await fixture.pass(5, relay)
            let settings = FleetSettings(pausedApps: ["fern"])
            // As if the reading had begun before they were stored.
            relay.queue.afterReading { relay.fleet.didStore(settings.json) }
            await relay.fleet.beat()
            #expect(effects.withLock { $0?.pausedApps } == ["fern"])
        }
    }

    @Test("With an engine for one process, stored settings apply, too")
    func alone() async throws {
        try await FleetFixture.run { fixture in
            let settings = FleetSettings(maxConnections: 6, pausedApps: ["fern"])
            try await fixture.base.setValue(settings.json, forKey: "fleet/settings")
            let effects = Mutex<FleetEffects?>(nil)
            let fleet = Fleet(
                member: FleetMember(id: "a", host: "host", process: 1, version: "1", since: fixture.clock.now),
                queue: fixture.base,
                clock: fixture.clock,
                metrics: RelayMetrics(factory: PrometheusMetrics()),
                logger: FleetFixture.logger,
                maxConnections: 10
            ) { new in effects.withLock { $0 = new } }
            fleet.update()
            #expect(effects.withLock { $0 } == FleetEffects(poolSize: 10, postsWebhooks: true))
            await fleet.beat()
            #expect(effects.withLock { $0 } == FleetEffects(poolSize: 6, pausedApps: ["fern"], postsWebhooks: true))
        }
    }
}
