#if canImport(CryptoKit) || Sealing
    import APNSBasics

    #if canImport(CryptoKit)
        import CryptoKit
    #else
        import Crypto
    #endif

    /// Identifies a key in every payload that it sealed, unencrypted, so that the receiver can find the key. It reveals
    /// nothing about the key.
    ///
    /// Eight bytes; its text form is 16 hexadecimal digits.
    public struct SealingKeyID: RawRepresentable, Sendable, Hashable, Codable, CustomStringConvertible {
        static let count = 8

        public let rawValue: UInt64

        public init(rawValue: UInt64) {
            self.rawValue = rawValue
        }

        /// Reads the number from the first eight bytes, big-endian.
        init(_ bytes: some Sequence<UInt8>) {
            self.rawValue = bytes.prefix(Self.count).reduce(0) { $0 &<< 8 | UInt64($1) }
        }

        var bytes: [UInt8] {
            stride(from: 56, through: 0, by: -8).map { UInt8(truncatingIfNeeded: self.rawValue &>> UInt64($0)) }
        }

        public var description: String { Hexadecimal.text(of: self.bytes) }
    }

    /// The secret that one device and its server share: 256 bits, with a public id.
    ///
    /// Use a key for one device only. A key comes from ``SealingKeyPair/agree(with:as:context:)``, or is random and
    /// reaches the device over your own channel.
    ///
    /// Its description, its debug description and its mirror contain only the id. For this reason it is not `Codable`
    /// either. To store it, save its ``rawRepresentation`` in a store for secrets.
    public struct SealingKey: Sendable, Equatable {
        /// Identifies the key without revealing it.
        public let id: SealingKeyID
        let secret: SymmetricKey

        init(id: SealingKeyID, secret: SymmetricKey) {
            self.id = id
            self.secret = secret
        }

        /// A random key with a random id.
        public init() {
            self.init(
                id: SealingKeyID(rawValue: UInt64.random(in: .min ... .max)),
                secret: SymmetricKey(size: .bits256)
            )
        }

        /// Creates a key from its stored id and 32 bytes.
        ///
        /// - Throws: `SealingError.Code.keyLengthWrong`.
        public init(id: SealingKeyID, rawRepresentation: [UInt8]) throws(SealingError) {
            guard rawRepresentation.count == Primitives.keyCount else {
                throw SealingError(.keyLengthWrong, actual: rawRepresentation.count, limit: Primitives.keyCount)
            }
            self.init(id: id, secret: SymmetricKey(data: rawRepresentation))
        }

        /// The 32 secret bytes, for the Keychain or an encrypted database.
        public var rawRepresentation: [UInt8] {
            self.secret.withUnsafeBytes { Array($0) }
        }

        /// Compares the secrets in constant time.
        public static func == (left: SealingKey, right: SealingKey) -> Bool {
            left.id == right.id && left.secret == right.secret
        }
    }

    extension SealingKey: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
        public var description: String { "SealingKey(\(self.id), redacted)" }

        public var debugDescription: String { self.description }

        public var customMirror: Mirror { Mirror(self, children: ["id": self.id], displayStyle: .struct) }
    }
#endif
