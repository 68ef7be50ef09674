/// The errors in the settings of a client's configuration, reported together. An error in a combination of valid
/// settings may be found only after all others are fixed.
public struct APNSSettingsError: Error, Sendable, Hashable, CustomStringConvertible {
    /// One setting that cannot be used.
    public struct Fault: Sendable, Hashable, CustomStringConvertible {
        /// The kind of error.
        public let code: APNSConfigurationError.Code
        /// The setting's key with its prefix, as in `Docs/Configuration.md`: `apns.pool.size`. For an unknown setting:
        /// its name in the source. For a settings file that cannot be used: its path.
        public let key: String
        /// The key as written in its source: `APNS_POOL_SIZE`. For a missing setting: how you could write it.
        public let written: String
        /// The location of the setting: `environment`, or a file's name. Nil if `written` is sufficient, and if the
        /// setting is missing.
        public let source: String?
        /// What is wrong. For an invalid value: the value, unless it is a secret or a long text, and what is expected.
        public let message: String

        public var description: String {
            "\(self.written)\(self.source.map { " (\($0))" } ?? ""): \(self.message)"
        }
    }

    /// All errors; at least one.
    public let faults: [Fault]

    /// One line for each error.
    public var description: String {
        "APNs client settings: " + self.faults.map(\.description).joined(separator: "\n")
    }
}
