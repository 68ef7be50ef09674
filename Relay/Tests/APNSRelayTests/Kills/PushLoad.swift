import APNSModel
import APNSSimulator
import Foundation
import Synchronization
import Testing

/// Hands pushes in, over and over until the relay has acknowledged each, as a careful application does.
final class PushLoad: Sendable {
    private let relay: RelayUnderTest
    private let resendsUnknown: Bool
    /// The ids by idempotency key.
    private let acknowledged = Mutex<[Int: String]>([:])

    init(_ relay: RelayUnderTest, resendsUnknown: Bool = false) {
        self.relay = relay
        self.resendsUnknown = resendsUnknown
    }

    var ids: [Int: String] { self.acknowledged.withLock { $0 } }

    /// Hands in the pushes with these numbers in one request.
    ///
    /// - Returns: whether the relay has acknowledged them. If not, it is being killed.
    func post(_ numbers: Range<Int>) async throws -> Bool {
        let lines = numbers.map { number in
            """
            {"app":"fern","token":"\(Self.token(number))","headers":{"apns-push-type":"alert"},\
            "payload":{"aps":{"alert":"push \(number)"}},"idempotencyKey":"key-\(number)"\
            \(self.resendsUnknown ? ",\"resendUnknown\":true" : "")}
            """
        }
        let response: RelayUnderTest.Response
        do {
            response = try await self.relay.request(
                "POST",
                "/v1/pushes",
                body: lines.joined(separator: "\n"),
                type: "application/x-ndjson"
            )
        } catch {
            return false
        }
        try #require(response.status == 202, "\(String(decoding: response.body, as: UTF8.self))")
        let receipt = try JSONDecoder().decode(Receipt.self, from: response.body)
        self.acknowledged.withLock { acknowledged in
            for (number, push) in zip(numbers, receipt.pushes) { acknowledged[number] = push.id }
        }
        return true
    }

    static func token(_ number: Int) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: 64 - digits.count) + digits
    }

    /// Waits until every push of the relay has an outcome, and reads them.
    func outcomes() async throws -> [SettledPush] {
        var left = 0
        for _ in 0..<600 {
            let overview = try await self.relay.json(Overview.self, "/v1/overview")
            left = overview.queue.queued + overview.queue.claimed + overview.queue.written
            if left == 0 { break }
            // A poll: the relay has no event for "everything is settled".
            try await Task.sleep(for: .milliseconds(50))
        }
        if left > 0 {
            let overview = try await self.relay.request("GET", "/v1/overview")
            Issue.record("\(left) pushes are not settled: \(String(decoding: overview.body, as: UTF8.self))")
            for id in self.ids.values.prefix(3_000) {
                let status = try await self.relay.request("GET", "/v1/pushes/\(id)")
                let text = String(decoding: status.body, as: UTF8.self)
                guard !text.contains("\"settled\"") else { continue }
                Issue.record("not settled: \(text), log: \(self.relay.output)")
                break
            }
        }
        var settled: [SettledPush] = []
        var cursor = ""
        while true {
            let page = try await self.relay.json(Page.self, "/v1/outcomes?limit=1000\(cursor)")
            settled += page.outcomes
            guard let next = page.cursor, !page.outcomes.isEmpty else { return settled }
            cursor = "&after=\(next)"
        }
    }

    struct Depth {
        var queued: Int
        var written: Int
        var isPaused: Bool
    }

    /// Polls the relay until a condition holds. Fails the test if it does not hold within about 30 seconds.
    func wait(_ condition: (Depth) -> Bool) async throws {
        for _ in 0..<600 {
            let overview = try await self.relay.json(Overview.self, "/v1/overview")
            let isPaused = overview.routes.contains { $0.state == "paused" }
            let depth = Depth(queued: overview.queue.queued, written: overview.queue.written, isPaused: isPaused)
            if condition(depth) { return }
            try await Task.sleep(for: .milliseconds(50))
        }
        let overview = try await self.relay.request("GET", "/v1/overview")
        Issue.record("the condition did not come true: \(String(decoding: overview.body, as: UTF8.self))")
    }

    struct Receipt: Decodable {
        struct Push: Decodable {
            var id: String
            var duplicate: Bool?
        }
        var pushes: [Push]
    }

    struct Overview: Decodable {
        struct Queue: Decodable {
            var queued: Int
            var claimed: Int
            var written: Int
            var parked: Int
        }
        struct Route: Decodable {
            var state: String
        }
        var queue: Queue
        var routes: [Route]
    }

    struct Page: Decodable {
        var outcomes: [SettledPush]
        var cursor: String?
    }
}

struct SettledPush: Decodable {
    struct Outcome: Decodable {
        var outcome: String
    }
    var id: String
    var outcome: Outcome
}

/// What a run of kills has shown.
struct KillReport: CustomStringConvertible {
    var kills = 0
    var pushes = 0
    var outcomes: [String: Int] = [:]
    /// Pushes that the simulator processed more than once.
    var duplicates = 0

    var description: String {
        let counts = self.outcomes.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: ", ")
        return "\(self.kills) kills, \(self.pushes) pushes: \(counts); processed twice: \(self.duplicates)"
    }

    /// Compares the acknowledged pushes with their outcomes and with what the simulator has processed.
    ///
    /// - Parameters:
    ///   - load: the pushes that the relay has acknowledged.
    ///   - settled: all outcomes.
    ///   - mayRepeat: whether the owner asked for unknown pushes to be sent again.
    static func check(
        _ load: PushLoad,
        _ settled: [SettledPush],
        _ simulator: Simulator,
        kills: Int,
        mayRepeat: Bool = false
    ) throws -> KillReport {
        var report = KillReport(kills: kills, pushes: load.ids.count)
        let byID = Dictionary(grouping: settled, by: \.id)
        #expect(Set(load.ids.values).count == load.ids.count, "two pushes have one id")
        for (number, id) in load.ids {
            let outcomes = byID[id] ?? []
            guard outcomes.count == 1, let outcome = outcomes.first?.outcome.outcome else {
                Issue.record("push \(number) (\(id)) has \(outcomes.count) outcomes")
                continue
            }
            report.outcomes[outcome, default: 0] += 1
            let processed = simulator.processedCount(of: try #require(APNSID(id)))
            if processed > 1 { report.duplicates += 1 }
            switch outcome {
            case "accepted": #expect(processed >= 1, "push \(number) is accepted and was never processed")
            case "unknown": break
            default: #expect(processed == 0, "push \(number) is \(outcome) and was processed")
            }
        }
        // A push whose acknowledgement was lost was handed in again under its key: no others may exist.
        #expect(settled.count == load.ids.count)
        if !mayRepeat { #expect(report.duplicates == 0) }
        return report
    }
}
