import Foundation
import TestSupport
import Testing

@testable import APNSSimulator

/// `Docs/Simulator.md` agrees with the simulator.
struct DocumentationTests {
    private static let page: String = {
        let file = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: "Docs/Simulator.md")
        return (try? String(contentsOf: file, encoding: .utf8)) ?? ""
    }()

    private static let examples = page.split(separator: "```json\n", omittingEmptySubsequences: false).dropFirst()
        .compactMap { $0.components(separatedBy: "\n```").first }

    @Test func examplesAreFound() {
        #expect(Self.examples.count >= 20)
    }

    @Test(arguments: examples) func examplesAreValidScripts(example: String) throws {
        let script = try FaultScript(json: example.utf8)
        #expect(!script.faults.isEmpty)
        // An encoded script has the same meaning.
        let data = try JSONEncoder().encode(script)
        #expect(try FaultScript(json: data) == script)
    }

    @Test func everyEffectHasAnExample() throws {
        let scripts = try Self.examples.map { try FaultScript(json: $0.utf8) }
        let shown = Set(scripts.flatMap { $0.faults.map(\.effect.name) })
        let all = Set(FaultEffect.kinds.map(\.name))
        #expect(shown == all)
    }

    @Test func everyEventIsNamed() {
        for event in FaultTrigger.Event.allCases { #expect(Self.page.contains("`\(event.rawValue)`")) }
    }

    // MARK: The catalog

    @Test func theSimulatorsOfTheCatalogRun() async throws {
        let simulator = try await startSimulator()
        #expect(simulator.record.requestsReceived == 0)
        await simulator.stop()
        let faulty = try await startFaultySimulator()
        #expect(faulty.seed == 42)
        await faulty.stop()
    }
}
