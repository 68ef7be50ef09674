import Foundation
import SupervisedPool
import Testing

@_spi(Relay) @testable import APNSPool
@testable import APNSPoolTestSupport

/// `Docs/Configuration.md` and the doc comments of the configuration agree with the table of the settings, and the page's
/// examples are read.
struct ConfigurationDocumentTests {
    private static let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
    private static let page = tests.deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appendingPathComponent("Docs/Configuration.md")
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

    /// The page has the settings that are set most, with the defaults of the code.
    @Test func theSettingsOfThePageMatchTheCode() throws {
        let page = try String(contentsOf: Self.page, encoding: .utf8)
        let settings = SettingsTable.groups.flatMap(\.settings)
        let rows = page.matches(of: /\n\| `apns\.([A-Za-z.]+)` \| (?:`([^`]*)`)? ?\|/)
        #expect(rows.count >= 15)
        for row in rows {
            let setting = settings.first { $0.key == String(row.1) }
            #expect(setting != nil, "there is no setting \(row.1)")
            #expect(setting?.defaultText == row.2.map(String.init), "the default of \(row.1)")
        }
    }

    /// Each setting has a meaning and a variable of its own. `make docs` sets SETTINGS_PAGE, the file that gets the table.
    @Test func theTableOfAllSettingsIsComplete() throws {
        let settings = SettingsTable.groups.flatMap(\.settings)
        #expect(Set(settings.map { APNSSetting.variable("apns.\($0.key)") }).count == settings.count)
        for setting in settings { #expect(setting.meaning.hasSuffix("."), "\(setting.key)") }
        guard let file = ProcessInfo.processInfo.environment["SETTINGS_PAGE"] else { return }
        let text = "# Settings\n\nEvery setting of a client. Docs/Configuration.md describes their sources.\n"
        try (text + Self.table).write(toFile: file, atomically: true, encoding: .utf8)
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

    // MARK: - Doc comments

    private static let phrases = [
        ("zero", "0s"), ("an hour", "1h"), ("a day", "1d"), ("a year", "365d"), (" minutes", "m"), ("`", ""),
    ]

    /// The value of a phrase of a doc comment, such as "an hour" or "8 KiB".
    private static func value(_ phrase: Substring, _ kind: SettingKind) throws -> SettingKind.Value {
        try kind.value(self.phrases.reduce(String(phrase)) { $0.replacingOccurrences(of: $1.0, with: $1.1) })
    }

    /// The doc comment of the property that a setting sets, in one line and without commas in numbers.
    private static func comment(_ setting: APNSSetting) throws -> String {
        let path = setting.properties[0].split(separator: ".")
        let (file, type) =
            switch path[0] {
            case "authentication": ("APNSPool/Credentials/APNSAuthentication.swift", "APNSAuthentication")
            case "massRejection": ("APNSModel/Bulk/MassRejectionLimits.swift", "MassRejectionLimits")
            default:
                ("APNSPool/Client/APNSClientConfiguration.swift", path[0].prefix(1).uppercased() + path[0].dropFirst())
            }
        let sources = page.deletingLastPathComponent().deletingLastPathComponent().appendingPathComponent("Sources")
        let text = try String(contentsOf: sources.appendingPathComponent(file), encoding: .utf8)
        let body = try #require(text.components(separatedBy: "public struct \(type)").dropFirst().first, "\(type)")
        let declaration = try Regex(
            "\n((?: *///[^\n]*\n)+) *public (?:var|let) \(path[1]): ",
            as: (Substring, Substring).self
        )
        let comment = try #require(body.firstMatch(of: declaration), "\(setting.key)").1
        let lines = comment.split(separator: "\n").map { $0.drop { " /".contains($0) } }
        return lines.joined(separator: " ").replacing(#/(\d),(?=\d{3})/#) { "\($0.1)" }
    }

    /// The properties of the configuration and the settings have the same defaults and limits.
    @Test func theDocCommentsHaveTheDefaultsAndLimitsOfTheTable() throws {
        var checked = 0
        for setting in SettingsTable.authentication + SettingsTable.limited where !setting.key.hasPrefix("log.") {
            guard let defaultText = setting.defaultText else { continue }
            let comment = try Self.comment(setting)
            let stated = try #require(comment.firstMatch(of: /Default ([^;.,]+)/), "\(setting.key)").1
            #expect(try Self.value(stated, setting.kind) == setting.kind.value(defaultText), "\(setting.key)")
            checked += 1
            if case .boolean = setting.kind { continue }
            if case .choice = setting.kind { continue }
            // The upper limit of this one is another setting.
            if setting.key == "massRejection.rejections" { continue }
            let limits = try #require(comment.firstMatch(of: /Default [^;]+; ([^;.]+?) to ([^;.,]+)/), "\(setting.key)")
            let expected = setting.kind.limits.components(separatedBy: " to ")
            #expect(try Self.value(limits.1, setting.kind) == setting.kind.value(expected[0]), "\(setting.key)")
            #expect(try Self.value(limits.2, setting.kind) == setting.kind.value(expected[1]), "\(setting.key)")
        }
        #expect(checked >= 20)
    }

    /// The client's settings and those of its pool have the same defaults.
    @Test func thePoolHasTheDefaultsOfTheConfiguration() {
        #expect(APNSClientConfiguration(authentication: .withoutToken).poolConfiguration == PoolConfiguration())
    }
}
