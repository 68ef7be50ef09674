import APNSPool
import APNSSimulator
import NIOHTTP1
import PushQueue
import RelayTestSupport
import Testing

@testable import APNSRelay

/// Whole relays that share a queue, in one process.
struct FleetRelayTests {
    /// A relay and requests to it.
    private final class Running: Sendable {
        let queue: SharedQueue
        private let group: APNSClientGroup
        private let task: Task<Void, any Error>
        private let port: Int

        init(_ settings: RelaySettings, _ fixture: FleetFixture) async throws {
            self.queue = SharedQueue(fixture.base)
            var relay = try Relay(
                settings: settings,
                queue: self.queue,
                prometheus: PrometheusMetrics(),
                logger: FleetFixture.logger
            )
            relay.fleetTiming = FleetMachine.Timing(
                heartbeat: .milliseconds(100),
                // Longer than a machine stalls, so that only the killed relay expires.
                expiry: .seconds(10),
                removal: .seconds(12)
            )
            self.group = relay.group
            let (ports, continuation) = AsyncStream.makeStream(of: Int.self)
            self.task = Task { [relay] in
                defer { continuation.finish() }
                try await relay.run { continuation.yield($0) }
            }
            self.port = try #require(await ports.first { _ in true })
        }

        /// The connections of each of its clients.
        var connections: Int { self.group.settings.pool.size + self.group.settings.pool.maxOverflow }

        func end() async {
            self.task.cancel()
            _ = await self.task.result
        }

        /// Ends it as SIGKILL does: it can store nothing more.
        func kill() async {
            self.queue.kill()
            await self.end()
        }

        func send(
            _ method: HTTPMethod,
            _ path: String,
            _ body: String? = nil,
            headers: HTTPHeaders = [:]
        ) async throws -> TestHTTPClient.Response {
            let url = "http://127.0.0.1:\(self.port)\(path)"
            return try await TestHTTPClient.shared.send(
                method,
                url,
                headers: headers,
                body: body.map { Array($0.utf8) }
            )
        }

        struct Overview: Decodable {
            struct Member: Decodable {
                var isSelf: Bool
                var postsWebhooks: Bool
            }
            struct Route: Decodable {
                var state: String
                var reason: String?
                var queued: Int
            }
            var relays: [Member]
            var routes: [Route]
        }

        func overview() async throws -> Overview {
            try await self.send(.GET, "/v1/overview").decode(Overview.self)
        }

        /// Hands pushes in.
        func post(_ count: Int) async throws {
            let push = #"{"app":"fern","token":"00ff","headers":{"apns-push-type":"alert"},"payload":{"aps":{}}}"#
            let response = try await self.send(
                .POST,
                "/v1/pushes",
                Array(repeating: push, count: count).joined(separator: "\n"),
                headers: ["content-type": "application/x-ndjson"]
            )
            #expect(response.status == 202)
        }

        func setPaused(_ apps: [String]) async throws {
            let names = apps.map { "\"\($0)\"" }.joined(separator: ",")
            let response = try await self.send(
                .PUT,
                "/v1/settings",
                #"{"pausedApps":[\#(names)]}"#,
                headers: ["content-type": "application/json", "if-match": "*"]
            )
            #expect(response.status == 200)
        }
    }

    private static func settings(
        _ simulator: Simulator,
        _ key: SimulatedKey,
        _ receiver: WebhookReceiver
    ) -> RelaySettings {
        let app = RelayApp(
            name: "fern",
            topic: "com.example.fern",
            authentication: .token(privateKeyPEM: key.p8, keyID: key.keyID, teamID: key.teamID),
            environments: ["production": .custom(host: "localhost", port: simulator.port)]
        )
        var settings = RelaySettings(apps: [app])
        settings.group.client = APNSClientConfiguration(
            authentication: .withoutToken,
            environment: .custom(host: "localhost")
        )
        settings.group.client.trust.caPEM = simulator.certificateAuthorityPEM
        settings.group.client.timeouts.response = .seconds(600)
        settings.http.port = 0
        settings.dispatch.shutdownTimeout = .seconds(2)
        settings.fleet.maxConnections = 4
        settings.webhooks = [
            WebhookSettings(name: "crm", url: receiver.url, secrets: [WebhookReceiver.secret], batch: 10)
        ]
        return settings
    }

