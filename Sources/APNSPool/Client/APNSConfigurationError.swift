/// An invalid setting of the client, detected before the setting takes effect.
///
/// Repeating the call does not help. Change the configuration, or the file that it names.
public struct APNSConfigurationError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The kind of problem. Later versions may add codes, so a `switch` needs a default.
    public struct Code: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
        /// The name of the code, as it appears in logs.
        public let rawValue: String

        /// Creates a code with any name.
        public init(rawValue: String) {
            self.rawValue = rawValue
        }

        public var description: String { self.rawValue }

        /// A required setting is absent or empty.
        public static let missing = Code(rawValue: "missing")
        /// The file does not exist or cannot be read.
        public static let fileUnreadable = Code(rawValue: "file-unreadable")
        /// The text or file is not a private key, but for example a certificate or a public key.
        public static let notAKey = Code(rawValue: "not-a-key")
        /// The key is protected by a password.
        public static let keyEncrypted = Code(rawValue: "key-encrypted")
        /// The key is truncated or damaged.
        public static let keyDamaged = Code(rawValue: "key-damaged")
        /// The key is valid but of an unsupported type: RSA, or a curve other than P-256.
        public static let keyTypeWrong = Code(rawValue: "key-type-wrong")
        /// A key ID or team ID has the wrong format.
        public static let identifierInvalid = Code(rawValue: "identifier-invalid")
        /// Two settings contradict each other, for example a key ID and the name of the key file.
        public static let conflict = Code(rawValue: "conflict")
        /// A number or duration is out of range.
        public static let outOfRange = Code(rawValue: "out-of-range")
        /// A file that the client would write is in use for something else: it has other contents, or is a folder, a
        /// pipe or a device. Nothing was written to it.
        public static let outputRefused = Code(rawValue: "output-refused")
    }

    /// The kind of problem.
    public let code: Code
    /// The path of the invalid setting: `authentication.keyFile`, `pool.size`.
    public let setting: String
    /// The problem and how to fix it, as text for people. Contains no secrets.
    public let message: String

    /// Creates a configuration error.
    ///
    /// - Parameters:
    ///   - code: the kind of problem.
    ///   - setting: the path of the invalid setting, for example `pool.size`.
    ///   - message: the problem and how to fix it. The message is printed and logged, so it must not contain secrets.
    public init(_ code: Code, setting: String, message: String) {
        self.code = code
        self.setting = setting
        self.message = message
    }

    public var description: String {
        "APNs client configuration, \(self.setting): \(self.message) (\(self.code))"
    }
}
