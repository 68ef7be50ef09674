import APNSModel
import APNSSimulator
import Foundation
import TestSupport
import Testing

/// `apns bulk --resume`, after runs that ended in every possible way.
struct BulkResumeTests {
    private static func rows(_ server: Server) throws -> [ResultLine] {
        try ResultLine.all(server.folder.lines(of: "results.ndjson")).sorted { $0.line < $1.line }
    }

    private static func tokens(_ count: Int) -> String { (1...count).map { token($0) }.joined(separator: "\n") }

    /// The arguments without the trust roots: the tool distrusts the server's certificate and sends nothing.
    private static func distrusting(_ arguments: [String]) throws -> [String] {
        var arguments = arguments
        let index = try #require(arguments.firstIndex(of: "--ca-file"))
        arguments.removeSubrange(index...index + 1)
        return arguments
    }

    /// The ids that the server received for each token. A resent push keeps its id.
    private static func idsByToken(_ server: Server) -> [String: Set<APNSID>] {
        server.simulator.record.pushes.reduce(into: [:]) { ids, push in
            if let id = push.apnsID { ids[push.deviceToken, default: []].insert(id) }
        }
    }

    @Test(arguments: TestScale.isThorough ? [1, 2] : [1] as [UInt64])
    func aKilledRunLosesNothingAndRepeatsOnlyPushesInFlight(seed: UInt64) async throws {
        try await Server.with({ $0.responseDelay = .milliseconds(30) }) { server in
            var random = SeededRandom(seed: seed)
            let total = TestScale.size(4000, thorough: 6000)
            let inFlight = 40
            let kills = TestScale.size(3, thorough: 6)
            let arguments =
                try BulkTests.arguments(server, Self.tokens(total)) + [
                    "--resume", "--in-flight", "\(inFlight)", "--pool-size", "2",
                ]
            var inDoubt = 0
            for _ in 0..<kills {
                let running = try Running(arguments)
                let before = server.simulator.record.requestsReceived
                // Some runs are killed before the first response, others after a few hundred pushes.
                let moment = before + Int.random(in: 0...350, using: &random)
                #expect(await eventually { server.simulator.record.requestsReceived >= moment })
                running.signal(SIGKILL)
                #expect(await running.end().status == SIGKILL)
                // The server still reads the bytes in the sockets of the killed process.
                #expect(await eventually { server.simulator.openConnections == 0 })
                let written = Set(try ResultLine.all(server.folder.completeLines(of: "results.ndjson")).map(\.token))
                let received = Set(server.simulator.record.pushes.map(\.deviceToken))
                let unwritten = received.subtracting(written).count
                #expect(unwritten <= inFlight, "\(unwritten) pushes without a row")
                inDoubt += unwritten
            }
            let result = try await Tool.run(arguments)
            #expect(result.status == 0, "\(result.error)")
            #expect(result.lastErrorLine.hasPrefix("accepted \(total), "))
            let rows = try Self.rows(server)
            #expect(rows.map(\.line) == Array(1...total))
            #expect(rows.map(\.token) == (1...total).map { token($0) })
            #expect(rows.allSatisfy { $0.outcome == "accepted" })
            let counts = server.simulator.record.processedCounts
            #expect(counts.count == total)
            #expect(counts.values.reduce(0) { $0 + $1 - 1 } <= inDoubt)
            #expect(inDoubt <= kills * inFlight)
            let ids = Self.idsByToken(server)
            #expect(ids.count == total && ids.values.allSatisfy { $0.count == 1 })
            #expect(rows.allSatisfy { row in ids[row.token]?.first?.description == row.apnsID })
        }
    }

    /// A kill leaves these pushes in doubt.
    @Test("At every moment, at most --in-flight pushes that the server has received have no row")
    func window() async throws {
        // No multiple of the rows that are written at once, so that some wait for the next write.
        for inFlight in [1, 39] {
            try await Server.with({ $0.responseDelay = .milliseconds(inFlight == 1 ? 0 : 30) }) { server in
                let total = inFlight == 1 ? 200 : 2000
                let arguments = try BulkTests.arguments(server, Self.tokens(total))
                let running = try Running(arguments + ["--in-flight", "\(inFlight)"])
                var most = 0
                var received = 0
                while received < total, !running.isOver {
                    received = server.simulator.record.requestsReceived
                    most = max(most, received - server.folder.completeLines(of: "results.ndjson").count)
                    await TestScale.letOthersRun()
                }
                #expect(await running.end().status == 0)
                #expect(most <= inFlight, "\(most) pushes without a row")
                #expect(most >= inFlight / 2)
            }
        }
    }

