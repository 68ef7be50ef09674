import PushQueueConformance

extension RelayUnderTest {
    /// What the relay's overview says about its queue.
    package struct Depth: Sendable, CustomStringConvertible {
        package var queued: Int
        package var claimed: Int
        package var written: Int
        package var isPaused: Bool
        package var isReady: Bool

        package var unsettled: Int { self.queued + self.claimed + self.written }

        package var description: String {
            "\(self.queued) queued, \(self.claimed) claimed, \(self.written) written"
                + (self.isPaused ? ", paused" : "") + (self.isReady ? "" : ", not ready")
        }
    }

    private struct Overview: Decodable {
        struct Queue: Decodable {
            var queued: Int
            var claimed: Int
            var written: Int
        }
        struct Route: Decodable {
            var state: String
        }
        var queue: Queue
        var routes: [Route]
        var ready: Bool
    }

    private struct Page: Decodable {
        var outcomes: [SettledPush]
        var cursor: String?
    }

    private struct Dropped: Decodable {
        var pushes: Int
    }

    package func depth() async throws -> Depth {
        let overview = try await self.json(Overview.self, "/v1/overview")
        return Depth(
            queued: overview.queue.queued,
            claimed: overview.queue.claimed,
            written: overview.queue.written,
            isPaused: overview.routes.contains { $0.state == "paused" },
            isReady: overview.ready
        )
    }

    /// Polls the overview until a condition holds.
    ///
    /// - Throws: if it does not hold within the limit.
    package func wait(
        for purpose: String,
        limit: Duration = Patience.limit,
        _ condition: (Depth) -> Bool
    ) async throws {
        try await Patience.wait(for: purpose, limit: limit) {
            condition(try await self.depth())
        } explanation: {
            "\(try await self.depth()); \(self.output.suffix(4_000))"
        }
    }

    /// All outcomes that the relay's feed has now.
    ///
    /// - Parameter start: the cursor to begin after; nil for the beginning of the feed.
    package func feed(after start: String? = nil) async throws -> [SettledPush] {
        var settled: [SettledPush] = []
        var cursor = start.map { "&after=\($0)" } ?? ""
        while true {
            let page = try await self.json(Page.self, "/v1/outcomes?limit=1000\(cursor)")
            settled += page.outcomes
            guard let next = page.cursor, !page.outcomes.isEmpty else { return settled }
            cursor = "&after=\(next)"
        }
    }

    /// Drops all parked pushes, which then end with the outcome of their last attempt.
    ///
    /// - Returns: their number.
    package func dropParked() async throws -> Int {
        let response = try await self.request("DELETE", "/v1/parked?app=fern")
        guard response.status == 200 else { throw RelayTestFailure("no parked push was dropped: \(response.text)") }
        return try response.decode(Dropped.self).pushes
    }
}

/// An entry of the feed of outcomes.
package struct SettledPush: Decodable, Sendable, Hashable {
    package struct Outcome: Decodable, Sendable, Hashable {
        package var outcome: String
    }
    package var id: String
    package var cursor: String
    package var outcome: Outcome
}
