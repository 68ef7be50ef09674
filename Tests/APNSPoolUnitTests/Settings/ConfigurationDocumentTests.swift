import Foundation
import Testing

@_spi(Relay) @testable import APNSPool
@testable import APNSPoolTestSupport

/// `Docs/Configuration.md` agrees with the table and the compiled examples.
struct ConfigurationDocumentTests {
    private static let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
    private static let page = tests.deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appendingPathComponent("Docs/Configuration.md")
    private static let begin =
        "<!-- The table begins: `UPDATE_DOCS=1 swift test --filter ConfigurationDocument` writes it. -->\n"
    private static let end = "<!-- The table ends. -->\n"

    private static var table: String {
        SettingsTable.groups.map { group in
            let rows = group.settings.map { setting in
                let key = "apns.\(setting.key)"
                let limits = setting.kind.limits
                let value =
                    setting.kind.name + (limits.isEmpty ? "" : ", \(limits)") + (setting.isSecret ? "; secret" : "")
                let cells = [
                    "`\(key)`", "`\(APNSSetting.variable(key))`", value.replacingOccurrences(of: "one of, ", with: ""),
                    setting.defaultText.map { "`\($0)`" } ?? "", setting.meaning,
                ]
                return "| " + cells.joined(separator: " | ") + " |\n"
            }
            return "\n### \(group.title)\n\n| key | variable | value | default | meaning |\n|---|---|---|---|---|\n"
                + rows.joined()
        }.joined() + "\n"
    }

    @Test func theTableMatchesTheCode() throws {
        let text = try String(contentsOf: Self.page, encoding: .utf8)
        let before = text.components(separatedBy: Self.begin)
        let after = text.components(separatedBy: Self.end)
        try #require(before.count == 2 && after.count == 2, "\(Self.page.path) does not have the marks of its table")
        let right = before[0] + Self.begin + Self.table + Self.end + after[1]
        if ProcessInfo.processInfo.environment["UPDATE_DOCS"] != nil {
            try right.write(to: Self.page, atomically: true, encoding: .utf8)
            return
        }
        #expect(
            text == right,
            "Docs/Configuration.md is out of date: UPDATE_DOCS=1 swift test --filter ConfigurationDocument writes it"
        )
    }

    @Test func theJSONExampleIsRead() async throws {
        let files = try await SettingsFixtures()
        let text = try String(contentsOf: Self.page, encoding: .utf8)
        let json = try #require(text.components(separatedBy: "```json\n").dropFirst().first)
            .components(separatedBy: "```")[0]
            .replacingOccurrences(of: "/etc/fern/AuthKey_9UC9ZLQ8YW.p8", with: files.keyFile)
        let configuration = try APNSClientConfiguration(settings: [JSONSettings.source(Array(json.utf8), name: "page")])
        #expect(configuration.pool.size == 2)
        #expect(configuration.timeouts.deadline == .seconds(10))
        #expect(configuration.environment == .development)
    }

    @Test func theVariablesOfTheExampleAreRead() async throws {
        let files = try await SettingsFixtures()
        let text = try String(contentsOf: Self.page, encoding: .utf8)
        let block = try #require(text.components(separatedBy: "```sh\n").dropFirst().first)
            .components(separatedBy: "```")[0]
        var variables: [String: String] = [:]
        for line in block.split(separator: "\n") {
            let parts = line.dropFirst("export ".count).split(separator: "=", maxSplits: 1).map(String.init)
            try #require(parts.count == 2, "\(line)")
            variables[parts[0]] = parts[1].replacingOccurrences(
                of: "/etc/fern/AuthKey_9UC9ZLQ8YW.p8",
                with: files.keyFile
            )
        }
        let configuration = try APNSClientConfiguration(settings: [.environment(variables)])
        #expect(configuration.pool.size == 2)
        #expect(configuration.timeouts.deadline == .seconds(10))
    }
}
