#if Configuration
    public import Configuration

    /// For programs configured with swift-configuration. Requires the package's trait `Configuration`.
    @available(macOS 15.0, iOS 18.0, watchOS 11.0, tvOS 18.0, visionOS 2.0, *)
    extension APNSClientConfiguration {
        /// Creates a configuration from a reader's providers: environment variables, JSON, YAML and others.
        ///
        /// ```swift
        /// let reader = ConfigReader(provider: EnvironmentVariablesProvider())
        /// let configuration = try APNSClientConfiguration(reader)
        /// ```
        /// `Docs/Configuration.md` lists all keys. Settings that no provider has keep their defaults. Secrets are read
        /// as secrets, so access logs do not contain them. The files of keys and certificates are read now to detect
        /// errors in them; this blocks. Unknown keys are not detected, because a reader cannot list its keys.
        ///
        /// - Parameters:
        ///   - reader: Read once, as one snapshot.
        ///   - prefix: The prefix of all keys; empty for a reader that is already scoped.
        /// - Throws: ``APNSSettingsError`` with all errors.
        public init(_ reader: ConfigReader, prefix: String = "apns") throws(APNSSettingsError) {
            try self.init(settings: [.reader(reader)], prefix: prefix)
        }
    }

    @available(macOS 15.0, iOS 18.0, watchOS 11.0, tvOS 18.0, visionOS 2.0, *)
    extension APNSSettingsSource {
        /// The current values of a swift-configuration reader, for `apply(settings:)` and alongside other sources.
        public static func reader(_ reader: ConfigReader) -> APNSSettingsSource {
            let snapshot = reader.snapshot()
            return APNSSettingsSource(
                name: "configuration",
                written: { $0 },
                find: { self.finding(snapshot, ConfigKey($0), $1, isSecret: $2) },
                present: { _ in [] }
            )
        }

        /// Returns the value as text. File providers distinguish text from numbers, so each type is tried.
        private static func finding(
            _ snapshot: ConfigSnapshotReader,
            _ key: ConfigKey,
            _ kind: SettingKind,
            isSecret: Bool
        ) -> Finding? {
            if let text = snapshot.string(forKey: key, isSecret: isSecret) { return .text(text) }
            if kind == .boolean {
                if let isSo = snapshot.bool(forKey: key) { return .text("\(isSo)") }
            } else if let number = snapshot.int(forKey: key, isSecret: isSecret) {
                return .text("\(number)")
            } else if let number = snapshot.double(forKey: key, isSecret: isSecret) {
                return .text("\(number)")
            }
            // Without this check, a list would count as a missing value.
            if let texts = snapshot.stringArray(forKey: key, isSecret: isSecret) { return .list(texts) }
            if let numbers = snapshot.intArray(forKey: key, isSecret: isSecret) {
                return .list(numbers.map { "\($0)" })
            }
            return nil
        }
    }
#endif
