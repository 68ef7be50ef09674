#if NATS
    import NATSTestServer
    import RelayTestSupport
    import Testing

    /// Relays under load whose brokers fail.
    @Suite(.timeLimit(.minutes(4))) struct BrokerFaultTests {
        @Test("A broker that is killed and comes back costs no push")
        func killed() async throws {
            let broker = try await blocking { try NATSServer() }
            let fleet = try FleetUnderTest(try await FleetUnderTest.simulator(), brokers: [broker.url])
            try await fleet.start()
            try await fleet.underLoad {
                for round in 0..<5 {
                    try await fleet.waitForAcknowledgements(200)
                    broker.kill()
                    // The outage itself: none, and up to four seconds.
                    try await Task.sleep(for: .seconds(round))
                    try await blocking { try broker.start() }
                }
            }
            try await fleet.check()
            await fleet.end()
        }

        @Test("While the broker's disk is full, pushes are refused; when there is room again, everything goes on")
        func fullDisk() async throws {
            let broker = try await blocking { try NATSServer(storeBytes: 64 << 20) }
            let fleet = try FleetUnderTest(
                try await FleetUnderTest.simulator(),
                brokers: [broker.url],
                settings: ["NATS_TIMEOUT": "4s"]
            )
            try await fleet.start()
            try await fleet.underLoad {
                for _ in 0..<2 {
                    try await fleet.waitForAcknowledgements(300)
                    try await blocking { try broker.fillDisk() }
                    try await fleet.waitForRefusals(3)
                    // nats-server hangs after it could not write, and must be started again.
                    try await blocking {
                        try broker.freeDisk()
                        try broker.restart()
                    }
                    try await fleet.waitForAcknowledgements(300)
                }
            }
            try await fleet.check()
            await fleet.end()
        }

        @Test("While the stream is full, pushes are refused; when it may be larger, everything goes on by itself")
        func fullStream() async throws {
            let broker = try await blocking { try NATSServer() }
            let fleet = try FleetUnderTest(
                try await FleetUnderTest.simulator(),
                brokers: [broker.url],
                settings: ["NATS_TIMEOUT": "4s", "NATS_MAX_BYTES": "1048576"]
            )
            try await fleet.start()
            try await fleet.underLoad {
                try await fleet.waitForRefusals(10)
                try await blocking { try broker.setMaximumBytes(of: "APNS_RELAY", to: 1 << 30) }
                try await fleet.waitForAcknowledgements(300)
            }
            try await fleet.check()
            await fleet.end()
        }

        @Test("A relay whose credentials the broker refuses from now on ends, and says why")
        func refusedCredentials() async throws {
            let broker = try await blocking { try NATSServer() }
            let fleet = try FleetUnderTest(try await FleetUnderTest.simulator(), brokers: [broker.url])
            try await fleet.start()
            try await blocking {
                broker.kill()
                try broker.start(["--user", "relay", "--pass", "secret"])
            }
            for relay in fleet.relays {
                await relay.waitForEnd()
                #expect(relay.exitStatus == 1)
                try await wait(for: "the reason is in the log") {
                    relay.output.contains("Check the credentials of the relay")
                }
            }
            await fleet.end()
        }

        @Test("Commands that are appended again and again have one effect")
        func redelivery() async throws {
            let broker = try await blocking { try NATSServer() }
            // Brokers drop copies of a message within this time. Here, they store almost all of them.
            _ = try await blocking {
                try broker.request(
                    "$JS.API.STREAM.CREATE.APNS_RELAY",
                    """
                    {"name":"APNS_RELAY","subjects":["APNS_RELAY.journal"],"retention":"limits","discard":"new",\
                    "storage":"file","num_replicas":1,"max_age":0,"max_msgs":-1,"max_bytes":-1,"max_consumers":-1,\
                    "duplicate_window":100000000}
                    """
                )
            }
            let proxy = try TestProxy(to: broker.port)
            let fleet = try FleetUnderTest(
                try await FleetUnderTest.simulator(),
                brokers: ["nats://127.0.0.1:\(proxy.port)"]
            )
            try await fleet.start()
            try await fleet.underLoad {
                try await fleet.waitForAcknowledgements(300)
                broker.pause()
                // The condition itself.
                try await Task.sleep(for: .seconds(12))
                broker.resume()
                try await fleet.waitForAcknowledgements(300)
                // What the relays append is stored, but they cannot read it: all growth is copies.
                proxy.cutToClient()
                try await Task.sleep(for: .seconds(4))
                let before = try await self.entries(broker)
                try await wait(for: "copies are stored") { try await self.entries(broker) > before + 3 }
                try await Task.sleep(for: .seconds(4))
                proxy.heal()
                try await fleet.waitForAcknowledgements(300)
            }
            try await fleet.check()
            await fleet.end()
            proxy.close()
        }

        private func entries(_ broker: NATSServer) async throws -> Int {
            let info = try await blocking { try broker.request("$JS.API.STREAM.INFO.APNS_RELAY") }
            let match = try #require(info.firstMatch(of: /"messages":(\d+)/), "\(info)")
            return try #require(Int(match.1))
        }

        @Test("Of three brokers, each may be killed while the others run")
        func cluster() async throws {
            let brokers = try await blocking { try NATSServer.cluster() }
            let fleet = try FleetUnderTest(
                try await FleetUnderTest.simulator(),
                brokers: brokers.map(\.url),
                // Two brokers of an old version sometimes take most of a minute to elect a leader of the cluster.
                settings: ["NATS_REPLICAS": "3", "NATS_TIMEOUT": "90s"]
            )
            try await fleet.start()
            try await fleet.underLoad {
                for _ in 0..<2 {
                    try await fleet.waitForAcknowledgements(300)
                    let leader = try #require(try await self.leader(brokers))
                    leader.kill()
                    // A relay that starts while there is no leader waits for one.
                    await fleet.relays[0].kill()
                    try await fleet.relays[0].start()
                    try await fleet.waitForAcknowledgements(300)
                    try await blocking { try leader.start() }
                    try await wait(for: "the broker has what it has missed") {
                        try await blocking { leader.isCurrent("APNS_RELAY") }
                    }
                }
            }
            try await fleet.check(unknownAtMost: 2 * FleetUnderTest.maxInFlight)
            await fleet.end()
        }

        /// The broker that leads the stream, once there is one.
        private func leader(_ brokers: [NATSServer]) async throws -> NATSServer? {
            var leader: NATSServer?
            try await wait(for: "the stream has a leader") {
                let name = try await blocking { brokers[0].leader(of: "APNS_RELAY") }
                leader = name.flatMap { Int($0.filter(\.isNumber)) }.flatMap {
                    brokers.indices.contains($0) ? brokers[$0] : nil
                }
                return leader != nil
            }
            return leader
        }
    }
#endif
