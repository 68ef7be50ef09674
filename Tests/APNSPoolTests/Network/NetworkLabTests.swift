import Foundation
import Testing

/// Clients on bad networks, in network namespaces that `ci/steps/network-lab` creates. Elsewhere, the test is skipped.
@Suite(.enabled(if: Lab.router != nil, "ci/steps/network-lab runs it"))
struct NetworkLabTests {
    @Test("On each bad network, the server's ledger confirms each outcome, and pushes are accepted again in time")
    func networks() async throws {
        let names = try await LabNameServer.start()
        let server = try await LabServer.start()
        // All networks at once, because they mostly wait.
        let runs = try LabCase.all.enumerated()
            .filter { $0.element.isInShort || !Lab.isShort }
            .filter { $0.element.name.contains(Lab.only) || Lab.only.isEmpty }
            .map { index, labCase in
                (labCase, try LabRun(labCase, number: index + 1, names: names, server: server))
            }
        #expect(!runs.isEmpty, "no network has '\(Lab.only)' in its name")
        await withTaskGroup(of: Void.self) { group in
            for (labCase, run) in runs {
                group.addTask {
                    do {
                        try await labCase.body(run)
                    } catch {
                        Issue.record("\(labCase.name): \(error)")
                    }
                    await run.finish()
                }
            }
        }
        let processed = try server.stop()
        for (_, run) in runs {
            run.compare(with: processed)
            run.network.remove()
        }
        await names.stop()
        let table = ([LabRun.header] + runs.map { $0.1.row }).joined(separator: "\n") + "\n"
        print(table)
        try table.write(toFile: Lab.report, atomically: false, encoding: .utf8)
        for (labCase, run) in runs where !run.details.isEmpty {
            print("\(labCase.name):")
            for line in run.details { print("    \(line)") }
        }
    }
}
