import APNSSimulator
import Foundation
import TestSupport
import Testing

/// The commands that need no server of their own.
struct OtherCommandsTests {
    @Test(arguments: [100, 2000])
    func theDemoLosesNothing(pushes: Int) async throws {
        let result = try await Tool.run(["demo", "--pushes", "\(pushes)"])
        #expect(result.status == 0, "\(result.output)\(result.error)")
        #expect(result.lines.last == "\(pushes) accepted")
        func value(_ name: String) -> String? {
            result.lines.first { $0.contains("  \(name)  ") }?.split(separator: " ").last.map(String.init)
        }
        #expect(value("responses 503") == "\(pushes / 50)")
        #expect(value("GOAWAYs") == "1")
        #expect(value("connections dropped") == "1")
        #expect(value("processed twice by the simulator") == "0")
        #expect(value("restarts by supervisors") == "0")
        // Without a terminal, no progress is shown.
        #expect(result.error.isEmpty, "\(result.error)")
    }

    @Test func theDemoRefusesInvalidOptions() async throws {
        for value in ["0", "-5", "many"] {
            let result = try await Tool.run(["demo", "--pushes", value])
            #expect(result.status == 64)
            #expect(result.error.contains("--pushes"))
        }
    }

    @Test(
        "The message about an unknown command names it, the nearest command and all commands",
        arguments: [
            (["sendd", "--title", "Hey"], "'sendd' is not a command. Did you mean 'send'?"),
            (["Bulk"], "'Bulk' is not a command. Did you mean 'bulk'?"),
            (["frobnicate"], "'frobnicate' is not a command. Commands: send, "),
            (
                ["channels", "lists"],
                "'lists' is not a command. Did you mean 'list'? Commands: list, create, show, delete."
            ),
        ]
    )
    func unknownCommand(arguments: [String], message: String) async throws {
        let result = try await Tool.run(arguments)
        #expect(result.status == 64)
        #expect(result.error.hasPrefix("Error: \(message)"), "\(result.error)")
    }

    @Test func helpIsACommand() async throws { #expect(try await Tool.run(["help"]).status == 0) }

    @Test func theSimulatorPrintsHowToSendAndStopsOnInterrupt() async throws {
        let folder = try Folder()
        let faults = try folder.write(
            #"{"faults":[{"when":{"skip":1},"effect":{"kind":"respond","reason":"Unregistered"}},"#
                + #"{"when":{"skip":500},"effect":{"kind":"goaway"}}]}"#,
            to: "faults.json"
        )
        let running = try Running(
            ["simulator", "--port", "0", "--write-credentials", folder.path("sim"), "--faults", faults]
        )
        #expect(await eventually { running.output.contains("Ctrl-C") })
        #expect(running.output.contains("apns send "))
        var variables: [String: String] = [:]
        for line in folder.lines(of: "sim/apns.env") {
            let parts = line.split(separator: "=", maxSplits: 1).map(String.init)
            variables[parts[0]] = parts.count > 1 ? parts[1] : ""
        }
        let first = try await Tool.run(["send", "--title", "Hey", token(1)], environment: variables)
        #expect(first.status == 0, "\(first.output)\(first.error)")
        let second = try await Tool.run(["send", "--title", "Hey", token(1)], environment: variables)
        #expect(second.status == 1, "\(second.output)\(second.error)")
        let jwt = try await Tool.run(["provider-token"], environment: variables)
        #expect(jwt.status == 0)
        #expect(jwt.lines.count == 1 && jwt.output.split(separator: ".").count == 3)
        running.interrupt()
        let result = await running.end()
        #expect(result.status == 0)
        #expect(
            Array(result.lines.suffix(2)) == [
                "faults: respond 1", "2 pushes received, 1 of them accepted, 2 connections, 1 provider tokens",
            ]
        )
    }

    @Test func theSimulatorRefusesInvalidInput() async throws {
        let folder = try Folder()
        let faults = try folder.write(#"[{"effect":"surprise"}]"#, to: "faults.json")
        let script = try await Tool.run(["simulator", "--port", "0", "--faults", faults])
        #expect(script.status == 64)
        #expect(script.error.contains("--faults"))
        let port = try await Tool.run(["simulator", "--port", "70000"])
        #expect(port.status == 64)
        #expect(port.error.contains("--port"))
    }

    @Test func aProviderTokenNeedsAKey() async throws {
        let none = try await Tool.run(["provider-token"])
        #expect(none.status == 64)
        #expect(none.error.contains("--key"))
        let folder = try Folder()
        let key = try folder.write("no key", to: "AuthKey_9UC9ZLQ8YW.p8")
        let wrong = try await Tool.run(["provider-token", "--key", key, "--team-id", "ABBM6U9RM5"])
        #expect(wrong.status == 78)
        #expect(wrong.error.hasPrefix("apns: --key: "))
        #expect(wrong.output.isEmpty)
    }
}
