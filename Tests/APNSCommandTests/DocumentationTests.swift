import Foundation
import Testing

@testable import APNSCommand

/// `Docs/CommandLine.md` agrees with the tool's own help.
struct DocumentationTests {
    private static let text: String = {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        return (try? String(contentsOf: root.appendingPathComponent("Docs/CommandLine.md"), encoding: .utf8)) ?? ""
    }()

    /// The options that a text names.
    private static func options(_ text: some StringProtocol) -> Set<String> {
        Set(String(text).matches(of: #/--[a-z][a-z-]*[a-z]/#).map { String($0.output) })
    }

    /// The options that the help lists.
    private static func listed(_ command: [String]) async throws -> Set<String> {
        let result = try await Tool.help(of: command)
        #expect(result.status == 0)
        return result.lines.reduce(into: []) { found, line in
            let start = line.drop { $0 == " " }
            guard start.hasPrefix("-"), line.count - start.count == 2 else { return }
            found.formUnion(self.options(start.split(separator: " ").prefix(2).joined(separator: " ")))
        }
    }

    @Test("Every option that the page names is in the help")
    func namedOptionsExist() async throws {
        var listed: Set<String> = ["--generate-completion-script"]
        let commands = [
            ["send"], ["bulk"], ["broadcast"], ["channels", "list"], ["channels", "create"], ["doctor"],
            ["provider-token"], ["simulator"], ["demo"],
        ]
        for command in commands { listed.formUnion(try await Self.listed(command)) }
        // Not in the blocks with commands of other programs.
        let prose = Self.text.replacing(/```sh\n.*?```/.dotMatchesNewlines(), with: "")
        let named = Self.options(prose)
        #expect(named.count > 20)
        #expect(named.subtracting(listed) == [])
    }

    @Test("The help names the variable of each connection option")
    func variablesOfOptions() async throws {
        let help = try await Tool.help(of: ["send"]).output.split { $0.isWhitespace }.joined(separator: " ")
        for option in SettingOption.all { #expect(help.contains("[env: \(option.variable)"), "\(option.name)") }
    }

    @Test func eachCommandIsInTheTable() async throws {
        let help = try await Tool.help(of: [])
        let start = try #require(help.lines.firstIndex { $0.hasPrefix("SUBCOMMANDS") })
        let names = help.lines[(start + 1)...].compactMap { line -> String? in
            guard line.hasPrefix("  "), !line.hasPrefix("   ") else { return nil }
            return line.split(separator: " ").first.map(String.init)
        }
        #expect(names.count >= 8)
        for name in names where name != "See" { #expect(Self.text.contains("| `apns \(name)` |"), "\(name)") }
    }

    @Test(arguments: ["bash", "zsh", "fish"])
    func completionKnowsTheFixedValues(shell: String) async throws {
        let script = try await Tool.run(["--generate-completion-script", shell])
        #expect(script.status == 0)
        for word in ["most-recent-message", "development", "liveactivity", "doctor", "resend-unknown", "p8"] {
            #expect(script.output.contains(word), "\(word)")
        }
    }
}
