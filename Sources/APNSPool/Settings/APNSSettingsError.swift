/// What is wrong with the settings that a client's configuration was to be made of: all of it at once.
public struct APNSSettingsError: Error, Sendable, Hashable, CustomStringConvertible {
    /// One setting that cannot be used.
    public struct Fault: Sendable, Hashable, CustomStringConvertible {
        /// What is wrong.
        public let code: APNSConfigurationError.Code
        /// The setting's key with its prefix, as in `Docs/Configuration.md`: `apns.pool.size`.
        public let key: String
        /// The key as it stands in its source: `APNS_POOL_SIZE`. Of a setting that is missing: how it could be written.
        public let written: String
        /// Where it stands: `environment`, a file's name. Nil: nowhere, it is missing.
        public let source: String?
        /// What was found, unless it is a secret, and what would be right.
        public let message: String

        public var description: String {
            "\(self.written)\(self.source.map { " (\($0))" } ?? ""): \(self.message)"
        }
    }

    /// At least one.
    public let faults: [Fault]

    /// One line for each fault.
    public var description: String {
        "APNs client settings: " + self.faults.map(\.description).joined(separator: "\n")
    }
}
