#if Configuration
    public import Configuration

    /// For programs that are configured by swift-configuration: with the package's trait `Configuration`.
    @available(macOS 15.0, iOS 18.0, watchOS 11.0, tvOS 18.0, visionOS 2.0, *)
    extension APNSClientConfiguration {
        /// A configuration of what a reader's providers have: environment variables, JSON, YAML and others.
        ///
        /// ```swift
        /// let reader = ConfigReader(provider: EnvironmentVariablesProvider())
        /// let configuration = try APNSClientConfiguration(reader)
        /// ```
        /// `Docs/Configuration.md` has all keys. What no provider has keeps its default. Secrets are read as secrets, so that
        /// an access log does not have them. The files of keys and certificates are read, to find what is wrong with them
        /// now; this blocks. Unknown keys are not found, for a reader cannot say which keys there are.
        ///
        /// - Parameters:
        ///   - reader: Is read once, as one snapshot.
        ///   - prefix: What the keys stand below; empty for a reader that is scoped already.
        /// - Throws: ``APNSSettingsError`` with everything that is wrong.
        public init(_ reader: ConfigReader, prefix: String = "apns") throws(APNSSettingsError) {
            try self.init(settings: [.reader(reader)], prefix: prefix)
        }
    }

    @available(macOS 15.0, iOS 18.0, watchOS 11.0, tvOS 18.0, visionOS 2.0, *)
    extension APNSSettingsSource {
        /// What a reader of swift-configuration has now, for `apply(settings:)` and beside other sources.
        public static func reader(_ reader: ConfigReader) -> APNSSettingsSource {
            let snapshot = reader.snapshot()
            return APNSSettingsSource(
                name: "configuration",
                written: { $0 },
                find: { path, setting in self.finding(snapshot, ConfigKey(path), setting) },
                present: { _ in [] }
            )
        }

        /// The value as a text. Providers of files tell texts from numbers, so each kind is asked for.
        private static func finding(
            _ snapshot: ConfigSnapshotReader,
            _ key: ConfigKey,
            _ setting: APNSSetting
        ) -> Finding? {
            let isSecret = setting.isSecret
            if let text = snapshot.string(forKey: key, isSecret: isSecret) { return .text(text) }
            if setting.kind == .boolean {
                if let isSo = snapshot.bool(forKey: key) { return .text("\(isSo)") }
            } else if let number = snapshot.int(forKey: key, isSecret: isSecret) {
                return .text("\(number)")
            } else if let number = snapshot.double(forKey: key, isSecret: isSecret) {
                return .text("\(number)")
            }
            // Else a list would be taken for nothing.
            if snapshot.stringArray(forKey: key, isSecret: isSecret) != nil
                || snapshot.intArray(forKey: key, isSecret: isSecret) != nil
            {
                return .unusable("a list")
            }
            return nil
        }
    }
#endif
