import APNSSimulator
import Foundation
import TestSupport
import Testing

/// The tool on a terminal.
@Suite(
    .timeLimit(.minutes(5)),
    .enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/setsid"), "setsid is not installed")
)
struct TerminalTests {
    private static let controlC = "\u{3}"

    private func arguments(_ server: Server, _ count: Int) throws -> [String] {
        let text = (1...count).map { token($0) }.joined(separator: "\n")
        return try BulkTests.arguments(server, text) + ["--in-flight", "20"]
    }

    @Test(arguments: [UInt16(40), 80, 132])
    func theProgressFitsTheTerminal(columns: UInt16) async throws {
        try await Server.with({ $0.responseDelay = .milliseconds(50) }) { server in
            server.simulator.setToken(token(3), .bad)
            let terminal = try PseudoTerminal(try self.arguments(server, 600), columns: columns)
            #expect(try await terminal.end() == 1)
            let frames = terminal.frames
            let progress = frames.filter { $0.contains(" %  ") }
            #expect(progress.count >= 3, "\(terminal.text)")
            // The lines of the summary may be wider.
            let lines = frames.filter { !$0.contains(",") && !$0.hasPrefix("--resume ") }
            #expect(lines.allSatisfy { $0.count < Int(columns) }, "\(frames)")
            #expect(progress.contains { $0.contains("/600") })
            if columns >= 80 {
                #expect(progress.contains { $0.contains("[=") })
                #expect(progress.contains { $0.contains("in flight") })
            }
            // The progress is erased at the end and only the last line remains.
            #expect(frames.last == "accepted 599, rejected 1, not-processed 0, not-sent 0, unknown 0")
            if columns >= 80 { #expect(terminal.text.contains("\u{1B}[32m")) }
        }
    }

    @Test func coloursAndProgressCanBeSwitchedOff() async throws {
        try await Server.with({ $0.responseDelay = .milliseconds(50) }) { server in
            let arguments = try self.arguments(server, 240)
            let plain = try PseudoTerminal(arguments, columns: 80, environment: ["NO_COLOR": "1"])
            #expect(try await plain.end() == 0)
            #expect(plain.frames.contains { $0.contains("[=") })
            #expect(!plain.text.contains("\u{1B}[3"))
            for (more, variables) in [(["--quiet"], [:]), ([], ["TERM": "dumb"])] {
                let quiet = try PseudoTerminal(arguments + more, columns: 80, environment: variables)
                #expect(try await quiet.end() == 0)
                #expect(!quiet.text.contains(" %"))
                #expect(!quiet.text.contains("\u{1B}"))
                #expect(quiet.frames.last?.hasPrefix("accepted 240, ") == true)
            }
        }
    }

    @Test func aRunStoppedByControlCResumes() async throws {
        try await Server.with { server in
            // So slow that the run does not end before it is stopped.
            server.simulator.inject(Fault(.delay(.milliseconds(500)), when: .always))
            let arguments = try self.arguments(server, 1200) + ["--resume"]
            let terminal = try PseudoTerminal(arguments, columns: 80)
            #expect(await eventually { terminal.text.contains(" % ") })
            terminal.type(Self.controlC)
            #expect(try await terminal.end() == 75)
            #expect(terminal.frames.contains("stopping after the pushes in flight; press again to quit"))
            #expect(terminal.frames.last?.hasPrefix("accepted ") == true)
            let done = server.folder.lines(of: "results.ndjson").count
            #expect(done > 0 && done < 1200)
            #expect(done == server.simulator.record.requestsProcessed)
            server.simulator.removeFaults()
            let rest = try PseudoTerminal(arguments, columns: 80)
            #expect(try await rest.end() == 0)
            #expect(rest.frames.contains("Resuming: \(done) lines are done."))
            #expect(server.simulator.record.processedCounts.values.allSatisfy { $0 == 1 })
            #expect(server.folder.lines(of: "results.ndjson").count == 1200)
        }
    }

    @Test func controlCTwiceQuits() async throws {
        try await Server.with { server in
            server.simulator.inject(Fault(.stall(), when: .always))
            let terminal = try PseudoTerminal(
                try self.arguments(server, 5) + ["--timeout", "60"],
                columns: 80
            )
            try await server.simulator.waitUntil(timeout: Patience.limit) { $0.requestsReceived > 0 }
            terminal.type(Self.controlC)
            #expect(await eventually { terminal.text.contains("press again to quit") })
            terminal.type(Self.controlC)
            #expect(try await terminal.end() == 130)
        }
    }

    @Test func standardOutputHasOnlyResultRows() async throws {
        try await Server.with({ $0.responseDelay = .milliseconds(50) }) { server in
            var arguments = try self.arguments(server, 240)
            arguments[6] = "-"
            _ = try server.folder.write("", to: "out")
            let out = try #require(FileHandle(forWritingAtPath: server.folder.path("out")))
            let terminal = try PseudoTerminal(arguments, columns: 80, outputGoesTo: out)
            #expect(try await terminal.end() == 0)
            #expect(try ResultLine.all(server.folder.lines(of: "out")).count == 240)
            #expect(terminal.frames.contains { $0.contains("/240") })
        }
    }
}
