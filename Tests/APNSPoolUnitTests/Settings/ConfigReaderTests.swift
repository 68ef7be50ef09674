#if Configuration
    import Configuration
    import Foundation
    import Synchronization
    import Testing

    @testable import APNSPool
    @testable import APNSPoolTestSupport

    /// Settings from swift-configuration's providers use the same table and report the same errors.
    struct ConfigReaderTests {
        /// A reader of a real file.
        private func reader<Snapshot: FileConfigSnapshot>(
            _ snapshot: Snapshot.Type,
            _ text: String,
            _ name: String,
            _ files: SettingsFixtures
        ) async throws -> ConfigReader {
            try files.write(text, to: files.path(name))
            let path = InMemoryProvider(values: ["filePath": .init(.string(files.path(name)), isSecret: false)])
            return ConfigReader(provider: try await FileProvider<Snapshot>(config: ConfigReader(provider: path)))
        }

        private func faults(_ reader: ConfigReader) -> [APNSSettingsError.Fault] {
            let error = #expect(throws: APNSSettingsError.self) { try APNSClientConfiguration(reader) }
            return error?.faults ?? []
        }

        /// Reads every setting by its variable, so both agree on the variables' names.
        @Test func theEnvironmentProviderReadsEverySetting() async throws {
            let files = try await SettingsFixtures()
            for example in SettingsExample.all(files) {
                let values = example.with.merging(example.together) { $1 }.merging([example.key: example.value]) { $1 }
                let variables = values.map { (APNSSetting.variable("apns.\($0.key)"), $0.value) }
                let provider = EnvironmentVariablesProvider(
                    environmentVariables: .init(uniqueKeysWithValues: variables)
                )
                let read = try APNSClientConfiguration(ConfigReader(provider: provider))
                #expect(SettingsFields.difference(read, try configuration(values)) == [], "\(example.key)")
            }
        }

        @Test func aJSONFileIsRead() async throws {
            let files = try await SettingsFixtures()
            let text = """
                {"apns": {"keyFile": "\(files.keyFile)", "teamID": "ABBM6U9RM5", "environment": "development",
                    "pool": {"size": 4, "idleTimeout": "1500ms"}, "timeouts": {"response": 2.5},
                    "retry": {"resendsUnknown": true, "retriesInternalServerError": false}}}
                """
            let reader = try await self.reader(JSONSnapshot.self, text, "push.json", files)
            let read = try APNSClientConfiguration(reader)
            #expect(
                SettingsFields.difference(
                    read,
                    try APNSClientConfiguration(settings: [
                        .jsonFile(files.path("push.json"))
                    ])
                ) == []
            )
            #expect(read.pool.size == 4 && read.timeouts.response == .milliseconds(2500) && read.retry.resendsUnknown)
            #expect(!read.retry.retriesInternalServerError)
            #expect(try read.authentication.makeSigner()?.identifiers.keyID == "9UC9ZLQ8YW")
        }

        @Test func mistakesInAJSONFileAreReported() async throws {
            let files = try await SettingsFixtures()
            let pool = #"{"size": "many", "maxOverflow": 2000, "maxQueued": ["1"]}"#
            let text = #"{"apns": {"endpoint": "https://h", "pool": \#(pool)}}"#
            let found = self.faults(try await self.reader(JSONSnapshot.self, text, "push.json", files))
            #expect(found.map(\.key) == ["apns.pool.size", "apns.pool.maxOverflow", "apns.pool.maxQueued"])
            #expect(found.map(\.code) == [.malformed, .outOfRange, .malformed])
            #expect(found.first?.message.contains("'many'") == true)
        }

        @Test func valuesInMemoryAreRead() throws {
            let values: [AbsoluteConfigKey: ConfigValue] = [
                "apns.endpoint": .init(.string("https://h"), isSecret: false),
                "apns.pool.size": .init(.int(3), isSecret: false),
                "apns.timeouts.response": .init(.double(0.5), isSecret: false),
                "apns.retry.resendsUnknown": .init(.bool(true), isSecret: false),
            ]
            let reader = ConfigReader(provider: InMemoryProvider(values: values))
            let read = try APNSClientConfiguration(reader)
            #expect(read.pool.size == 3 && read.timeouts.response == .milliseconds(500) && read.retry.resendsUnknown)
            #expect(try APNSClientConfiguration(reader.scoped(to: "apns"), prefix: "").pool.size == 3)
        }

        @Test func earlierProvidersOverrideLaterOnes() async throws {
            let files = try await SettingsFixtures()
            let path = InMemoryProvider(values: ["filePath": .init(.string(files.path("p.json")), isSecret: false)])
            try files.write(
                #"{"apns": {"endpoint": "https://h", "pool": {"size": 5, "maxOverflow": 5}}}"#,
                to: files.path("p.json")
            )
            let reader = ConfigReader(providers: [
                EnvironmentVariablesProvider(environmentVariables: ["APNS_POOL_SIZE": "2"]),
                try await FileProvider<JSONSnapshot>(config: ConfigReader(provider: path)),
            ])
            let read = try APNSClientConfiguration(reader)
            #expect(read.pool.size == 2 && read.pool.maxOverflow == 5)
        }

        /// Records the keys that a reader reads, and whether they are secret.
        private final class Reporter: AccessReporter {
            let values = Mutex<[(key: String, isSecret: Bool)]>([])

            func report(_ event: AccessEvent) {
                guard case .success(let value?) = event.result else { return }
                self.values.withLock { $0.append(("\(event.metadata.key)", value.isSecret)) }
            }
        }

        @Test func secretsAreReadAsSecrets() throws {
            let reporter = Reporter()
            let variables = [
                "APNS_PRIVATE_KEY": KeyTexts.p256, "APNS_KEY_ID": "9UC9ZLQ8YW", "APNS_TEAM_ID": "ABBM6U9RM5",
                "APNS_PROXY": "http://u:w@p:1",
            ]
            let provider = EnvironmentVariablesProvider(environmentVariables: variables)
            _ = try APNSClientConfiguration(ConfigReader(provider: provider, accessReporter: reporter))
            let seen = reporter.values.withLock { $0 }
            #expect(Set(seen.filter(\.isSecret).map(\.key)) == ["apns.privateKey", "apns.proxy"])
            #expect(seen.contains { $0.key == "apns.teamID" && !$0.isSecret })
        }

        #if YAML
            @Test func aYAMLFileIsRead() async throws {
                let files = try await SettingsFixtures()
                let page = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
                    .deletingLastPathComponent().deletingLastPathComponent()
                    .appendingPathComponent("Docs/Configuration.md")
                let text = try #require(
                    String(contentsOf: page, encoding: .utf8).components(separatedBy: "```yaml\n").dropFirst().first
                )
                .components(separatedBy: "```")[0]
                .replacingOccurrences(of: "/etc/fern/AuthKey_9UC9ZLQ8YW.p8", with: files.keyFile)
                let read = try APNSClientConfiguration(
                    try await self.reader(YAMLSnapshot.self, text, "push.yaml", files)
                )
                #expect(read.environment == .development && read.pool.size == 2)
                #expect(read.timeouts.deadline == .seconds(10) && read.pool.maximumLifetime == nil)
                #expect(read.retry.resendsUnknown)
            }
        #endif
    }
#endif
