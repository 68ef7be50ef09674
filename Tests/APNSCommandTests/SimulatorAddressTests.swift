import APNSModel
import APNSPool
import APNSSimulator
import Foundation
import TestSupport
import Testing

@testable import APNSCommand

/// `apns simulator --listen ADDRESS --name HOST --ledger FILE`
struct SimulatorAddressTests {
    private struct Row: Decodable {
        var apnsID: APNSID
        var deviceToken: String
        var fate: String
        var isProcessed: Bool
        var reason: String?
        var status: Int
    }

    @Test("The simulator listens on the given address with a certificate for it, and writes each push to its ledger")
    func addressAndLedger() async throws {
        let folder = try Folder()
        let place = folder.url.appendingPathComponent("sim")
        // Linux has all addresses that begin with 127, other systems only one.
        #if os(Linux)
            let address = "127.0.0.9"
        #else
            let address = "127.0.0.1"
        #endif
        let fault = #"[{"when": {"skip": 1}, "effect": {"kind": "respond", "reason": "TopicDisallowed"}}]"#
        let running = try Running([
            "simulator", "--port", "0", "--listen", address, "--name", "*.push.test", "--name", address,
            "--ledger", folder.path("ledger"), "--faults", try folder.write(fault, to: "faults.json"),
            "--write-credentials", place.path,
        ])
        #expect(await eventually { running.output.contains("Press Ctrl-C to stop it.") })
        #expect(running.output.contains("A simulator of APNs at https://\(address):"))
        let settings = try String(contentsOf: place.appendingPathComponent("apns.env"), encoding: .utf8)
            .split(separator: "\n").map { $0.split(separator: "=", maxSplits: 1).map(String.init) }
        let variables = Dictionary(uniqueKeysWithValues: settings.map { ($0[0], $0[1]) })
        let sent = try await Tool.run(["send", "--title", "Hey", token(1), "--json"], environment: variables)
        #expect(sent.status == 0, "\(sent.output)\(sent.error)")
        let refused = try await Tool.run(["send", "--title", "Hey", token(2)], environment: variables)
        #expect(refused.status != 0)
        running.signal(SIGTERM)
        #expect(await running.end().status == 0)
        let rows = try folder.lines(of: "ledger").map { try JSONDecoder().decode(Row.self, from: Data($0.utf8)) }
        #expect(rows.map(\.deviceToken) == [token(1), token(2)])
        #expect(rows.map(\.isProcessed) == [true, false])
        #expect(rows.map(\.status) == [200, 400])
        #expect(rows.map(\.reason) == [nil, "TopicDisallowed"])
        #expect(rows.allSatisfy { $0.fate == "responded" })
        #expect(rows.first.map { sent.output.contains($0.apnsID.description.lowercased()) } == true)
    }

    @Test("A client that cannot get in is printed with the cause and the remedy, and counted at the end")
    func failedConnections() async throws {
        let folder = try Folder()
        let place = folder.url.appendingPathComponent("sim")
        let running = try Running(["simulator", "--port", "0", "--write-credentials", place.path])
        #expect(await eventually { running.output.contains("Press Ctrl-C to stop it.") })
        let settings = try String(contentsOf: place.appendingPathComponent("apns.env"), encoding: .utf8)
            .split(separator: "\n").map { $0.split(separator: "=", maxSplits: 1).map(String.init) }
        var variables = Dictionary(uniqueKeysWithValues: settings.map { ($0[0], $0[1]) })
        let file = try #require(variables["APNS_CA_FILE"])
        variables["APNS_CA_FILE"] = nil
        let sent = try await Tool.run(["send", "--title", "Hey", token(1)], environment: variables)
        #expect(sent.status != 0)
        running.signal(SIGTERM)
        let end = await running.end()
        // The client opens several connections at once, and any of them may fail first.
        #expect(end.error.contains(" failed: The client does not trust the simulator's certificate"), "\(end.error)")
        #expect(end.error.contains("Let the client trust \(file)."), "\(end.error)")
        #expect(end.output.contains("0 pushes received") && end.output.contains(" failed)"), "\(end.output)")
    }

    @Test("Of a flood of failed connections, few are printed")
    func printedFailures() {
        #expect((1...100_000).filter(SimulatorCommand.isPrinted) == [1, 10, 100, 1000, 10_000, 100_000])
    }

    @Test("An earlier ledger stays until there is another one") func earlierLedger() async throws {
        let folder = try Folder()
        let earlier = #"{"fate":"responded","isProcessed":true}"#
        let path = try folder.write(earlier + "\n", to: "ledger")
        var file: LedgerFile? = try LedgerFile(path: path)
        #expect(folder.lines(of: "ledger") == [earlier])
        file = nil
        #expect(folder.lines(of: "ledger") == [earlier])
        #expect(!FileManager.default.fileExists(atPath: path + ".new"))
        file = try LedgerFile(path: path)
        let simulator = try await Simulator.start()
        try file?.write(simulator)
        await simulator.stop()
        #expect(folder.lines(of: "ledger").isEmpty)
        #expect(!FileManager.default.fileExists(atPath: path + ".new"))
    }

    @Test(arguments: [
        ["--listen", "localhost"], ["--listen", ""], ["--name", ""], ["--name", "a,DNS:b"], ["--name", "a..b"],
        ["--name", "push.*"], ["--ledger", "/nowhere/ledger"],
    ])
    func invalidValuesAreRefused(options: [String]) async throws {
        let result = try await Tool.run(["simulator", "--port", "0"] + options)
        #expect(result.status == 64 && result.error.contains(options[0]), "\(result.error)")
        #expect(result.output.isEmpty)
    }
}
