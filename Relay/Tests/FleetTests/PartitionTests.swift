#if NATS
    import APNSSimulator
    import NATSTestServer
    import RelayTestSupport
    import Testing

    /// One relay of three has a bad network.
    @Suite(.timeLimit(.minutes(4))) struct PartitionTests {
        @Test("A relay that cannot reach the broker for a minute refuses pushes, and stores its outcomes afterwards")
        func relayAndBroker() async throws {
            let broker = try await blocking { try NATSServer() }
            let proxy = try TestProxy(to: broker.port)
            let fleet = try FleetUnderTest(
                try await FleetUnderTest.simulator(delay: .milliseconds(50)),
                brokers: [broker.url],
                settings: ["NATS_TIMEOUT": "5s"],
                first: ["NATS_SERVERS": "nats://127.0.0.1:\(proxy.port)"]
            )
            try await fleet.start()
            let cutOff = fleet.relays[0]
            try await fleet.underLoad {
                try await fleet.waitForOutcomes(300, at: cutOff)
                proxy.cut()
                let start = ContinuousClock.now
                try await cutOff.wait(for: "the relay is not ready") { !$0.isReady }
                let reply = try await fleet.load.post(1_000_000..<1_000_001, to: cutOff)
                #expect(reply == .refused(status: 503))
                let ready = try await cutOff.request("GET", "/ready")
                #expect(ready.status == 503)
                try await fleet.waitForOutcomes(500, at: fleet.relays[1])
                // The condition itself: a minute.
                try await Task.sleep(until: start.advanced(by: .seconds(60)))
                proxy.heal()
                try await cutOff.wait(for: "the relay is ready again") { $0.isReady }
            }
            // What it has refused may have been stored.
            var round = 0
            let again = try await fleet.load.post(1_000_000..<1_000_001, to: fleet.relays[1])
            #expect(again == .acknowledged)
            try await fleet.post(20, to: [cutOff], &round)
            try await fleet.check()
            await fleet.end()
            proxy.close()
        }

        @Test("A relay that cannot reach APNs for a minute pauses its route, and the others send")
        func relayAndAPNs() async throws {
            let broker = try await blocking { try NATSServer() }
            let simulator = try await FleetUnderTest.simulator()
            let proxy = try TestProxy(to: simulator.port)
            let fleet = try FleetUnderTest(
                simulator,
                brokers: [broker.url],
                settings: ["DISPATCH_ATTEMPT_DEADLINE": "5s"],
                first: ["SERVER_PRODUCTION": "localhost:\(proxy.port)"]
            )
            try await fleet.start()
            let cutOff = fleet.relays[0]
            try await fleet.underLoad {
                try await fleet.waitForOutcomes(300, at: cutOff)
                proxy.cut()
                let start = ContinuousClock.now
                try await cutOff.wait(for: "the route is paused", limit: .seconds(60)) { $0.isPaused }
                let before = try await fleet.relays[1].feed().count
                try await fleet.waitForOutcomes(500, at: fleet.relays[1])
                let after = try await fleet.relays[1].feed()[before...]
                // Probes of the paused route may end as unknown.
                #expect(after.count { $0.outcome.outcome != "accepted" } <= FleetUnderTest.maxInFlight)
                // The condition itself: a minute.
                try await Task.sleep(until: start.advanced(by: .seconds(60)))
                let accepted = simulator.record.requestsProcessed
                proxy.heal()
                try await wait(for: "the others and the relay send") {
                    let depth = try await cutOff.depth()
                    return !depth.isPaused && simulator.record.requestsProcessed > accepted + 300
                }
            }
            // Pushes on their way when the network went away.
            try await fleet.check(unknownAtMost: FleetUnderTest.maxInFlight)
            await fleet.end()
            proxy.close()
        }

        @Test("A relay that reads the journal slowly falls behind in little memory, and catches up")
        func slowReader() async throws {
            let broker = try await blocking { try NATSServer() }
            let proxy = try TestProxy(to: broker.port)
            let fleet = try FleetUnderTest(
                try await FleetUnderTest.simulator(),
                brokers: [broker.url],
                settings: ["NATS_TIMEOUT": "5s"],
                first: ["NATS_SERVERS": "nats://127.0.0.1:\(proxy.port)"]
            )
            try await fleet.start()
            let slow = fleet.relays[0]
            try await fleet.underLoad(batch: 100, to: Array(fleet.relays[1...])) {
                try await fleet.waitForOutcomes(300, at: slow)
                proxy.throttle(20_000)
                try await wait(for: "the relay falls behind") {
                    try await slow.feed().count < fleet.relays[1].feed().count - 2_000
                }
                try await fleet.waitForAcknowledgements(2_000)
                proxy.throttle(nil)
            }
            try await fleet.check()
            let memory = try #require(slow.peakMemory)
            #expect(memory < 300 << 20)
            await fleet.end()
            proxy.close()
        }
    }
#endif
