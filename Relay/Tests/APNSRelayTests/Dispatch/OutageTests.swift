import APNSModel
import APNSSimulator
import PushQueueConformance
import RelayTestSupport
import Testing

/// How soon pushes leave that have no part in what is wrong with others, against the simulator.
struct OutageTests {
    private func simulator() async throws -> Simulator {
        var configuration = Simulator.Configuration()
        configuration.credential = .none
        configuration.environment = .production
        return try await Simulator.start(configuration)
    }

    private func outcomes(_ relay: RelayUnderTest) async throws -> [String: Int] {
        Dictionary(grouping: try await relay.feed(), by: \.outcome.outcome).mapValues(\.count)
    }

    @Test("5,000 bad tokens are rejected at once, and hold up no other push of their route", .timeLimit(.minutes(5)))
    func badTokens() async throws {
        let simulator = try await self.simulator()
        for number in 0..<5_000 { simulator.setToken(PushLoad.token(number), .bad) }
        let relay = try RelayUnderTest(port: simulator.port, certificateAuthority: simulator.certificateAuthorityPEM)
        try await relay.start()
        let load = PushLoad()
        try #require(try await load.post(0..<5_000, to: relay) == .acknowledged)
        try #require(try await load.post(5_000..<5_010, to: relay) == .acknowledged)
        // Ten probes in each pause, which doubled to a minute, took hours.
        try await relay.wait(for: "all pushes have an outcome") { $0.unsettled == 0 }
        #expect(try await self.outcomes(relay) == ["rejected": 5_000, "accepted": 10])
        await relay.kill()
        await simulator.stop()
    }

    @Test("After an outage, bad tokens do not prolong the pause of their route", .timeLimit(.minutes(5)))
    func badTokensAfterAnOutage() async throws {
        let simulator = try await self.simulator()
        for number in 0..<1_000 where !number.isMultiple(of: 10) { simulator.setToken(PushLoad.token(number), .bad) }
        await simulator.stopListening()
        let relay = try RelayUnderTest(
            port: simulator.port,
            certificateAuthority: simulator.certificateAuthorityPEM,
            settings: ["CLIENT_POOL_UNAVAILABLE_AFTER": "200ms"]
        )
        try await relay.start()
        let load = PushLoad()
        try #require(try await load.post(0..<1_000, to: relay) == .acknowledged)
        try await relay.wait(for: "the route is paused") { $0.isPaused }
        await simulator.startListening()
        try await relay.wait(for: "all pushes have an outcome") { $0.unsettled == 0 }
        #expect(try await self.outcomes(relay) == ["rejected": 900, "accepted": 100])
        await relay.kill()
        await simulator.stop()
    }

    private struct Overview: Decodable {
        struct Problem: Decodable {
            struct App: Decodable, Hashable {
                var app: String
                var environment: String
            }
            var cause: String
            var message: String
            var waiting: Int
            var apps: [App]
        }
        struct Route: Decodable {
            var state: String
            var reason: String?
        }
        var ready: Bool
        var problems: [Problem]
        var routes: [Route]
    }

    @Test("While APNs rejects most device tokens, the overview, the metrics and the body of /ready say so")
    func rejections() async throws {
        let simulator = try await self.simulator()
        simulator.inject(Fault(.respond(ScriptedResponse(.badDeviceToken)), when: .always))
        let relay = try RelayUnderTest(port: simulator.port, certificateAuthority: simulator.certificateAuthorityPEM)
        try await relay.start()
        let load = PushLoad()
        try #require(try await load.post(0..<500, to: relay) == .acknowledged)
        try await relay.wait(for: "all pushes have an outcome") { $0.unsettled == 0 }
        try await Patience.wait(for: "the metric") {
            try await relay.request("GET", "/metrics").text.contains("apns_relay_problem{cause=\"rejections\"} 1")
        }
        let overview = try await relay.json(Overview.self, "/v1/overview")
        #expect(overview.ready && overview.problems.map(\.cause) == ["rejections"])
        #expect(overview.routes.allSatisfy { $0.state != "paused" })
        let ready = try await relay.request("GET", "/ready")
        #expect(ready.status == 200 && ready.text.contains("(rejections)"), "\(ready.text)")
        await relay.kill()
        await simulator.stop()
    }

    /// What keeps pushes from being delivered: a fault of the simulator, or nil for one that cannot be reached.
    @Test(
        "Whatever keeps pushes from being delivered, the overview, the metrics and the body of /ready say so",
        .timeLimit(.minutes(5)),
        arguments: [("credential", RejectionReason.invalidProviderToken), ("apns", .serviceUnavailable), ("apns", nil)]
    )
    func problems(cause: String, reason: RejectionReason?) async throws {
        let simulator = try await self.simulator()
        if let reason {
            simulator.inject(Fault(.respond(ScriptedResponse(reason)), when: .always))
        } else {
            await simulator.stopListening()
        }
        let relay = try RelayUnderTest(
            port: simulator.port,
            certificateAuthority: simulator.certificateAuthorityPEM,
            settings: ["CLIENT_POOL_UNAVAILABLE_AFTER": "200ms"]
        )
        try await relay.start()
        #expect(try await relay.json(Overview.self, "/v1/overview").problems.isEmpty)
        let load = PushLoad()
        try #require(try await load.post(0..<20, to: relay) == .acknowledged)
        try await Patience.wait(for: "the overview has the problem") {
            try await relay.json(Overview.self, "/v1/overview").problems.contains { $0.cause == cause }
        }
        let overview = try await relay.json(Overview.self, "/v1/overview")
        let problem = try #require(overview.problems.first)
        #expect(overview.problems.count == 1 && problem.waiting == 20)
        #expect(problem.apps == [.init(app: "fern", environment: "production")])
        if let reason { #expect(problem.message.contains("\(reason)"), "\(problem.message)") }
        // Pushes are accepted, so a load balancer must not take the relay away.
        #expect(overview.ready)
        #expect(overview.routes.map(\.state) == ["paused"])
        let ready = try await relay.request("GET", "/ready")
        #expect(ready.status == 200)
        #expect(ready.text.contains("not being delivered (\(cause))"))
        try await Patience.wait(for: "the metric") {
            try await relay.request("GET", "/metrics").text.contains("apns_relay_problem{cause=\"\(cause)\"} 1")
        }
        if reason == nil { await simulator.startListening() } else { simulator.removeFaults() }
        try await relay.wait(for: "all pushes have an outcome") { $0.unsettled == 0 }
        try await Patience.wait(for: "the problem is gone") {
            try await relay.json(Overview.self, "/v1/overview").problems.isEmpty
        } explanation: {
            "\(try await relay.json(Overview.self, "/v1/overview")); \(relay.output.suffix(4_000))"
        }
        #expect(try await relay.request("GET", "/ready").text == "ready")
        await relay.kill()
        await simulator.stop()
    }
}
