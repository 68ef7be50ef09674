#if canImport(CryptoKit) || Sealing
    import APNSBasics

    #if canImport(CryptoKit)
        import CryptoKit
    #else
        import Crypto
    #endif

    /// The device's keys of one Web Push subscription: a key pair on the curve P-256, and a secret that it shares with
    /// the sender (RFC 8291, section 3).
    ///
    /// The app makes them when it subscribes, gives ``p256dh`` and ``auth`` to the server that will send, and stores
    /// ``rawRepresentation`` where its notification service extension can read it.
    ///
    ///     let keys = WebPushKeys()
    ///     // {"endpoint": …, "keys": {"p256dh": keys.p256dh, "auth": keys.auth}}
    ///
    /// Its description and its mirror show no secret.
    public struct WebPushKeys: Sendable {
        private static let secretCount = 16
        private static let rawCount = 32 + secretCount

        private let privateKey: P256.KeyAgreement.PrivateKey
        private let secret: [UInt8]
        /// The uncompressed point, 65 bytes.
        let publicKey: [UInt8]

        /// Makes random keys.
        public init() {
            let secret = SymmetricKey(size: .bits128).withUnsafeBytes { Array($0) }
            self.init(P256.KeyAgreement.PrivateKey(), secret)
        }

        private init(_ privateKey: P256.KeyAgreement.PrivateKey, _ secret: [UInt8]) {
            self.privateKey = privateKey
            self.secret = secret
            self.publicKey = Array(privateKey.publicKey.x963Representation)
        }

        /// Restores keys from their stored bytes.
        ///
        /// - Throws: `SealingError.Code.keyLengthWrong` unless there are 48 bytes; `keyUnusable` if the first 32 are no
        ///   private key.
        public init(rawRepresentation: [UInt8]) throws(SealingError) {
            guard rawRepresentation.count == Self.rawCount else {
                throw SealingError(.keyLengthWrong, actual: rawRepresentation.count, limit: Self.rawCount)
            }
            let key = rawRepresentation.prefix(32)
            guard let privateKey = try? P256.KeyAgreement.PrivateKey(rawRepresentation: key) else {
                throw SealingError(.keyUnusable)
            }
            self.init(privateKey, Array(rawRepresentation.suffix(Self.secretCount)))
        }

        /// The 32 bytes of the private key and the 16 of the secret, for the Keychain.
        public var rawRepresentation: [UInt8] { Array(self.privateKey.rawRepresentation) + self.secret }

        /// The public key as a sender expects it: 65 bytes as unpadded base64url. It is not a secret.
        public var p256dh: String { Base64.encodeForURL(self.publicKey) }

        /// The secret as a sender expects it: 16 bytes as unpadded base64url. Give it only to the sender.
        public var auth: String { Base64.encodeForURL(self.secret) }

        /// The secret that both sides derive: HKDF over their shared point, with the subscription's secret as salt.
        func agree(with senderKey: [UInt8], info: [UInt8]) throws(Primitives.Failure) -> SymmetricKey {
            let point = try Primitives.agree(self.privateKey, with: senderKey)
            return Primitives.derive(point, salt: self.secret, info: info, count: 32)
        }
    }

    extension WebPushKeys: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
        public var description: String { "WebPushKeys(\(self.p256dh), redacted)" }

        public var debugDescription: String { self.description }

        public var customMirror: Mirror { Mirror(self, children: ["p256dh": self.p256dh], displayStyle: .struct) }
    }
#endif
