import APNSModel
import APNSSimulator
import Foundation
import RelayTestSupport
import Testing

/// Kills a relay while it stores and sends a batch that is paused, slowed and submitted again.
struct BatchKillTests {
    private struct BatchPage: Decodable {
        var id: String
        var state: String
        var lines: Int
        var outcomes: [String: Int]
    }

    private struct Batches: Decodable {
        var batches: [BatchPage]
    }

    private static let devices = 6_000

    private static let body =
        ([
            """
            {"app":"fern","headers":{"apns-push-type":"alert"},"payload":{"aps":{"alert":"Hi {{n}}"}},"idempotencyKey":"sale"}
            """
        ]
        + (0..<Self.devices).map { #"{"token":"\#(PushLoad.token($0))","values":{"n":\#($0)}}"# })
        .joined(separator: "\n")

    @Test("Each device of a batch is stored and sent once, however often the relay is killed", .timeLimit(.minutes(5)))
    func killed() async throws {
        var configuration = Simulator.Configuration()
        configuration.credential = .none
        configuration.environment = .production
        configuration.responseDelay = .milliseconds(2)
        let simulator = try await Simulator.start(configuration)
        let relay = try RelayUnderTest(
            port: simulator.port,
            certificateAuthority: simulator.certificateAuthorityPEM,
            settings: ["DISPATCH_MAX_IN_FLIGHT": "200", "DISPATCH_BATCH": "50"]
        )
        try await relay.start()
        let killing = Task {
            for round in 0..<8 {
                try await Task.sleep(for: .milliseconds(round < 4 ? .random(in: 20...200) : .random(in: 200...800)))
                await relay.kill()
                try await relay.start()
            }
        }
        // Submits the batch until a relay has acknowledged it, and once more.
        var acknowledged = 0
        while acknowledged < 2 {
            let response = try? await relay.request(
                "POST",
                "/v1/batches",
                body: Self.body,
                type: "application/x-ndjson"
            )
            if response?.status == 202 { acknowledged += 1 }
        }
        let batches = try await self.untilResponse(relay)
        let id = try #require(batches.first?.id)
        #expect(batches.count == 1)
        // Changes it while it is sent.
        for change in [#"{"pushesPerSecond":2000}"#, #"{"paused":true}"#, #"{"paused":false}"#] {
            _ = try? await relay.request("PATCH", "/v1/batches/\(id)", body: change, type: "application/json")
            try await Task.sleep(for: .milliseconds(200))
        }
        try await killing.value
        let resumed = try await relay.request(
            "PATCH",
            "/v1/batches/\(id)",
            body: #"{"paused":false,"pushesPerSecond":null}"#,
            type: "application/json"
        )
        #expect(resumed.status == 200)
        try await relay.wait(for: "all pushes have an outcome") { $0.unsettled == 0 }

        let feed = try await relay.feed()
        #expect(feed.count == Self.devices && Set(feed.map(\.id)).count == Self.devices)
        let processed = simulator.record.processedCounts
        #expect(processed.values.allSatisfy { $0 == 1 }, "a push was processed twice")
        var counts: [String: Int] = [:]
        for push in feed {
            counts[push.outcome.outcome, default: 0] += 1
            let count = processed[try #require(APNSID(push.id))] ?? 0
            #expect(push.outcome.outcome == "unknown" || count == (push.outcome.outcome == "accepted" ? 1 : 0))
        }
        print("batch: \(counts)")
        let final = try #require(try await relay.json(Batches.self, "/v1/batches").batches.first)
        #expect(final.state == "finished" && final.lines == Self.devices)
        #expect(final.outcomes["accepted"] == counts["accepted"] ?? 0)
        #expect(final.outcomes.values.reduce(0, +) == Self.devices)
        await relay.kill()
        await simulator.stop()
    }

    private func untilResponse(_ relay: RelayUnderTest) async throws -> [BatchPage] {
        while true {
            if let page = try? await relay.json(Batches.self, "/v1/batches") { return page.batches }
            try await Task.sleep(for: .milliseconds(20))
        }
    }
}
