import Foundation
import Testing

@_spi(Relay) @testable import APNSPool
@testable import APNSPoolTestSupport

/// Compares the table of settings with the configuration that it describes.
struct SettingsTests {
    private static let local = ["endpoint": "https://push.example.com"]

    // MARK: Completeness of the table

    @Test func everySettingHasAnExampleAndEveryPropertyASetting() async throws {
        let examples = SettingsExample.all(try await SettingsFixtures())
        #expect(Set(examples.map(\.key)) == Set(SettingsTable.settings.map(\.key)))
        #expect(Set(SettingsTable.settings.map(\.key)).count == SettingsTable.settings.count)

        let properties = Set(SettingsFields.of(.init(authentication: .withoutToken)).keys)
        let changed = Set(examples.flatMap(\.changes))
        #expect(
            properties.subtracting(SettingsFields.codeOnly) == changed,
            "a property of APNSClientConfiguration is in no row of SettingsTable; or it is for code only: SettingsFields.codeOnly"
        )
        #expect(properties.isSuperset(of: SettingsFields.codeOnly))
    }

    /// Reflection does not show these properties. A new one needs a row in the table too.
    @Test func typesWithHiddenPropertiesAreUnchanged() {
        typealias Proxy = APNSClientConfiguration.Proxy
        #expect(MemoryLayout<Proxy>.size == MemoryLayout<HiddenFields.Proxy>.size)
        #expect(MemoryLayout<APNSAuthentication>.size == MemoryLayout<HiddenFields.Authentication>.size)
        #expect(
            Mirror(reflecting: APNSEnvironment.production).children.compactMap(\.label)
                == ["host", "port", "ownManagementHost", "ownManagementPort"]
        )
    }

    @Test func eachSettingChangesItsPropertyAndNothingElse() async throws {
        let files = try await SettingsFixtures()
        for example in SettingsExample.all(files) {
            let before = try configuration(example.with)
            let values = example.with.merging(example.together) { $1 }.merging([example.key: example.value]) { $1 }
            let after = try configuration(values)
            #expect(SettingsFields.difference(before, after) == example.changes, "\(example.key)")
            guard let becomes = example.becomes, let path = example.changes.first, example.changes.count == 1 else {
                continue
            }
            #expect(SettingsFields.of(after)[path] == becomes, "\(example.key)")
        }
    }

    @Test func withoutSettingsNothingChanges() throws {
        var configuration = APNSClientConfiguration(authentication: .withoutToken, environment: .custom(host: "h"))
        let before = configuration
        try configuration.apply(settings: [source([:]), source(["pool.size": "", "keyFile": " "])])
        #expect(SettingsFields.difference(before, configuration) == [])
    }

    @Test func documentedDefaultsAreValid() throws {
        for setting in SettingsTable.settings {
            guard let text = setting.defaultText else { continue }
            #expect(throws: Never.self, "\(setting.key)") { try setting.kind.value(text) }
        }
        // Setting the numbers to their defaults changes nothing.
        let before = try configuration(Self.local)
        let numbers = SettingsTable.settings.filter { $0.key.contains(".") }.compactMap { setting in
            setting.defaultText.map { (setting.key, $0) }
        }
        let after = try configuration(Self.local.merging(numbers) { $1 })
        #expect(SettingsFields.difference(before, after) == [])
        #expect(numbers.count > 20)
    }

    // MARK: Limits

    /// The limits of the table equal those of the client.
    @Test func theLimitsEqualThoseOfTheClient() throws {
        /// The setting that the client refuses for a value, without the limits of the table.
        func verdict(_ setting: APNSSetting, _ value: SettingKind.Value) -> String? {
            var base = APNSClientConfiguration(authentication: .withoutToken)
            // With these, each of the two settings may have any value.
            base.pool.size = setting.key == "pool.maxOverflow" ? 0 : 1
            base.pool.maxOverflow = setting.key == "pool.size" ? 0 : 1
            var draft = SettingsDraft(base, prefix: "apns")
            setting.put(&draft, value)
            if let port = draft.integer("port") { draft.configuration.environment.port = port }
            if let port = draft.integer("managementPort") { draft.configuration.environment.managementPort = port }
            do throws(APNSConfigurationError) {
                try draft.configuration.validate()
                _ = try draft.configuration.authentication.resolve(wallNow: 0)
                return nil
            } catch {
                return error.setting
            }
        }
        var checked = 0
        for setting in SettingsTable.settings where !setting.key.hasPrefix("massRejection.") {
            var good: [SettingKind.Value] = []
            var bad: [SettingKind.Value] = []
            switch setting.kind {
            case .integer(let range, _), .size(let range):
                good = [.integer(range.lowerBound), .integer(range.upperBound)]
                bad = [.integer(range.lowerBound - 1), .integer(range.upperBound + 1)]
            case .duration(let range, _):
                good = [.duration(range.lowerBound), .duration(range.upperBound)]
                bad = [.duration(range.lowerBound - .nanoseconds(1)), .duration(range.upperBound + .nanoseconds(1))]
            default: continue
            }
            // A pool needs a connection: size 0 is valid only with an overflow above 0.
            if setting.key == "pool.size" || setting.key == "pool.maxOverflow" { good[0] = .integer(1) }
            for value in good { #expect(verdict(setting, value) == nil, "\(setting.key) \(value)") }
            for value in bad {
                let named = try #require(verdict(setting, value), "\(setting.key) \(value)")
                #expect(setting.properties.contains(named), "\(setting.key) \(value)")
            }
            checked += 1
        }
        #expect(checked >= 18)
    }

    @Test func valuesOutOfRangeAreReportedWithTheLimits() {
        for setting in SettingsTable.settings {
            let values: [String]
            switch setting.kind {
            case .integer(let range, _), .size(let range):
                values = ["\(range.upperBound + 1)", "\(range.lowerBound - 1)"]
            case .duration(let range, _):
                values = ["\(range.upperBound.components.seconds + 1)s"]
            default: continue
            }
            for value in values {
                let fault = faults(Self.local.merging([setting.key: value]) { $1 }).first
                #expect(fault?.key == "apns.\(setting.key)")
                // A size has no sign, so a negative size is malformed.
                let isOutOfRange = fault?.code == .outOfRange || value.hasPrefix("-")
                #expect(isOutOfRange, "\(setting.key) \(value)")
                #expect(fault?.message.contains("'\(value)'") == true, "\(setting.key) \(value)")
                #expect(fault?.message.contains(setting.kind.limits) == true, "\(setting.key) \(value)")
            }
        }
    }

    @Test func invalidCombinationsAreReported() {
        var found = faults(Self.local.merging(["pool.size": "600", "pool.maxOverflow": "600"]) { $1 })
        #expect(found.map(\.key) == ["apns.pool.size"])
        #expect(found.first?.message.contains("1200") == true)
        found = faults(Self.local.merging(["pool.size": "0", "pool.maxOverflow": "0"]) { $1 })
        #expect(found.map(\.key) == ["apns.pool.size"])
        found = faults(Self.local.merging(["pool.maxOverflow": "1000"]) { $1 })
        #expect(found.map(\.key) == ["apns.pool.maxOverflow"])
        found = faults(Self.local.merging(["massRejection.window": "100"]) { $1 })
        #expect(found.map(\.key) == ["apns.massRejection.window"])
        #expect(found.map(\.code) == [.conflict])
    }

    // MARK: Malformed values

    @Test func malformedValuesAreReportedWithKeyAndValue() {
        for setting in SettingsTable.settings {
            let nonsense: String
            switch setting.kind {
            case .string, .pem, .path, .list: continue
            case .host: nonsense = "https://h:1/"
            case .base64: nonsense = "%%%"
            case .endpoint, .proxy: nonsense = "ftp://h"
            case .integer, .boolean, .duration, .size, .choice: nonsense = "banana"
            }
            let error = #expect(throws: APNSSettingsError.self, "\(setting.key)") {
                try APNSClientConfiguration(settings: [
                    .environment([APNSSetting.variable("apns.\(setting.key)"): nonsense]), source(Self.local),
                ])
            }
            let fault = error?.faults.first { $0.key == "apns.\(setting.key)" }
            #expect(fault?.code == .malformed, "\(setting.key)")
            #expect(fault?.written == APNSSetting.variable("apns.\(setting.key)"))
            #expect(fault?.source == "environment")
            #expect(fault?.message.contains("'\(nonsense)' is not ") == (setting.kind.isShown && !setting.isSecret))
        }
    }

    @Test func allMistakesAreReportedAtOnce() {
        let found = faults([
            "pool.size": "many", "timeouts.response": "soon", "endpoint": "https://push.example.com",
            "environment": "production",
            "keyFile": "/nowhere/key.p8", "teamID": "ABBM6U9RM5", "pool.sise": "1",
        ])
        #expect(
            Set(found.map(\.key)) == [
                "apns.pool.size", "apns.timeouts.response", "apns.endpoint", "apns.keyFile", "apns.pool.sise",
            ]
        )
        let text = APNSSettingsError(faults: found).description
        for fault in found { #expect(text.contains(fault.description)) }
    }

    // MARK: Other prefixes

    @Test func anotherPrefixReadsOtherSettings() throws {
        let variables = ["PUSH_FERN_ENDPOINT": "https://fern.example.com", "APNS_ENDPOINT": "https://apns.example.com"]
        let fern = try APNSClientConfiguration(settings: [.environment(variables)], prefix: "push.fern")
        #expect(fern.environment.host == "fern.example.com")
        let bare = try APNSClientConfiguration(
            settings: [.values(["endpoint": "https://bare.example.com"])],
            prefix: ""
        )
        #expect(bare.environment.host == "bare.example.com")
    }
}
