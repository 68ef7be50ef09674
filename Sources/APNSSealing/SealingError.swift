#if canImport(CryptoKit) || Sealing
    /// The reason why a payload could not be sealed or opened, or a key could not be made.
    ///
    /// Every failed authentication of a sealed payload (a wrong key, a changed byte, another purpose) has one code,
    /// ``Code/notAuthentic``, without further details: distinguishing the cases would help only a forger. The other
    /// opening errors reveal only public data that is unencrypted in the payload: the format, the version and the key's
    /// id.
    ///
    /// No error contains a key or a part of the content.
    public struct SealingError: Error, Sendable, Hashable, CustomStringConvertible {
        /// The kind of error. Later versions may add codes.
        public struct Code: RawRepresentable, Sendable, Hashable, Codable, CustomStringConvertible {
            public let rawValue: String

            public init(rawValue: String) {
                self.rawValue = rawValue
            }

            public var description: String { self.rawValue }

            /// Sealing: the content is longer than the size allows. `actual` and `limit` are bytes.
            public static let contentTooLong = Code(rawValue: "contentTooLong")
            /// Sealing: the value's `encode(to:)` threw, or the value contains data that JSON cannot express.
            public static let notEncodable = Code(rawValue: "notEncodable")
            /// Sealing: the size leaves no room for content, or room for more than 65,535 bytes.
            public static let sizeImpossible = Code(rawValue: "sizeImpossible")
            /// Opening: the payload has no text under the key, or is not a JSON object.
            public static let notSealed = Code(rawValue: "notSealed")
            /// Opening: the text is not unpadded base64url, or is too short.
            public static let malformed = Code(rawValue: "malformed")
            /// Opening: the version is not supported. `actual` contains it, and `limit` contains the supported version.
            public static let unsupportedVersion = Code(rawValue: "unsupportedVersion")
            /// Opening: no key with this id is accepted, or it is no longer accepted. `keyID` contains the id.
            public static let unknownKey = Code(rawValue: "unknownKey")
            /// Opening: the payload was not sealed with this key for this purpose, or was changed since.
            public static let notAuthentic = Code(rawValue: "notAuthentic")
            /// After opening: the content is authentic but cannot be decoded as the requested type.
            public static let notDecodable = Code(rawValue: "notDecodable")
            /// After opening: this message was admitted before.
            public static let replayed = Code(rawValue: "replayed")
            /// After opening: the message is so old that it is no longer known whether it was admitted before.
            public static let tooOld = Code(rawValue: "tooOld")
            /// After opening: the message's time is in the future by more than the tolerance.
            public static let fromTheFuture = Code(rawValue: "fromTheFuture")
            /// Keys: the number of bytes is not that of a key. `actual` and `limit` contain both numbers.
            public static let keyLengthWrong = Code(rawValue: "keyLengthWrong")
            /// Opening: the content encoding of the Web Push message is not supported.
            public static let unsupportedEncoding = Code(rawValue: "unsupportedEncoding")
            /// Keys: the stored bytes are not those of a private key.
            public static let keyUnusable = Code(rawValue: "keyUnusable")
            /// Keys: a public key that no honest peer has. Agreeing with it would produce a publicly known secret.
            public static let publicKeyUnusable = Code(rawValue: "publicKeyUnusable")
        }

        /// The kind of error.
        public var code: Code
        /// The actual value, for codes that document it.
        public var actual: Int?
        /// The maximum or the only allowed value, for codes that document it.
        public var limit: Int?
        /// The id of the key, for codes that document it.
        public var keyID: SealingKeyID?

        init(_ code: Code, actual: Int? = nil, limit: Int? = nil, keyID: SealingKeyID? = nil) {
            self.code = code
            self.actual = actual
            self.limit = limit
            self.keyID = keyID
        }

        public var description: String {
            var text = self.explanation
            if let actual, let limit {
                text += " (\(actual) instead of \(self.code == .contentTooLong ? "at most " : "")\(limit))"
            }
            if let keyID {
                text += ": \(keyID)"
            }
            return text
        }

        private var explanation: String {
            switch self.code {
            case .contentTooLong: "the content has more bytes than the sealed size holds"
            case .notEncodable: "the value cannot be written as JSON"
            case .sizeImpossible: "the size must have room for 1 to 65,535 bytes of content"
            case .notSealed: "the payload has no sealed text under this key"
            case .malformed: "the sealed text is not unpadded base64url, or was cut off"
            case .unsupportedVersion: "the payload was sealed in a version that this library does not support"
            case .unknownKey: "the keyring accepts no key with this id"
            case .notAuthentic: "the payload was not sealed with this key for this purpose, or was changed"
            case .notDecodable: "the content does not decode as the requested type"
            case .replayed: "this message was admitted before"
            case .tooOld: "this message is too old to say whether it was admitted before"
            case .fromTheFuture: "this message was sealed later than now"
            case .keyLengthWrong: "the key has the wrong number of bytes"
            case .unsupportedEncoding: "the Web Push message has a content encoding that this library does not support"
            case .keyUnusable: "the bytes are not a private key"
            case .publicKeyUnusable: "this public key is not safe for key agreement"
            default: self.code.rawValue
            }
        }
    }
#endif
