import APNSModel
import APNSSimulator
import Foundation
import TestSupport
import Testing

/// `apns bulk` from its command line.
struct BulkTests {
    static let payload = #"{"aps":{"alert":"Hello"}}"#
    private static let keys = [
        "token", "outcome", "status", "reason", "apnsID", "attempts", "tokenInvalidSince", "advice",
        "retryAfterSeconds", "line", "apnsUniqueID",
    ]

    /// The options of a run over these lines; results go to `results.ndjson`.
    static func arguments(_ server: Server, _ lines: String) throws -> [String] {
        [
            "bulk", "--tokens", try server.folder.write(lines, to: "tokens.txt"),
            "--payload", try server.folder.write(self.payload, to: "payload.json"),
            "--results", server.folder.path("results.ndjson"),
        ] + server.options
    }

    @Test func aThousandTokensMakeAThousandRows() async throws {
        try await Server.with { server in
            server.simulator.setToken(token(5), .unregistered(sinceMilliseconds: 1_700_000_000_000))
            server.simulator.setToken(token(6), .bad)
            server.simulator.inject(Fault(.respond(.serviceUnavailable), when: FaultTrigger(skip: 200, times: 10)))
            var lines = (1...1000).map { token($0) }
            lines.insert("", at: 3)
            lines.append("no token\r")
            let text = lines.joined(separator: "\n")
            let result = try await Tool.run(try Self.arguments(server, text) + ["--pool-size", "2"])
            #expect(result.status == 1, "\(result.error)")
            #expect(
                result.lastErrorLine == "accepted 998, rejected 2, not-processed 0, not-sent 1, unknown 0"
            )
            #expect(result.error.contains("  410 Unregistered × 1\n"))
            let written = server.folder.lines(of: "results.ndjson")
            for line in written {
                let names = line.dropFirst().dropLast().split(separator: ",\"").map {
                    $0.split(separator: ":").first.map { $0.filter { $0 != "\"" } } ?? ""
                }
                #expect(names == Self.keys)
                #expect(!line.replacing("no token", with: "").contains(" "))
            }
            let rows = try ResultLine.all(written).sorted { $0.line < $1.line }
            #expect(rows.count == 1001)
            for row in rows where row.line != 1002 { #expect(row.token == lines[row.line - 1]) }
            #expect(rows.map(\.line) == [1, 2, 3] + Array(5...1002))
            let dead = try #require(rows.first { $0.token == token(5) })
            #expect(dead.status == 410 && dead.reason == "Unregistered" && dead.advice == "remove-token")
            #expect(dead.tokenInvalidSince == 1_700_000_000_000)
            let bad = try #require(rows.first { $0.token == token(6) })
            #expect(bad.status == 400 && bad.reason == "BadDeviceToken" && bad.advice == "check-environment")
            let none = try #require(rows.last)
            #expect(
                none.token == "no token" && none.outcome == "not-sent" && none.status == nil
                    && none.reason == "deviceTokenNotHexadecimal" && none.advice == "fix-request"
            )
            let accepted = rows.filter { $0.outcome == "accepted" }
            #expect(accepted.allSatisfy { $0.status == 200 && $0.reason == nil && $0.advice == "none" })
            #expect(Set(accepted.compactMap(\.apnsID)).count == 998)
            #expect(accepted.allSatisfy { $0.apnsID == $0.apnsID?.lowercased() })
            #expect((1...10).contains(accepted.count { $0.attempts > 1 }))
            #expect(server.simulator.record.processedCounts.values.allSatisfy { $0 == 1 })
        }
    }

    @Test func theFirstInterruptFinishesThePushesInFlight() async throws {
        try await Server.with({ $0.responseDelay = .milliseconds(50) }) { server in
            let total = 100_000
            let text = (1...total).map { token($0) }.joined(separator: "\n")
            let running = try Running(try Self.arguments(server, text) + ["--in-flight", "20"])
            #expect(await eventually { server.folder.lines(of: "results.ndjson").count > 20 })
            running.interrupt()
            let result = await running.end()
            #expect(result.status == 75, "\(result.error)")
            let rows = try ResultLine.all(server.folder.lines(of: "results.ndjson"))
            #expect(rows.count < total)
            #expect(rows.allSatisfy { $0.outcome == "accepted" })
            #expect(rows.count == server.simulator.record.requestsProcessed)
            #expect(rows.map(\.line).sorted() == Array(1...rows.count))
            #expect(result.lastErrorLine.hasPrefix("accepted \(rows.count), "))
        }
    }

    @Test func theSecondInterruptQuits() async throws {
        try await Server.with { server in
            server.simulator.inject(Fault(.stall(), when: .always))
            // The deadline is longer than this test may take.
            let running = try Running(try Self.arguments(server, token(1)) + ["--timeout", "3600"])
            try await server.simulator.waitUntil(timeout: Patience.limit) { $0.requestsReceived > 0 }
            running.interrupt()
            #expect(await eventually { running.error.contains("press again to quit") })
            running.interrupt()
            let result = await running.end()
            #expect(result.status == 130)
        }
    }

    @Test func resultsAreWrittenBeforeTheInputEnds() async throws {
        try await Server.with { server in
            var arguments = try Self.arguments(server, "")
            arguments[2] = "-"
            let running = try Running(arguments)
            running.write("\(token(1))\n\(token(2))\n")
            #expect(await eventually { server.folder.lines(of: "results.ndjson").count == 2 })
            running.write("\(token(3))\n")
            #expect(await eventually { server.folder.lines(of: "results.ndjson").count == 3 })
            running.closeInput()
            let result = await running.end()
            #expect(result.status == 0)
            #expect(result.lastErrorLine.hasPrefix("accepted 3, "))
        }
    }

    @Test func anInterruptEndsTheWaitForInput() async throws {
        try await Server.with { server in
            var arguments = try Self.arguments(server, "")
            arguments[2] = "-"
            let running = try Running(arguments)
            running.write("\(token(1))\n")
            #expect(await eventually { server.folder.lines(of: "results.ndjson").count == 1 })
            running.interrupt()
            let result = await running.end()
            #expect(result.status == 75)
        }
    }

    @Test func aConfigurationErrorStopsTheRun() async throws {
        try await Server.with { server in
            let text = (1...50_000).map { token($0) }.joined(separator: "\n")
            var arguments = try Self.arguments(server, text)
            let index = try #require(arguments.firstIndex(of: "--ca-file"))
            arguments.removeSubrange(index...index + 1)
            // The deadline is longer than this test may take.
            let result = try await Tool.run(arguments + ["--timeout", "3600"])
            #expect(result.status == 78)
            #expect(result.error.contains("not trusted"))
            #expect(server.folder.lines(of: "results.ndjson").count < 50_000)
        }
    }

    @Test func unwritableResultsExitWith74() async throws {
        guard FileManager.default.fileExists(atPath: "/dev/full") else { return }
        try await Server.with { server in
            let text = (1...50_000).map { token($0) }.joined(separator: "\n")
            var arguments = try Self.arguments(server, text)
            arguments[6] = "/dev/full"
            let result = try await Tool.run(arguments)
            #expect(result.status == 74)
            #expect(result.error.hasPrefix("apns: --results: "), "\(result.error)")
            #expect(result.lastErrorLine.hasPrefix("accepted "))
            #expect(server.simulator.record.requestsReceived < 50_000)
        }
    }

    @Test func missingFilesExitWith64() async throws {
        try await Server.with { server in
            for (option, index) in [("--tokens", 2), ("--payload", 4), ("--results", 6)] {
                var arguments = try Self.arguments(server, token(1))
                arguments[index] = "/nowhere/at/all"
                let result = try await Tool.run(arguments)
                #expect(result.status == 64)
                #expect(result.error.contains("\(option):"), "\(result.error)")
            }
            var arguments = try Self.arguments(server, token(1))
            arguments[4] = try server.folder.write("[1,2]", to: "array.json")
            #expect(try await Tool.run(arguments).status == 64)
        }
    }
}
