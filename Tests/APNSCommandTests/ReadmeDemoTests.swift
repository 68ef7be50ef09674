import Foundation
import TestSupport
import Testing

/// The output of `make demo` in the README is what the tool prints.
struct ReadmeDemoTests {
    /// The line with its numbers as `n`, and runs of blanks as one: columns grow with their numbers.
    private static func shape(_ line: String) -> String {
        line.replacing(/[0-9]+/, with: "n").replacing(/[ ]+/, with: " ")
    }

    @Test func theDemoInTheReadmeIsTheToolsOwn() async throws {
        let block = try #require(try DocumentedCode.blocks(in: "README.md", language: "text").first)
        let shown = block.text.split(separator: "\n").map(String.init)
        let result = try await Tool.run(["demo", "--pushes", "1000"])
        #expect(result.status == 0, "\(result.error)")
        #expect(shown.map(Self.shape) == result.lines.map(Self.shape))
        // What was pasted is a run in which nothing was lost.
        #expect(shown.last == "10000 accepted")
        #expect(shown.contains { $0.wholeMatch(of: /\s+processed twice by the simulator\s+0/) != nil })
    }
}
