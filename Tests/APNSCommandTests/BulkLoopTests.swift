import APNSModel
import APNSSimulator
import Foundation
import TestSupport
import Testing

/// The documented loop, which runs `apns bulk --resume` until its exit status is not 75.
struct BulkLoopTests {
    /// A fault that would meet any push.
    struct Weather: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let effect: FaultEffect
        /// Whether it leaves pushes whose fate is unknown.
        var isUnknown = false
        /// Whether the requests that it meets are processed nevertheless.
        var isProcessed = false

        static let all = [
            Weather(testDescription: "503", effect: .respond(.serviceUnavailable)),
            Weather(testDescription: "500", effect: .respond(.internalServerError)),
            Weather(testDescription: "429", effect: .respond(.tooManyProviderTokenUpdates)),
            Weather(testDescription: "403", effect: .respond(.expiredProviderToken)),
            Weather(testDescription: "502", effect: .respond(status: 502, reason: nil), isUnknown: true),
            Weather(
                testDescription: "reset",
                effect: .reset(code: 2, isProcessed: true),
                isUnknown: true,
                isProcessed: true
            ),
        ]
    }

    private static let total = 400
    /// Lines that can never be accepted.
    private static let dead = 7
    private static let invalid = 11
    /// A loop without end would take this many runs.
    private static let limit = TestScale.size(30, thorough: 300)
    /// How long the weather lasts that the loop passes through at last.
    private static let weatherTime = Duration.seconds(TestScale.size(1, thorough: 20))

    private static func tokens() -> String {
        (1...self.total).map { $0 == self.invalid ? "no token" : token($0) }.joined(separator: "\n")
    }

    private static func rows(_ server: Server) throws -> [ResultLine] {
        try ResultLine.all(server.folder.lines(of: "results.ndjson")).sorted { $0.line < $1.line }
    }

    /// Runs the loop.
    private static func loop(_ arguments: [String]) async throws -> Tool.Result {
        for _ in 1..<self.limit {
            let result = try await Tool.run(arguments)
            if result.status != 75 { return result }
        }
        return try await Tool.run(arguments)
    }

    /// Checks the rows of a loop that has ended.
    private static func checkRows(_ server: Server, mayBeUnknown: Bool = false) throws {
        let rows = try Self.rows(server)
        #expect(rows.map(\.line) == Array(1...Self.total))
        let processed = server.simulator.record.pushes.filter(\.isProcessed).map(\.deviceToken)
        let counts = processed.reduce(into: [:]) { $0[$1, default: 0] += 1 }
        #expect(counts.values.allSatisfy { $0 == 1 })
        for row in rows {
            switch row.line {
            case Self.dead:
                #expect(row.reason == "Unregistered" || mayBeUnknown && row.outcome == "unknown", "\(row)")
            case Self.invalid: #expect(row.outcome == "not-sent" && row.advice == "fix-request")
            default:
                #expect(row.outcome == "accepted" || mayBeUnknown && row.outcome == "unknown", "\(row)")
                if row.outcome == "accepted" { #expect(counts[row.token] == 1) }
            }
        }
    }

    @Test(
        "After every kind of weather, with a dead token and SIGTERM at any moment, the loop ends with a row for each line",
        arguments: Weather.all
    )
    func ends(_ weather: Weather) async throws {
        try await Server.with { server in
            server.simulator.setToken(token(Self.dead), .unregistered(sinceMilliseconds: 1_700_000_000_000))
            let arguments =
                try BulkTests.arguments(server, Self.tokens()) + ["--resume", "--in-flight", "10", "--timeout", "120"]
            var random = SeededRandom()
            for _ in 0..<TestScale.size(2, thorough: 8) {
                // A few pushes before the weather, so that it meets a run that is under way.
                let skipped = Int.random(in: 0...30, using: &random)
                server.simulator.inject(Fault(weather.effect, when: FaultTrigger(skip: skipped, times: nil)))
                let running = try Running(arguments)
                let moment = server.simulator.record.requestsReceived + Int.random(in: 1...skipped + 5, using: &random)
                #expect(await eventually { running.isOver || server.simulator.record.requestsReceived >= moment })
                running.signal(SIGTERM)
                let result = await running.end()
                // With 1, the run was over before the signal: no outcome was known.
                #expect(
                    result.status == 75 || weather.isUnknown && result.status == 1,
                    "seed \(random.seed): \(result.error)"
                )
                server.simulator.removeFaults()
            }
            server.simulator.inject(Fault(weather.effect, when: .during(.zero..<Self.weatherTime)))
            let result = try await Self.loop(arguments)
            #expect(result.status == 1, "seed \(random.seed): \(result.error)")
            try Self.checkRows(server, mayBeUnknown: weather.isUnknown)
            // Nothing is left to send.
            let received = server.simulator.record.requestsReceived
            #expect(try await Tool.run(arguments).status == 1)
            #expect(server.simulator.record.requestsReceived == received)
            guard weather.isUnknown, !weather.isProcessed else { return }
            #expect(try await Self.loop(arguments + ["--resend-unknown"]).status == 1)
            try Self.checkRows(server)
        }
    }

    @Test("Device tokens of the other environment do not stop a run that resumes a list with a few of them")
    func badTokens() async throws {
        try await Server.with { server in
            let total = 900
            let bad = stride(from: 1, to: 601, by: 3).map { $0 }
            for number in bad { server.simulator.setToken(token(number), .bad) }
            let arguments =
                try BulkTests.arguments(server, (1...total).map { token($0) }.joined(separator: "\n")) + ["--resume"]
            #expect(try await Tool.run(arguments).status == 1)
            // As after a kill in the second half.
            let rows = try Self.rows(server)
            let lines = server.folder.lines(of: "results.ndjson")
            let kept = zip(lines, try ResultLine.all(lines)).filter { $1.line <= 700 }.map(\.0)
            _ = try server.folder.write(kept.joined(separator: "\n") + "\n", to: "results.ndjson")
            // So few that those which are sent again come first.
            let result = try await Tool.run(arguments + ["--in-flight", "20"])
            #expect(result.status == 1, "\(result.error)")
            #expect(try Self.rows(server).map(\.line) == Array(1...total))
            #expect(try Self.rows(server).map(\.outcome) == rows.map(\.outcome))
        }
    }

    @Test("The summary says how many lines are left, and agrees with the exit status")
    func summary() async throws {
        try await Server.with { server in
            func run(_ more: [String] = []) async throws -> (result: Tool.Result, summary: [String: Any]) {
                let arguments = try BulkTests.arguments(server, Self.tokens()) + ["--resume", "--json"]
                let result = try await Tool.run(
                    arguments + more,
                    environment: ["APNS_RETRY_MAX_ATTEMPTS": "1"]
                )
                let object = try JSONSerialization.jsonObject(with: Data(result.output.utf8))
                return (result, try #require(object as? [String: Any]))
            }
            func fault(_ effect: FaultEffect, _ number: Int) {
                server.simulator.inject(Fault(effect, when: FaultTrigger(times: nil, deviceTokens: [token(number)])))
            }
            server.simulator.setToken(token(Self.dead), .unregistered(sinceMilliseconds: 1_700_000_000_000))
            fault(.respond(.serviceUnavailable), 20)
            fault(.respond(.tooManyRequests), 21)
            fault(.reset(code: 2), 22)
            let first = try await run()
            #expect(first.result.status == 75, "\(first.result.error)")
            #expect(first.summary["exitStatus"] as? Int == 75)
            #expect(first.summary["remaining"] as? Int == 2)
            #expect(first.summary["withoutRow"] as? Int == 0)
            #expect(first.result.lastErrorLine.hasSuffix("unknown 1; remaining 2"), "\(first.result.error)")
            server.simulator.removeFaults()
            let second = try await run()
            #expect(second.result.status == 1, "\(second.result.error)")
            #expect(second.summary["exitStatus"] as? Int == 1)
            #expect(second.summary["remaining"] as? Int == 0 && second.summary["sent"] as? Int == 2)
            #expect(
                second.result.lastErrorLine
                    == "accepted \(Self.total - 3), rejected 1, not-processed 0, not-sent 1, unknown 1"
            )
            let third = try await run(["--resend-unknown"])
            #expect(third.result.status == 1)
            #expect(third.summary["accepted"] as? Int == Self.total - 2 && third.summary["unknown"] as? Int == 0)
        }
    }
}
