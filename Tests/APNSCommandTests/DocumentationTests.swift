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

    /// The text from a heading to the next one of its level.
    private static func section(_ heading: String) -> String {
        let parts = ("\n" + self.text).split(separator: "\n## ", omittingEmptySubsequences: false)
        return parts.first { $0.hasPrefix(heading + "\n") }.map(String.init) ?? ""
    }

    /// The options in the first column of a table.
    private static func tabled(_ section: String) -> Set<String> {
        section.split(separator: "\n").filter { $0.hasPrefix("| `--") }.reduce(into: []) { found, line in
            found.formUnion(self.options(line.replacing("\\|", with: "/").split(separator: "|").first ?? ""))
        }
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

    private static let ofAll: Set<String> = ["--help", "--version"]

    @Test(arguments: [
        ("apns send", [["send"]]), ("apns bulk", [["bulk"]]), ("apns broadcast", [["broadcast"]]),
        (
            "apns channels",
            [["channels", "list"], ["channels", "create"], ["channels", "show"], ["channels", "delete"]]
        ),
        ("apns doctor", [["doctor"]]), ("apns provider-token", [["provider-token"]]),
        ("apns simulator", [["simulator"]]), ("apns demo", [["demo"]]),
    ])
    func eachOptionIsDocumented(heading: String, commands: [[String]]) async throws {
        let section = Self.section(heading)
        var documented = Self.tabled(section)
        if section.contains("[connection options](#connection-options)") {
            documented.formUnion(Self.tabled(Self.section("Connection options")))
        }
        if heading == "apns provider-token" {
            documented.formUnion(["--key", "--key-id", "--team-id", "--token-file", "--config"])
        }
        var listed: Set<String> = []
        for command in commands { listed.formUnion(try await Self.listed(command)) }
        listed.subtract(Self.ofAll)
        #expect(!listed.isEmpty)
        #expect(documented.subtracting(listed).isEmpty, "an option is documented but not in the help")
        #expect(listed.subtracting(documented).isEmpty, "an option of the help is not documented")
    }

    @Test("The table of connection options names each option's variable and key; the help names the variable")
    func variablesAndKeysOfOptions() async throws {
        let help = try await Tool.help(of: ["send"]).output.split { $0.isWhitespace }.joined(separator: " ")
        let rows = Self.section("Connection options").split(separator: "\n").filter { $0.hasPrefix("| `--") }
        #expect(rows.count == SettingOption.all.count)
        for (row, option) in zip(rows, SettingOption.all) {
            #expect(row.hasPrefix("| `\(option.written)"), "\(option.name)")
            #expect(row.contains("| `\(option.variable)` |"), "\(option.name)")
            #expect(row.contains("| `apns.\(option.key)` |") == (option.key != "config"), "\(option.name)")
            #expect(help.contains("[env: \(option.variable)"), "\(option.name)")
        }
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
