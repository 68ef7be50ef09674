import Foundation
import Testing

@_spi(Relay) import APNSModel
@_spi(Relay) @testable import APNSPool
@testable import APNSPoolTestSupport

/// The sources of settings (the environment, JSON files, lookups) and unknown keys.
struct SettingsSourceTests {
    private func json(_ text: String) throws -> APNSClientConfiguration {
        try APNSClientConfiguration(settings: [JSONSettings.source(Array(text.utf8), name: "push.json")])
    }

    private func jsonFaults(_ text: String) -> [APNSSettingsError.Fault] {
        let error = #expect(throws: APNSSettingsError.self) { try self.json(text) }
        return error?.faults ?? []
    }

    // MARK: JSON

    @Test func aJSONFileIsRead() async throws {
        let files = try await SettingsFixtures()
        let path = files.path("push.json")
        try files.write(
            """
            {
              "server": {"port": 8080},
              "apns": {
                "keyFile": "\(files.keyFile)", "teamID": "ABBM6U9RM5", "environment": "development", "port": 2197,
                "pool": {"size": 4, "idleTimeout": "1500ms", "maxQueuedBytes": "1MiB", "strategy": null},
                "timeouts": {"response": 2.5},
                "retry": {"resendsUnknown": true},
                "pool.maxOverflow": 6
              }
            }
            """,
            to: path
        )
        let configuration = try APNSClientConfiguration(settings: [.jsonFile(path)])
        #expect(configuration.environment == .development(port: 2197))
        #expect(configuration.pool.size == 4 && configuration.pool.maxOverflow == 6)
        #expect(configuration.pool.idleTimeout == .milliseconds(1500))
        #expect(configuration.pool.maxQueuedBytes == 1 << 20)
        #expect(configuration.pool.strategy == .leastLoaded)
        #expect(configuration.timeouts.response == .milliseconds(2500))
        #expect(configuration.retry.resendsUnknown)
        #expect(try configuration.authentication.makeSigner()?.identifiers.keyID == "9UC9ZLQ8YW")
    }

    @Test func mistakesInAFileAreReportedWithTheFile() {
        let found = jsonFaults(
            #"{"apns": {"endpoint": "https://h", "pool": {"size": [1], "maxoverflow": 1, "sizes": 1}, "retry": 3}}"#
        )
        let size = found.first { $0.key == "apns.pool.size" }
        #expect(size?.code == .malformed && size?.source == "push.json")
        #expect(size?.message == "it is a list, not one value")
        #expect(found.first { $0.key == "apns.pool.maxoverflow" }?.message.contains("'apns.pool.maxOverflow'") == true)
        #expect(found.first { $0.key == "apns.pool.sizes" }?.message.contains("'apns.pool.size'") == true)
        #expect(found.first { $0.key == "apns.retry" }?.code == .unknownSetting)
        #expect(found.count == 4)
    }

    @Test func invalidJSONIsReportedWithoutQuotingIt() {
        for text in ["", "{", "[1]", #"{"apns": {"privateKey": "S3CRET" "#, "3", "\u{0}"] {
            let found = jsonFaults(text)
            #expect(found.map(\.code) == [.malformed] && found.map(\.key) == ["push.json"], "\(text)")
            #expect(!"\(found)".contains("S3CRET"))
        }
    }