    @Test func anInterruptedRunResumesWithoutDuplicates() async throws {
        try await Server.with { server in
            let total = 3000
            let arguments = try BulkTests.arguments(server, Self.tokens(total)) + ["--in-flight", "50", "--resume"]
            // So slow that no run ends before its interrupt.
            server.simulator.inject(Fault(.delay(.milliseconds(300)), when: .always))
            var interrupts = 0
            while interrupts < 3 {
                let running = try Running(arguments)
                let moment = server.simulator.record.requestsReceived + 100
                #expect(await eventually { server.simulator.record.requestsReceived >= moment })
                // Service managers send SIGTERM.
                running.signal(interrupts == 1 ? SIGTERM : SIGINT)
                let result = await running.end()
                #expect(result.status == 75, "\(result.error)")
                #expect(result.error.contains("press again to quit"))
                interrupts += 1
            }
            server.simulator.removeFaults()
            let result = try await Tool.run(arguments + ["--json"])
            #expect(result.status == 0, "\(result.error)")
            #expect(result.error.contains("Resuming: "))
            let rows = try Self.rows(server)
            #expect(rows.map(\.line) == Array(1...total))
            #expect(server.simulator.record.processedCounts.values.allSatisfy { $0 == 1 })
            #expect(server.simulator.record.processedCounts.count == total)
            let summary = try #require(
                try JSONSerialization.jsonObject(with: Data(result.output.utf8)) as? [String: Any]
            )
            #expect(summary["accepted"] as? Int == total)
            #expect(summary["isComplete"] as? Bool == true)
            let sent = try #require(summary["sent"] as? Int)
            #expect(summary["earlier"] as? Int == total - sent)
            // The run is complete: nothing more is sent.
            let received = server.simulator.record.requestsReceived
            #expect(try await Tool.run(arguments).status == 0)
            #expect(server.simulator.record.requestsReceived == received)
        }
    }

    @Test func anUnsentPushIsSentAndItsRowIsReplaced() async throws {
        try await Server.with { server in
            server.simulator.setToken(token(4), .unregistered(sinceMilliseconds: 1_700_000_000_000))
            let arguments = try BulkTests.arguments(server, Self.tokens(20)) + ["--resume"]
            let first = try await Tool.run(try Self.distrusting(arguments))
            #expect(first.status == 78, "\(first.error)")
            let before = try Self.rows(server)
            #expect(!before.isEmpty && before.allSatisfy { $0.outcome == "not-sent" })
            let second = try await Tool.run(arguments)
            #expect(second.status == 1, "\(second.error)")
            #expect(second.lastErrorLine == "accepted 19, rejected 1, not-processed 0, not-sent 0, unknown 0")
            let rows = try Self.rows(server)
            #expect(rows.map(\.line) == Array(1...20))
            #expect(rows.count { $0.outcome == "accepted" } == 19)
            #expect(rows[3].outcome == "rejected" && rows[3].reason == "Unregistered")
            // The rejection of a dead device token is final.
            let third = try await Tool.run(arguments)
            #expect(third.status == 1)
            #expect(third.lastErrorLine == second.lastErrorLine)
            #expect(server.simulator.record.requestsReceived == 20)
        }
    }

    @Test func unknownPushesAreResentOnlyOnRequest() async throws {
        try await Server.with { server in
            server.simulator.inject(
                Fault(.reset(code: 2, isProcessed: true), when: FaultTrigger(times: 1, deviceTokens: [token(3)]))
            )
            let arguments = try BulkTests.arguments(server, Self.tokens(5)) + ["--resume"]
            let first = try await Tool.run(arguments)
            // Nothing is left to send without consent.
            #expect(first.status == 1, "\(first.error)")
            #expect(first.lastErrorLine == "accepted 4, rejected 0, not-processed 0, not-sent 0, unknown 1")
            #expect(first.error.contains("Only --resend-unknown resends 1 line with an unknown outcome.\n"))
            let second = try await Tool.run(arguments)
            #expect(second.status == 1)
            #expect(second.lastErrorLine == first.lastErrorLine)
            #expect(server.simulator.record.requestsReceived == 5)
            // An earlier attempt may have arrived even if the resend was not sent.
            let third = try await Tool.run(try Self.distrusting(arguments) + ["--resend-unknown"])
            #expect(third.status == 78, "\(third.error)")
            #expect(try Self.rows(server).map(\.outcome).filter { $0 == "unknown" }.count == 1)
            #expect(third.lastErrorLine == first.lastErrorLine + "; remaining 1")
            let fourth = try await Tool.run(arguments + ["--resend-unknown"])
            #expect(fourth.status == 0, "\(fourth.error)")
            let rows = try Self.rows(server)
            #expect(rows.map(\.line) == [1, 2, 3, 4, 5])
            #expect(rows.allSatisfy { $0.outcome == "accepted" })
            let ids = Self.idsByToken(server)
            #expect(ids[token(3)]?.count == 1)
            #expect(server.simulator.record.pushes.count { $0.deviceToken == token(3) } == 2)
        }
    }

    @Test func anIncompleteLastLineIsRemoved() async throws {
        try await Server.with { server in
            let arguments = try BulkTests.arguments(server, Self.tokens(30)) + ["--resume"]
            #expect(try await Tool.run(arguments).status == 0)
            let path = server.folder.path("results.ndjson")
            let whole = try Data(contentsOf: URL(fileURLWithPath: path))
            for cut in [1, 2, 40, 150] {
                try whole.dropLast(cut).write(to: URL(fileURLWithPath: path))
                let received = server.simulator.record.requestsReceived
                let result = try await Tool.run(arguments)
                #expect(result.status == 0, "\(result.error)")
                #expect(result.error.contains("incomplete"))
                let rows = try Self.rows(server)
                #expect(rows.map(\.line) == Array(1...30))
                #expect(server.simulator.record.requestsReceived == received + 1)
            }
            #expect(Self.idsByToken(server).values.allSatisfy { $0.count == 1 })
        }
    }

    @Test func changedInputsAreRefused() async throws {
        try await Server.with { server in
            let arguments = try BulkTests.arguments(server, Self.tokens(10))
            #expect(try await Tool.run(arguments).status == 0)
            let results = server.folder.lines(of: "results.ndjson")
            func refusal(_ arguments: [String], _ words: String) async throws {
                let result = try await Tool.run(arguments + ["--resume"])
                #expect(result.status == 64)
                #expect(result.error.contains(words), "\(result.error)")
                #expect(server.folder.lines(of: "results.ndjson") == results)
            }
            // The same number of lines, one of them changed.
            _ = try server.folder.write(Self.tokens(9) + "\n" + token(77), to: "tokens.txt")
            try await refusal(arguments, "--tokens: the file differs")
            _ = try server.folder.write(Self.tokens(10), to: "tokens.txt")
            _ = try server.folder.write(#"{"aps":{"alert":"Other"}}"#, to: "payload.json")
            try await refusal(arguments, "--payload: ")
            _ = try server.folder.write(BulkTests.payload, to: "payload.json")
            var other = arguments
            let topic = try #require(other.firstIndex(of: "--topic"))
            other[topic + 1] = "com.example.other"
            try await refusal(other, "--topic: ")
            try await refusal(arguments + ["--push-type", "location"], "--push-type: ")
            #expect(try await Tool.run(arguments + ["--resume"]).status == 0)
            _ = try server.folder.write(results.joined(separator: "\n") + "\nnonsense\n", to: "results.ndjson")
            let nonsense = try await Tool.run(arguments + ["--resume"])
            #expect(nonsense.status == 64)
            #expect(nonsense.error.contains("line 11 is not a row"), "\(nonsense.error)")
            _ = try server.folder.write(results.joined(separator: "\n") + "\n", to: "results.ndjson")
            try FileManager.default.removeItem(atPath: server.folder.path("results.ndjson.run"))
            try await refusal(arguments, "results.ndjson.run' is missing")
            #expect(server.simulator.record.requestsReceived == 10)
        }
    }

    @Test func tokensFromAPipeAreComparedWithTheRows() async throws {
        try await Server.with { server in
            var arguments = try BulkTests.arguments(server, "")
            arguments[2] = "-"
            arguments.append("--resume")
            #expect(try await Tool.run(arguments, input: Self.tokens(5)).status == 0)
            let more = try await Tool.run(arguments, input: Self.tokens(8))
            #expect(more.status == 0, "\(more.error)")
            #expect(try Self.rows(server).map(\.line) == Array(1...8))
            #expect(server.simulator.record.requestsReceived == 8)
            let other = try await Tool.run(arguments, input: token(1) + "\n" + token(9))
            #expect(other.status == 64)
            #expect(other.error.contains("line 2 of standard input"), "\(other.error)")
            #expect(server.simulator.record.requestsReceived == 8)
        }
    }

    @Test func twoRunsCannotShareAResultsFile() async throws {
        try await Server.with { server in
            server.simulator.inject(Fault(.stall(), when: .always))
            let arguments = try BulkTests.arguments(server, token(1)) + ["--timeout", "60"]
            let running = try Running(arguments)
            try await server.simulator.waitUntil(timeout: Patience.limit) { $0.requestsReceived > 0 }
            for more in [[], ["--resume"]] {
                let second = try await Tool.run(arguments + more)
                #expect(second.status == 64)
                #expect(second.error.contains("another `apns bulk`"), "\(second.error)")
            }
            running.signal(SIGKILL)
            _ = await running.end()
        }
    }

    @Test func aNewRunHasNewIDs() async throws {
        try await Server.with { server in
            let arguments = try BulkTests.arguments(server, Self.tokens(10))
            for _ in 0..<2 { #expect(try await Tool.run(arguments).status == 0) }
            #expect(Self.idsByToken(server).values.allSatisfy { $0.count == 2 })
            #expect(try Self.rows(server).count == 10)
        }
    }

    @Test func aDryRunSendsNothing() async throws {
        try await Server.with { server in
            let arguments = try BulkTests.arguments(server, Self.tokens(10) + "\nno token\n")
            let dry = try await Tool.run(arguments + ["--dry-run"])
            #expect(dry.status == 1, "\(dry.error)")
            #expect(dry.output.contains("10 pushes to localhost:\(server.simulator.port)"), "\(dry.output)")
            #expect(dry.output.contains("line 11, 'no token'"))
            #expect(!FileManager.default.fileExists(atPath: server.folder.path("results.ndjson")))
            #expect(try await Tool.run(arguments).status == 1)
            let files = try FileManager.default.contentsOfDirectory(atPath: server.folder.url.path).sorted()
            let rest = try await Tool.run(arguments + ["--dry-run", "--resume", "--json"])
            let summary = try #require(
                try JSONSerialization.jsonObject(with: Data(rest.output.utf8)) as? [String: Any]
            )
            // The line without a device token is done, too.
            #expect(summary["done"] as? Int == 11 && summary["toSend"] as? Int == 0)
            #expect(try FileManager.default.contentsOfDirectory(atPath: server.folder.url.path).sorted() == files)
            #expect(server.simulator.record.requestsReceived == 10)
            for (more, words) in [
                (["--priority", "11"], "--priority"), (["--collapse-id", String(repeating: "x", count: 65)], "cannot"),
                (["--rate", "0"], "--rate"), (["--resend-unknown"], "--resume"),
            ] {
                let wrong = try await Tool.run(arguments + ["--dry-run"] + more)
                #expect(wrong.status == 64)
                #expect(wrong.error.contains(words), "\(wrong.error)")
            }
        }
    }

    @Test func theRateLimitIsKept() async throws {
        try await Server.with { server in
            let arguments = try BulkTests.arguments(server, Self.tokens(60)) + ["--rate", "100"]
            #expect(try await Tool.run(arguments).status == 0)
            let times = server.simulator.record.pushes.map(\.time).sorted()
            let first = try #require(times.first)
            let last = try #require(times.last)
            #expect(times.count == 60)
            // 59 intervals of 10 ms, less the time by which a slow server may delay the first push.
            #expect(first.duration(to: last) > .milliseconds(400))
        }
    }
}
