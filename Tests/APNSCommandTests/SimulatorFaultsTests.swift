import APNSSimulator
import Foundation
import TestSupport
import Testing

/// `apns simulator --faults FILE --seed N`
struct SimulatorFaultsTests {
    private func run(_ arguments: String..., faults: String) async throws -> Tool.Result {
        let folder = try Folder()
        let file = try folder.write(faults, to: "faults.json")
        let running = try Running(["simulator", "--port", "0", "--without-token", "--faults", file] + arguments)
        #expect(await eventually { running.output.contains("Press Ctrl-C to stop it.") })
        running.interrupt()
        return await running.end()
    }

    @Test func theSeedIsPrintedWhenNoneIsGiven() async throws {
        let faults = #"[{"when": {"always": true, "probability": 0.1}, "effect": {"kind": "refuse"}}]"#
        let first = try await self.run(faults: faults)
        let second = try await self.run(faults: faults)
        let line = try #require(first.lines.first { $0.contains("--seed ") })
        #expect(first.status == 0 && line.contains(/--seed [0-9]+\./))
        #expect(second.lines.first { $0.contains("--seed ") } != line)
    }

    @Test func theSeedOfTheCommandLineWins() async throws {
        let faults = #"{"seed": 5, "faults": [{"effect": {"kind": "refuse"}}]}"#
        #expect(try await self.run(faults: faults).output.contains("--seed 5."))
        #expect(try await self.run("--seed", "7", faults: faults).output.contains("--seed 7."))
    }

    @Test(arguments: [
        (#"{"faults":[{},{"effect":{"kind":"respond","status":99}}]}"#, "faults[0].effect: a fault needs an effect"),
        (
            #"[{"effect":{"kind":"respond","status":99}}]"#,
            "[0].effect.status = 99: expected a whole number from 200 to 599"
        ), (#"[{"effect":{"kind":"explode"}}]"#, #"[0].effect.kind = "explode": unknown effect"#),
        ("[", "the script: this is not JSON"),
    ])
    func mistakesInTheFileAreReported(faults: String, message: String) async throws {
        let folder = try Folder()
        let file = try folder.write(faults, to: "faults.json")
        let result = try await Tool.run(["simulator", "--port", "0", "--faults", file])
        #expect(result.status == 64)
        #expect(result.error.contains(message), "\(result.error)")
        #expect(result.output.isEmpty)
    }

    @Test(arguments: ["-1", "x", "1.5"]) func invalidSeedsAreRefused(seed: String) async throws {
        let result = try await Tool.run(["simulator", "--port", "0", "--seed=\(seed)"])
        #expect(result.status == 64 && result.error.contains("--seed"))
    }

    @Test func theSummaryCountsFaults() async throws {
        let result = try await self.run(
            faults: """
                [{"when": {"on": "time", "always": true, "periodMilliseconds": 1},
                  "effect": {"kind": "clock", "offsetSeconds": 5}}]
                """
        )
        #expect(result.status == 0)
        #expect(result.lines.suffix(2).first?.hasPrefix("faults: clock ") == true, "\(result.output)")
        #expect(result.lines.last?.hasPrefix("0 pushes received, 0 of them accepted") == true)
    }
}