    @Test("A text or a list instead of an object of settings is an error", arguments: [#""x""#, "[]", "3"])
    func noObjectOfSettings(value: String) {
        #expect(jsonFaults(#"{"apns": \#(value)}"#).contains { $0.key == "apns" && $0.code == .unknownSetting })
    }

    @Test("The management server of a later source is ignored if an earlier source names another server")
    func settingsOfAnotherServer() throws {
        var configuration = APNSClientConfiguration(authentication: .withoutToken)
        try configuration.apply(settings: [
            .environment(["APNS_ENDPOINT": "https://localhost:2197"]),
            source(["managementHost": "api-manage-broadcast.push.apple.com", "managementPort": "2196"]),
        ])
        #expect(configuration.environment == .custom(host: "localhost", port: 2197))
        try configuration.apply(settings: [
            .environment(["APNS_ENDPOINT": "https://first"]),
            source(["endpoint": "https://second", "managementHost": "second"]),
        ])
        #expect(configuration.environment == .custom(host: "first"))
    }

    @Test func theErrorNamesAnUnreadableFile() async throws {
        let files = try await SettingsFixtures()
        for path in ["/nowhere/push.json", files.directory.path] {
            let error = #expect(throws: APNSSettingsError.self) { try APNSSettingsSource.jsonFile(path) }
            #expect(error?.faults.map(\.code) == [.fileUnreadable])
            #expect(error?.description.contains(path) == true)
        }
        let large = files.path("large.json")
        try files.write(String(repeating: " ", count: JSONSettings.limit + 1), to: large)
        let error = #expect(throws: APNSSettingsError.self) { try APNSSettingsSource.jsonFile(large) }
        #expect(error?.faults.map(\.code) == [.malformed])
    }

    // MARK: Layers

    @Test func theFirstSourceThatHasASettingWins() throws {
        var configuration = APNSClientConfiguration(authentication: .withoutToken)
        configuration.pool = .init(size: 7, maxOverflow: 7, maxQueued: 7)
        try configuration.apply(settings: [
            .environment(["APNS_POOL_SIZE": "1", "APNS_POOL_MAX_OVERFLOW": ""]),
            source(["endpoint": "https://h", "pool.size": "2", "pool.maxOverflow": "2"]),
        ])
        #expect(
            configuration.pool.size == 1 && configuration.pool.maxOverflow == 2 && configuration.pool.maxQueued == 7
        )
    }

    @Test func invalidSettingsChangeNothing() {
        var configuration = APNSClientConfiguration(authentication: .withoutToken)
        let before = configuration
        #expect(throws: APNSSettingsError.self) {
            try configuration.apply(settings: [source(["pool.size": "2", "port": "x", "endpoint": "https://h"])])
        }
        #expect(SettingsFields.difference(before, configuration) == [])
    }

