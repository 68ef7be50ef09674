#if NATS
    import Foundation
    import NATSTestServer
    import RelayTestSupport
    import Testing

    /// Relays that publish their outcomes to a stream.
    @Suite(.timeLimit(.minutes(4))) struct OutcomeStreamTests {
        private struct Message: Decodable {
            struct Content: Decodable {
                var data: Data?
            }
            struct Outcome: Decodable {
                var id: String
            }
            var message: Content?
        }

        @Test(
            "The stream has the outcomes of the feed, each once and in its order, although the publishing relay is killed"
        )
        func takeOver() async throws {
            let broker = try await blocking { try NATSServer() }
            let fleet = try FleetUnderTest(
                try await FleetUnderTest.simulator(),
                brokers: [broker.url],
                settings: ["NATS_OUTCOMES": "true"]
            )
            try await fleet.start()
            try await wait(for: "a relay publishes") { try await !Self.publishers(fleet).isEmpty }
            let publisher = try #require(try await Self.publishers(fleet).first)
            let others = fleet.relays.filter { $0 !== publisher }
            // A request to a relay that is not there waits for it.
            try await fleet.underLoad(to: others) {
                try await fleet.waitForAcknowledgements(200)
                await publisher.kill()
                // The others wait until the dead relay counts as gone.
                try await wait(for: "another relay publishes") {
                    try await Self.publishers(fleet).contains { $0 !== publisher }
                }
                try await publisher.start()
                try await fleet.waitForAcknowledgements(200)
            }
            let count = try await Self.publishers(fleet).count
            #expect(count == 1)
            try await fleet.check(unknownAtMost: FleetUnderTest.maxInFlight)
            let feed = try await fleet.relays[0].feed().map(\.id)
            try await wait(for: "the stream has \(feed.count) outcomes") {
                try await Self.info(broker).contains("\"messages\":\(feed.count),")
            }
            let ids = try await blocking { try (1...feed.count).map { try Self.id($0, broker) } }
            #expect(ids == feed)
            await fleet.end()
        }

        private static func info(_ broker: NATSServer) async throws -> String {
            try await blocking { try broker.request("$JS.API.STREAM.INFO.APNS_RELAY_OUTCOMES") }
        }

        private static func id(_ sequence: Int, _ broker: NATSServer) throws -> String {
            let response = try broker.request("$JS.API.STREAM.MSG.GET.APNS_RELAY_OUTCOMES", "{\"seq\":\(sequence)}")
            let message = try JSONDecoder().decode(Message.self, from: Data(response.utf8))
            return try JSONDecoder().decode(Message.Outcome.self, from: message.message?.data ?? Data()).id
        }

        /// The running relays that have the duty to publish.
        private static func publishers(_ fleet: FleetUnderTest) async throws -> [RelayUnderTest] {
            var publishers: [RelayUnderTest] = []
            for relay in fleet.relays where !relay.hasEnded {
                let metrics = try await relay.request("GET", "/metrics").text
                if metrics.contains("apns_relay_fleet_duty{duty=\"outcomes\"} 1") { publishers.append(relay) }
            }
            return publishers
        }
    }
#endif