    private static func until(
        sourceLocation: SourceLocation = #_sourceLocation,
        _ condition: () async throws -> Bool
    ) async throws {
        let isMet = try await eventually(condition)
        #expect(isMet, sourceLocation: sourceLocation)
    }

    @Test(
        "Two relays share the pushes, the token, the webhooks and the settings; one of them goes on after a kill",
        .timeLimit(.minutes(5))
    )
    func twoRelays() async throws {
        let key = SimulatedKey()
        var configuration = Simulator.Configuration()
        configuration.credential = .keys([Simulator.Key(key)])
        configuration.environment = .production
        configuration.limitsProviderTokenUpdates = true
        let simulator = try await Simulator.start(configuration)
        try await FleetFixture.run { fixture in
            try await WebhookReceiver.run { receiver in
                let settings = Self.settings(simulator, key, receiver)
                let relays = [try await Running(settings, fixture), try await Running(settings, fixture)]
                for relay in relays { try await Self.until { try await relay.overview().relays.count == 2 } }
                for relay in relays { try await Self.until { relay.connections == 2 } }
                for relay in relays { try await relay.post(50) }
                try await Self.until { try await fixture.base.counts().unsettled == 0 }
                #expect(simulator.record.pushes.filter(\.isProcessed).count == 100)
                #expect(simulator.record.pushes.compactMap(\.reason) == [])
                try await Self.until { receiver.deliveries.flatMap(\.pushIDs).count >= 100 }
                #expect(Set(receiver.deliveries.flatMap(\.pushIDs)).count == 100)
                #expect(receiver.deliveries.flatMap(\.pushIDs).count == 100)

                // Each relay applies the settings that one of them got.
                try await relays[0].setPaused(["fern"])
                for relay in relays {
                    try await Self.until {
                        try await relay.post(1)
                        return try await relay.overview().routes.contains {
                            $0.reason == "an operator has paused the app" && $0.queued > 0
                        }
                    }
                }
                // Those in flight end.
                try await Self.until {
                    let counts = try await fixture.base.counts()
                    return counts.unsettled == counts.queued
                }
                let sent = simulator.record.pushes.count
                for relay in relays { try await relay.post(10) }
                try await Self.until { try await relays[1].overview().routes.contains { $0.queued >= 20 } }
                #expect(simulator.record.pushes.count == sent)
                try await relays[1].setPaused([])
                try await Self.until { try await fixture.base.counts().unsettled == 0 }

                // The relay that posts to the webhooks is killed.
                let own = try await relays[0].overview().relays.first
                let (holder, other) =
                    own?.postsWebhooks == true ? (relays[0], relays[1]) : (relays[1], relays[0])
                await holder.kill()
                try await other.post(30)
                try await Self.until { try await fixture.base.counts().unsettled == 0 }
                let all = try await fixture.base.outcomes(after: nil, apps: nil, kind: .outcomes, limit: 1_000)
                let ids = Set(all.entries.map(\.push.id.description))
                try await Self.until { Set(receiver.deliveries.flatMap(\.pushIDs)) == ids }
                // It takes over the webhooks before it forgets the dead relay.
                try await Self.until {
                    let last = try await other.overview().relays
                    return last.count == 1 && last.first?.postsWebhooks == true
                }
                #expect(all.entries.allSatisfy { $0.push.outcome?.certainty == .accepted })
                try await Self.until { other.connections == 4 }
                await other.end()
            }
        }
        await simulator.stop()
    }
}