    @Test func lookupsGetWholeKeys() throws {
        let values = ["apns.endpoint": "https://h", "apns.pool.size": "3"]
        let configuration = try APNSClientConfiguration(settings: [.lookup("store") { values[$0] }])
        #expect(configuration.pool.size == 3)
        let error = #expect(throws: APNSSettingsError.self) {
            try APNSClientConfiguration(settings: [.lookup("store") { _ in "?" }])
        }
        #expect(error?.faults.allSatisfy { $0.source == "store" } == true)
    }

    @Test func theEnvironmentOfTheProcessIsTheDefault() throws {
        setenv("FERN_SETTINGS_TEST_ENDPOINT", "https://fern.example.com", 1)
        defer { unsetenv("FERN_SETTINGS_TEST_ENDPOINT") }
        let configuration = try APNSClientConfiguration(settings: [.environment()], prefix: "fern.settings.test")
        #expect(configuration.environment.host == "fern.example.com")
    }

    @Test("Variables of the relay are not those of the client") func variablesOfTheRelay() throws {
        let variables = ["APNS_ENDPOINT": "https://h", "APNS_RELAY_APPS": "fern", "APNS_RELAY_HTTP_PORT": "x"]
        let configuration = try APNSClientConfiguration(settings: [.environment(variables)])
        #expect(configuration.environment.host == "h")
        #expect(throws: APNSSettingsError.self) {
            try APNSClientConfiguration(settings: [.environment(variables)], prefix: "apns.relay")
        }
    }

    @Test("Lists are read from arrays and from texts with commas") func lists() throws {
        let text = #"{"a":["x"," y,z "],"b":"x, ,y","c":[1,true],"d":[],"e":[[1]],"f":{}}"#
        var reader = SettingsReader([try JSONSettings.source(Array(text.utf8), name: "push.json")])
        #expect(reader.value("a", .list)?.texts == ["x", "y", "z"])
        #expect(reader.value("b", .list)?.texts == ["x", "y"])
        #expect(reader.value("c", .list)?.texts == ["1", "true"])
        #expect(reader.value("d", .list)?.texts == [])
        #expect(reader.value("f", .list) == nil && reader.faults.isEmpty)
        #expect(reader.value("e", .list) == nil)
        #expect(reader.value("a", .string) == nil)
        #expect(reader.faults.map(\.key) == ["e", "a"])
    }

    // MARK: Unknown keys

    @Test func anUnknownKeyInAFileIsAnError() {
        let found = faults(["endpoint": "https://h", "maxOverflow": "3", "pool.colour": "green", "keyfile": "k.p8"])
        #expect(found.map(\.code) == [.unknownSetting, .unknownSetting, .unknownSetting])
        let messages = Dictionary(uniqueKeysWithValues: found.map { ($0.key, $0.message) })
        #expect(messages["apns.maxOverflow"] == "there is no such setting; did you mean 'apns.pool.maxOverflow'?")
        #expect(messages["apns.keyfile"] == "there is no such setting; did you mean 'apns.keyFile'?")
        #expect(messages["apns.pool.colour"]?.hasPrefix("there is no such setting") == true)
    }

    private func variableFaults(
        _ variables: [String: String],
        ignoring names: Set<String> = []
    ) -> [APNSSettingsError.Fault] {
        let all = variables.merging(["APNS_ENDPOINT": "https://h"]) { $1 }
        do throws(APNSSettingsError) {
            _ = try APNSClientConfiguration(settings: [.environment(all, ignoring: names)])
            return []
        } catch {
            return error.faults
        }
    }

    @Test(
        "An unknown variable with the prefix is an error that suggests the nearest setting",
        arguments: [
            ("APNS_ENDPIONT", "APNS_ENDPOINT"), ("APNS_POOL_SISE", "APNS_POOL_SIZE"),
            ("APNS_MAX_OVERFLOW", "APNS_POOL_MAX_OVERFLOW"), ("APNS_TIMEOUT", "APNS_TIMEOUTS_DEADLINE"),
            ("APNS_TOPC", "APNS_TOPIC"), ("APNS_ZEBRA_CROSSING_COLOUR", nil),
        ]
    )
    func anUnknownVariableIsAnError(name: String, meant: String?) {
        let found = self.variableFaults([name: "x", "PATH": "/bin", "APN_HOST": "x"])
        #expect(found.map(\.written) == [name] && found.map(\.code) == [.unknownSetting])
        #expect(found.first?.source == "environment")
        let message = "there is no such setting" + (meant.map { "; did you mean '\($0)'?" } ?? "")
        #expect(found.first?.message == message)
    }

    @Test("A misspelt endpoint does not leave the client with Apple's servers")
    func aMisspeltEndpointIsAnError() throws {
        let key = ["APNS_PRIVATE_KEY": KeyTexts.p256, "APNS_KEY_ID": "9UC9ZLQ8YW", "APNS_TEAM_ID": "ABBM6U9RM5"]
        #expect(try APNSClientConfiguration(settings: [.environment(key)]).environment == .production)
        let error = #expect(throws: APNSSettingsError.self) {
            let wrong = ["APNS_ENDPIONT": "https://localhost"]
            return try APNSClientConfiguration(settings: [.environment(key.merging(wrong) { $1 })])
        }
        #expect(error?.description.contains("APNS_ENDPIONT (environment): there is no such setting") == true)
    }

    @Test("Variables of the tool and Kubernetes, empty and ignored variables are accepted")
    func knownVariablesAreAccepted() {
        let known = [
            "APNS_TOPIC": "com.example.app", "APNS_IN_FLIGHT": "5", "APNS_VERBOSE": "1",
            "APNS_CONFIG": "/etc/apns.json",
            "APNS_SERVICE_HOST": "10.0.0.7", "APNS_SERVICE_PORT": "443",
            "APNS_SERVICE_PORT_HTTPS": "443", "APNS_PORT_443_TCP": "tcp://10.0.0.7:443",
            "APNS_PORT_443_TCP_PROTO": "tcp", "APNS_PORT_443_TCP_PORT": "443", "APNS_PORT_443_TCP_ADDR": "10.0.0.7",
            "APNS_SIMULATOR_PORT": "tcp://10.0.0.8:2197", "APNS_SIMULATOR_SERVICE_HOST": "10.0.0.8",
            "APNS_LEGACY": "yes", "APNS_TEMPLATE": "",
        ]
        #expect(self.variableFaults(known, ignoring: ["APNS_LEGACY"]) == [])
        // Each is accepted for its own reason; other variables are still errors.
        #expect(self.variableFaults(known).map(\.written) == ["APNS_LEGACY"])
        #expect(self.variableFaults(["APNS_SIMULATOR_PORT": "2197"]).map(\.code) == [.unknownSetting])
        #expect(self.variableFaults(["APNS_PORT_443_TPC": "x"]).map(\.code) == [.unknownSetting])
    }

    @Test(
        "A variable of Kubernetes with the name of a setting is an error that gives advice",
        arguments: [
            ("APNS_PORT", "'apns'"), ("APNS_MANAGEMENT_PORT", "'apns-management'"),
        ]
    )
    func kubernetesVariables(name: String, service: String) {
        let address = [name: "tcp://10.0.0.7:443"]
        let fault = self.variableFaults(address).first { $0.written == name }
        #expect(fault?.code == .malformed)
        for word in ["tcp://10.0.0.7:443", "Kubernetes", service, "enableServiceLinks: false", "rename the service"] {
            #expect(fault?.message.contains(word) == true, "\(word)")
        }
        // If the pod cannot be changed, the variable can be ignored.
        #expect(self.variableFaults(address, ignoring: [name]) == [])
    }

    @Test func theNearestKeyIsSuggested() {
        let names = SettingsTable.settings.map(\.key)
        #expect(NearestKey.of("pool.sizes", among: names) == "pool.size")
        #expect(NearestKey.of("TimeOuts.Response", among: names) == "timeouts.response")
        #expect(NearestKey.of("retry.retryInternalServerError", among: names) == "retry.retriesInternalServerError")
        #expect(NearestKey.of("colour", among: names) == nil)
        #expect(NearestKey.of("tmeouts.size", among: ["pool.size", "timeouts.size"]) == "timeouts.size")
        #expect(NearestKey.of("", among: names) == nil)
        #expect(NearestKey.distance(Array("kitten".utf8), Array("sitting".utf8)) == 3)
    }

    // MARK: Values

    @Test func timesHaveUnits() {
        let times: [(String, Duration?)] = [
            ("10", .seconds(10)), ("10s", .seconds(10)), ("500ms", .milliseconds(500)), ("2m", .seconds(120)),
            ("1h", .seconds(3600)), ("1d", .seconds(86_400)), ("0.25", .milliseconds(250)),
            ("1.5 s", .milliseconds(1500)),
            ("0", .zero), ("", nil), (".", nil), ("s", nil), ("-1s", nil), ("1 fortnight", nil), ("1.2.3", nil),
            ("1e3", nil), ("0x10", nil), ("nan", nil), ("inf", nil), ("99999999999999999999d", nil), ("１0", nil),
        ]
        for (text, time) in times { #expect(SettingKind.time(text) == time, "\(text)") }
        for time in [Duration.zero, .milliseconds(1), .milliseconds(2500), .seconds(90), .seconds(86_400 * 365)] {
            #expect(SettingKind.time(SettingKind.text(time)) == time)
        }
        #expect(SettingKind.text(.seconds(300)) == "5m")
        #expect(SettingKind.text(.seconds(90)) == "90s")
    }

    @Test func sizesHaveUnits() {
        let sizes: [(String, Int?)] = [
            ("65536", 65_536), ("64KiB", 65_536), ("64 kib", 65_536), ("16MiB", 16 << 20), ("1kB", 1000),
            ("3MB", 3_000_000),
            ("2GiB", 2 << 30), ("7B", 7), ("", nil), ("MiB", nil), ("-1", nil), ("1.5MiB", nil),
            ("9223372036854775807TiB", nil), ("99999999999999999999", nil), ("1 acre", nil),
        ]
        for (text, size) in sizes { #expect(SettingKind.byteCount(text) == size, "\(text)") }
        for size in [0, 1, 8192, 16 << 20, 1 << 40, 1000] {
            #expect(SettingKind.byteCount(SettingKind.text(bytes: size)) == size)
        }
    }

    @Test func variablesAreNamedAfterKeys() {
        #expect(APNSSetting.variable("apns.pool.maxOverflow") == "APNS_POOL_MAX_OVERFLOW")
        #expect(APNSSetting.variable("apns.keyID") == "APNS_KEY_ID")
        #expect(APNSSetting.variable("apns.pkcs12.data") == "APNS_PKCS12_DATA")
        let names = SettingsTable.settings.map { APNSSetting.variable("apns.\($0.key)") }
        #expect(Set(names).count == names.count)
    }
}
