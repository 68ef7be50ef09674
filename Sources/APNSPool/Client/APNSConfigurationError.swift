/// A setting of the client that cannot work, found before anything is sent.
///
/// Nothing but a change of the configuration helps: the same settings give the same error again.
public struct APNSConfigurationError: Error, Sendable, Hashable, CustomStringConvertible {
    /// What is wrong with the setting. Later versions may add codes, so a `switch` needs a default.
    public struct Code: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
        /// The name of the code, as in logs.
        public let rawValue: String

        /// Makes a code of any name.
        public init(rawValue: String) {
            self.rawValue = rawValue
        }

        public var description: String { self.rawValue }

        /// A setting that is needed is absent or empty.
        public static let missing = Code(rawValue: "missing")
        /// The file does not exist or cannot be read.
        public static let fileUnreadable = Code(rawValue: "file-unreadable")
        /// The text or file is not a private key at all (a certificate, a public key, something else).
        public static let notAKey = Code(rawValue: "not-a-key")
        /// The key is protected by a password.
        public static let keyEncrypted = Code(rawValue: "key-encrypted")
        /// The key is cut off or damaged.
        public static let keyDamaged = Code(rawValue: "key-damaged")
        /// The key is a good one for another purpose: RSA, or another curve than P-256.
        public static let keyTypeWrong = Code(rawValue: "key-type-wrong")
        /// A key id or a team id has the wrong form.
        public static let identifierInvalid = Code(rawValue: "identifier-invalid")
        /// Two settings contradict each other, for example a key id and the name of the key's file.
        public static let conflict = Code(rawValue: "conflict")
        /// A number or a time is outside its limits.
        public static let outOfRange = Code(rawValue: "out-of-range")
    }

    /// What is wrong.
    public let code: Code
    /// Which setting is wrong, as a path: `authentication.keyFile`, `pool.size`.
    public let setting: String
    /// What was found and what to do about it, for people. Holds no secret.
    public let message: String

    /// - Parameters:
    ///   - code: What is wrong.
    ///   - setting: Which setting is wrong, as a path: `pool.size`.
    ///   - message: What was found and what to do about it. It is printed and logged, so it must hold no secret.
    public init(_ code: Code, setting: String, message: String) {
        self.code = code
        self.setting = setting
        self.message = message
    }

    public var description: String {
        "APNs client configuration, \(self.setting): \(self.message) (\(self.code))"
    }
}
