#if canImport(CryptoKit) || Sealing
    /// Why a payload could not be sealed or opened, or a key not be made.
    ///
    /// What fails the authentication of a sealed payload (a wrong key, a changed byte, another purpose) is one code,
    /// ``Code/notAuthentic``, without a further word: telling the cases apart would help only a forger. What differs
    /// otherwise is public, since it stands unencrypted in the payload: the form, the version, the key's id.
    ///
    /// No error holds a key or a part of the content.
    public struct SealingError: Error, Sendable, Hashable, CustomStringConvertible {
        /// What is wrong. Open: later versions may add codes.
        public struct Code: RawRepresentable, Sendable, Hashable, Codable, CustomStringConvertible {
            public let rawValue: String

            public init(rawValue: String) {
                self.rawValue = rawValue
            }

            public var description: String { self.rawValue }

            /// Sealing: the content is longer than the size allows. `actual` and `limit` are bytes.
            public static let contentTooLong = Code(rawValue: "contentTooLong")
            /// Sealing: the value's `encode(to:)` threw, or it holds what JSON has no form for.
            public static let notEncodable = Code(rawValue: "notEncodable")
            /// Sealing: a size that leaves no room for content, or more than 65,535 bytes of it.
            public static let sizeImpossible = Code(rawValue: "sizeImpossible")
            /// Opening: the payload has no text under the key, or is no JSON object.
            public static let notSealed = Code(rawValue: "notSealed")
            /// Opening: the text is not unpadded base64url, or too short.
            public static let malformed = Code(rawValue: "malformed")
            /// Opening: a version that this one does not know. It stands in `actual`, the known one in `limit`.
            public static let unsupportedVersion = Code(rawValue: "unsupportedVersion")
            /// Opening: no key of this id is accepted, or not any more. The id stands in `keyID`.
            public static let unknownKey = Code(rawValue: "unknownKey")
            /// Opening: not sealed with this key for this purpose, or changed since.
            public static let notAuthentic = Code(rawValue: "notAuthentic")
            /// After opening: the content is authentic and does not decode as the type that was asked for.
            public static let notDecodable = Code(rawValue: "notDecodable")
            /// After opening: this message was admitted before.
            public static let replayed = Code(rawValue: "replayed")
            /// After opening: so old that whether it was admitted before is no longer known.
            public static let tooOld = Code(rawValue: "tooOld")
            /// After opening: sealed later than now, by more than the tolerance.
            public static let fromTheFuture = Code(rawValue: "fromTheFuture")
            /// Keys: not as many bytes as a key has. Both numbers stand in `actual` and `limit`.
            public static let keyLengthWrong = Code(rawValue: "keyLengthWrong")
            /// Keys: a public key that no honest peer has; agreeing with it would give a secret that everybody knows.
            public static let publicKeyUnusable = Code(rawValue: "publicKeyUnusable")
        }

        /// What is wrong.
        public var code: Code
        /// What was found, where the code says so.
        public var actual: Int?
        /// What was the most, or the only thing, that could be, where the code says so.
        public var limit: Int?
        /// The id of the key, where the code says so.
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
            case .sizeImpossible: "no content fits into this size, or more than the form can say"
            case .notSealed: "the payload has no sealed text under this key"
            case .malformed: "the sealed text is not unpadded base64url, or was cut off"
            case .unsupportedVersion: "the payload was sealed in a version that this one does not know"
            case .unknownKey: "no key of this id is accepted"
            case .notAuthentic: "the payload was not sealed with this key for this purpose, or was changed"
            case .notDecodable: "the content does not decode as the type that was asked for"
            case .replayed: "this message was admitted before"
            case .tooOld: "this message is too old to say whether it was admitted before"
            case .fromTheFuture: "this message was sealed later than now"
            case .keyLengthWrong: "a key does not have this many bytes"
            case .publicKeyUnusable: "this public key must not be agreed with"
            default: self.code.rawValue
            }
        }
    }
#endif
