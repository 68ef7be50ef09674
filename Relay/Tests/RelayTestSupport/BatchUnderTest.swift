import APNSModel
package import APNSSimulator
import Foundation
import PushQueueConformance

/// A batch that relays store and send while they are killed one after the other, while their settings change, and while it is
/// submitted again, slowed and paused.
package struct BatchUnderTest: Sendable {
    private struct Page: Decodable {
        var id: String
        var state: String
        var lines: Int
        var outcomes: [String: Int]
    }

    private struct Pages: Decodable {
        var batches: [Page]
    }

    private static let devices = 6_000
    private static let object = """
        {"app":"fern","headers":{"apns-push-type":"alert"},"payload":{"aps":{"alert":"Hi {{n}}"}},"idempotencyKey":"sale"}
        """
    private static let body =
        ([Self.object] + (0..<Self.devices).map { #"{"token":"\#(PushLoad.token($0))","values":{"n":\#($0)}}"# })
        .joined(separator: "\n")

    private let relays: [RelayUnderTest]
    private let simulator: Simulator

    /// - Parameters:
    ///   - relays: running relays that share a queue.
    ///   - simulator: what stands in for APNs.
    package init(_ relays: [RelayUnderTest], _ simulator: Simulator) {
        self.relays = relays
        self.simulator = simulator
    }

    /// Submits the batch, kills relays until it is sent, and compares its outcomes with what the simulator has processed.
    ///
    /// - Parameter kills: how often to kill a relay.
    /// - Returns: the number of pushes with each outcome.
    /// - Throws: `RelayTestFailure` if the batch did not end as it must.
    package func run(kills: Int) async throws -> [String: Int] {
        let killing = Task {
            for round in 0..<kills {
                let isEarly = round < kills / 2
                try await Task.sleep(for: .milliseconds(isEarly ? .random(in: 20...200) : .random(in: 200...800)))
                let relay = self.relays[round % self.relays.count]
                await relay.kill()
                try await relay.start()
            }
        }
        let reloading = Task {
            var reloads = 0
            while !Task.isCancelled {
                // A relay that is being killed does not respond.
                for relay in self.relays where (try? await relay.reload()) != nil { reloads += 1 }
                try? await Task.sleep(for: .milliseconds(150))
            }
            return reloads
        }
        // Until a relay has acknowledged it, and once more.
        var acknowledged = 0
        var round = 0
        try await Patience.wait(for: "a relay has acknowledged the batch twice") {
            round += 1
            let response = try? await self.relays[round % self.relays.count].request(
                "POST",
                "/v1/batches",
                body: Self.body,
                type: "application/x-ndjson"
            )
            if response?.status == 202 { acknowledged += 1 }
            return acknowledged == 2
        }
        let pages = try await self.pages()
        guard pages.count == 1, let id = pages.first?.id else { throw RelayTestFailure("\(pages.count) batches") }
        for (index, change) in [#"{"pushesPerSecond":2000}"#, #"{"paused":true}"#, #"{"paused":false}"#].enumerated() {
            _ = try? await self.change(id, change, self.relays[index % self.relays.count])
            try await Task.sleep(for: .milliseconds(200))
        }
        try await killing.value
        reloading.cancel()
        let reloads = await reloading.value
        guard reloads >= kills / 2 else { throw RelayTestFailure("only \(reloads) reloads") }
        let resumed = try await self.change(id, #"{"paused":false,"pushesPerSecond":null}"#, self.relays[0])
        guard resumed.status == 200 else { throw RelayTestFailure(resumed.text) }
        // The claims of a killed relay last a minute.
        try await self.relays[0].wait(for: "all pushes have an outcome", limit: Patience.limit * 2) {
            $0.unsettled == 0
        }
        return try await self.check()
    }

    private func change(
        _ id: String,
        _ body: String,
        _ relay: RelayUnderTest
    ) async throws -> TestHTTPClient.Response {
        try await relay.request("PATCH", "/v1/batches/\(id)", body: body, type: "application/json")
    }

    private func pages() async throws -> [Page] {
        var pages: Pages?
        try await Patience.wait(for: "a relay lists the batches") {
            for relay in self.relays where pages == nil {
                pages = try? await relay.json(Pages.self, "/v1/batches")
            }
            return pages != nil
        }
        return pages?.batches ?? []
    }

    private func check() async throws -> [String: Int] {
        let feed = try await self.relays[0].feed()
        guard feed.count == Self.devices, Set(feed.map(\.id)).count == Self.devices else {
            throw RelayTestFailure("\(feed.count) outcomes of \(Set(feed.map(\.id)).count) pushes")
        }
        let processed = self.simulator.record.processedCounts
        var counts: [String: Int] = [:]
        for push in feed {
            let outcome = push.outcome.outcome
            counts[outcome, default: 0] += 1
            let count = APNSID(push.id).flatMap { processed[$0] } ?? 0
            let isRight = outcome == "unknown" ? count <= 1 : count == (outcome == "accepted" ? 1 : 0)
            guard isRight else { throw RelayTestFailure("\(push.id) is \(outcome) and was processed \(count) times") }
        }
        guard let page = try await self.pages().first, page.state == "finished", page.lines == Self.devices,
            page.outcomes["accepted"] == counts["accepted"] ?? 0, page.outcomes["unknown"] == counts["unknown"] ?? 0
        else {
            throw RelayTestFailure("the progress of the batch is not that of its outcomes \(counts)")
        }
        return counts
    }
}
