import Foundation
import TestSupport
import Testing

/// The README shows the actual output of `make demo`.
struct ReadmeDemoTests {
    /// The line with its numbers as `n` and each run of blanks as one: the width of a column depends on its numbers.
    private static func shape(_ line: String) -> String {
        line.replacing(/[0-9]+/, with: "n").replacing(/[ ]+/, with: " ")
    }

    @Test func theReadmeShowsTheDemosOutput() async throws {
        let block = try #require(try DocumentedCode.blocks(in: "README.md", language: "text").first)
        let shown = block.text.split(separator: "\n").map(String.init)
        let result = try await Tool.run(["demo", "--pushes", "1000"])
        #expect(result.status == 0, "\(result.error)")
        #expect(shown.map(Self.shape) == result.lines.map(Self.shape))
        // The README shows a run that lost nothing.
        #expect(shown.last == "10000 accepted")
        #expect(shown.contains { $0.wholeMatch(of: /\s+processed twice by the simulator\s+0/) != nil })
    }
}
