#if canImport(CryptoKit) || Sealing
    import APNSBasics

    #if canImport(CryptoKit)
        import CryptoKit
    #else
        import Crypto
    #endif

    /// The public half of a ``SealingKeyPair``: 32 bytes (X25519, RFC 7748). It is not a secret.
    ///
    /// Coded as unpadded base64url text, which is also its description.
    public struct SealingPublicKey: Sendable, Hashable, CustomStringConvertible {
        /// The key's 32 bytes.
        public let rawRepresentation: [UInt8]

        /// - Throws: `SealingError.Code.keyLengthWrong`, unless there are 32 bytes.
        public init(rawRepresentation: [UInt8]) throws(SealingError) {
            guard rawRepresentation.count == Primitives.agreementKeyCount else {
                throw SealingError(
                    .keyLengthWrong,
                    actual: rawRepresentation.count,
                    limit: Primitives.agreementKeyCount
                )
            }
            self.rawRepresentation = rawRepresentation
        }

        fileprivate init(of privateKey: Curve25519.KeyAgreement.PrivateKey) {
            self.rawRepresentation = Array(privateKey.publicKey.rawRepresentation)
        }

        public var description: String { Base64.encodeForURL(self.rawRepresentation) }
    }

    extension SealingPublicKey: Codable {
        public init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            guard let bytes = Base64.decodeForURL(try container.decode(String.self).utf8),
                let key = try? SealingPublicKey(rawRepresentation: bytes)
            else {
                throw DecodingError.dataCorruptedError(
                    in: container,
                    debugDescription: "A public key is 32 bytes as unpadded base64url."
                )
            }
            self = key
        }

        public func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            try container.encode(self.description)
        }
    }

    /// One side's key pair. With it, a device and a server derive the same ``SealingKey`` over a channel that others
    /// may read but not change.
    ///
    ///     // the device, when it registers its device token
    ///     let pair = SealingKeyPair()
    ///     // it sends pair.publicKey, and gets the server's back
    ///     let key = try pair.agree(with: serverPublicKey, as: .device, context: "com.grasscove.Fern/user/4711")
    ///
    /// The server calls it `as: .server`, with the same context. Create a pair for one agreement and
    /// then discard it; a new pair rotates the key.
    ///
    /// The derivation, for other implementations:
    ///
    ///     secret = X25519(own private key, other's public key)
    ///     info   = device's public key (32 bytes) ‖ server's public key (32 bytes) ‖ context as UTF-8
    ///     key    = HKDF-SHA256(secret, salt: "apns-sealing/1", info: 0x01 ‖ info, 32 bytes)
    ///     id     = HKDF-SHA256(secret, salt: "apns-sealing/1", info: 0x02 ‖ info, 8 bytes)
    public struct SealingKeyPair: Sendable {
        /// A side of the agreement. Both public keys are used in the derivation, the device's first.
        public enum Role: Sendable, Hashable {
            /// The side that opens payloads.
            case device
            /// The side that seals payloads.
            case server
        }

        private let privateKey: Curve25519.KeyAgreement.PrivateKey

        /// The public key, which the other side needs.
        public let publicKey: SealingPublicKey

        /// Creates a random pair.
        public init() {
            self.privateKey = Curve25519.KeyAgreement.PrivateKey()
            self.publicKey = SealingPublicKey(of: self.privateKey)
        }

        /// Restores a pair from its private key, which was stored while an agreement was waiting for the other side.
        ///
        /// - Throws: `SealingError.Code.keyLengthWrong`, unless there are 32 bytes.
        public init(rawRepresentation: [UInt8]) throws(SealingError) {
            do {
                self.privateKey = try Curve25519.KeyAgreement.PrivateKey(rawRepresentation: rawRepresentation)
            } catch {
                throw SealingError(
                    .keyLengthWrong,
                    actual: rawRepresentation.count,
                    limit: Primitives.agreementKeyCount
                )
            }
            self.publicKey = SealingPublicKey(of: self.privateKey)
        }

        /// The 32 secret bytes of the private key, for the Keychain.
        public var rawRepresentation: [UInt8] { Array(self.privateKey.rawRepresentation) }

        /// Derives the key that both sides share.
        ///
        /// - Parameters:
        ///   - publicKey: The other side's public key.
        ///   - role: This side's role.
        ///   - context: Other facts that both sides know and must agree on: the app, the account, the environment. It
        ///     may have any length. Sides with different contexts derive different keys.
        /// - Throws: `SealingError.Code.publicKeyUnusable` for a public key of low order.
        public func agree(
            with publicKey: SealingPublicKey,
            as role: Role,
            context: String
        ) throws(SealingError) -> SealingKey {
            let secret: SymmetricKey
            do {
                secret = try Primitives.agree(self.privateKey, with: publicKey.rawRepresentation)
            } catch {
                throw SealingError(.publicKeyUnusable)
            }
            let (device, server) =
                switch role {
                case .device: (self.publicKey, publicKey)
                case .server: (publicKey, self.publicKey)
                }
            let info = device.rawRepresentation + server.rawRepresentation + Array(context.utf8)
            let salt = Array("apns-sealing/1".utf8)
            let id = Primitives.derive(secret, salt: salt, info: [2] + info, count: SealingKeyID.count)
            return SealingKey(
                id: id.withUnsafeBytes { SealingKeyID($0) },
                secret: Primitives.derive(secret, salt: salt, info: [1] + info, count: Primitives.keyCount)
            )
        }
    }

    extension SealingKeyPair: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
        public var description: String { "SealingKeyPair(\(self.publicKey), redacted)" }

        public var debugDescription: String { self.description }

        public var customMirror: Mirror { Mirror(self, children: ["publicKey": self.publicKey], displayStyle: .struct) }
    }
#endif
