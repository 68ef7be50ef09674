#if canImport(CryptoKit) || Sealing
    import APNSBasics

    #if canImport(CryptoKit)
        import CryptoKit
    #else
        import Crypto
    #endif

    /// Opens Web Push messages on the device: in the notification service extension, or in the app.
    ///
    ///     let message = try WebPushMessage(userInfo: request.content.userInfo)
    ///     let keys = try WebPushKeys(rawRepresentation: keychain.keys(of: message.subscription))
    ///     let content = try WebPushOpener(keys: keys).open(message)
    ///
    /// It opens the content encoding `aes128gcm` (RFC 8291), and the earlier `aesgcm` of
    /// draft-ietf-webpush-encryption-04, which some servers still send.
    public struct WebPushOpener: Sendable {
        private let keys: WebPushKeys

        /// - Parameter keys: The keys of the message's subscription.
        public init(keys: WebPushKeys) {
            self.keys = keys
        }

        /// Opens a message without checking whether it was opened before.
        ///
        /// - Returns: The content that the sender has encrypted. Its format is the sender's.
        /// - Throws: `SealingError` with `notAuthentic` if the message was not encrypted for these keys, or was changed.
        public func open(_ message: WebPushMessage) throws(SealingError) -> [UInt8] {
            let plaintext: [UInt8]
            do {
                let (key, nonce) = try self.keyAndNonce(message)
                plaintext = try Primitives.openAES(message.ciphertext, key: key, nonce: nonce)
            } catch {
                throw SealingError(.notAuthentic)
            }
            let content =
                switch message.encoding {
                case .aes128gcm: Self.contentBeforePadding(plaintext)
                case .aesgcm: Self.contentAfterPadding(plaintext)
                }
            guard let content else { throw SealingError(.notAuthentic) }
            return content
        }

        /// Opens a message that was not opened before. Servers and gateways may deliver a message more than once.
        ///
        /// - Parameters:
        ///   - message: The message.
        ///   - seen: The messages that were opened. It changes only if the message is admitted; store it in that case.
        /// - Returns: The content that the sender has encrypted.
        /// - Throws: `SealingError` with `notAuthentic` or `replayed`.
        public func open(_ message: WebPushMessage, unless seen: inout SeenWebPushes) throws(SealingError) -> [UInt8] {
            let content = try self.open(message)
            try seen.admit(message)
            return content
        }

        private func keyAndNonce(_ message: WebPushMessage) throws(Primitives.Failure) -> (SymmetricKey, [UInt8]) {
            let (device, sender) = (self.keys.publicKey, message.senderKey)
            let name: String
            let info: [UInt8]
            let context: [UInt8]
            switch message.encoding {
            case .aes128gcm:
                name = "aes128gcm"
                info = Self.text("WebPush: info") + device + sender
                context = []
            case .aesgcm:
                name = "aesgcm"
                info = Self.text("Content-Encoding: auth")
                context = Self.text("P-256") + Self.length(device) + device + Self.length(sender) + sender
            }
            let secret = try self.keys.agree(with: sender, info: info)
            let key = Primitives.derive(
                secret,
                salt: message.salt,
                info: Self.text("Content-Encoding: \(name)") + context,
                count: 16
            )
            let nonce = Primitives.derive(
                secret,
                salt: message.salt,
                info: Self.text("Content-Encoding: nonce") + context,
                count: Primitives.nonceCount
            )
            return (key, nonce.withUnsafeBytes { Array($0) })
        }

        /// The text and a byte of zeros.
        private static func text(_ text: String) -> [UInt8] { Array(text.utf8) + [0] }

        private static func length(_ bytes: [UInt8]) -> [UInt8] {
            [UInt8(truncatingIfNeeded: bytes.count >> 8), UInt8(truncatingIfNeeded: bytes.count)]
        }

        /// RFC 8188, section 2: the content of the last record, the delimiter 2, and zeros.
        private static func contentBeforePadding(_ plaintext: [UInt8]) -> [UInt8]? {
            guard let end = plaintext.lastIndex(where: { $0 != 0 }), plaintext[end] == 2 else { return nil }
            return Array(plaintext[..<end])
        }

        /// draft-ietf-webpush-encryption-04, section 4: the length of the padding in two bytes, as many zeros, and the content.
        private static func contentAfterPadding(_ plaintext: [UInt8]) -> [UInt8]? {
            guard plaintext.count >= 2 else { return nil }
            let start = 2 + Int(plaintext[0]) << 8 + Int(plaintext[1])
            guard start <= plaintext.count, plaintext[2..<start].allSatisfy({ $0 == 0 }) else { return nil }
            return Array(plaintext[start...])
        }
    }
#endif
