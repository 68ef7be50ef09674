#if canImport(CryptoKit) || Sealing
    import APNSBasics

    #if canImport(FoundationEssentials)
        import FoundationEssentials
    #else
        import Foundation
    #endif

    /// A Web Push message as it arrives in a notification: encrypted by its sender, and forwarded unchanged.
    ///
    /// Reading checks only the format; a ``WebPushOpener`` decrypts the content and checks that it is authentic.
    ///
    /// The value of the custom key is an object:
    ///
    ///     id        the subscription, as the app got it when it subscribed
    ///     body      the body of the sender's request, as unpadded base64url
    ///     encoding  "aesgcm"; missing for aes128gcm, whose body has everything else
    ///     salt, dh  with aesgcm: the sender's salt and public key, as unpadded base64url
    public struct WebPushMessage: Sendable, Hashable {
        /// The default custom key for the message.
        public static let defaultKey = "webpush"

        /// The content encoding of a message.
        enum Encoding: Sendable, Hashable {
            /// RFC 8188 and RFC 8291.
            case aes128gcm
            /// The earlier one, of draft-ietf-webpush-encryption-04.
            case aesgcm
        }

        static let pointCount = 65
        static let saltCount = 16

        /// The subscription, which says which keys open the message.
        public let subscription: String
        let encoding: Encoding
        let salt: [UInt8]
        /// The uncompressed point, 65 bytes.
        let senderKey: [UInt8]
        /// With the tag.
        let ciphertext: [UInt8]

        /// Reads the message from a notification's dictionary: `UNNotificationContent.userInfo`.
        ///
        /// - Throws: `SealingError` with `notSealed`, `malformed` or `unsupportedEncoding`.
        public init(userInfo: [AnyHashable: Any], key: String = defaultKey) throws(SealingError) {
            guard let members = userInfo[key] as? [AnyHashable: Any] else { throw SealingError(.notSealed) }
            try self.init { members[$0] as? String }
        }

        /// Reads a message that was too large for its notification (``KeptWebPushMessage``).
        ///
        /// - Parameter body: The gateway's response: the object in JSON bytes.
        /// - Throws: `SealingError` with `notSealed`, `malformed` or `unsupportedEncoding`.
        public init(fetched body: [UInt8]) throws(SealingError) {
            guard let texts = (try? JSONDecoder().decode(Member.self, from: Data(body)))?.texts else {
                throw SealingError(.notSealed)
            }
            try self.init { texts[$0] }
        }

        /// Reads the message from a whole payload in JSON bytes.
        ///
        /// - Throws: `SealingError` with `notSealed`, `malformed` or `unsupportedEncoding`.
        public init(payload: [UInt8], key: String = defaultKey) throws(SealingError) {
            let members = try? JSONDecoder().decode([String: Member].self, from: Data(payload))
            guard let texts = members?[key]?.texts else { throw SealingError(.notSealed) }
            try self.init { texts[$0] }
        }

        private init(_ text: (String) -> String?) throws(SealingError) {
            guard let subscription = text("id"), let body = text("body").flatMap({ Base64.decodeForURL($0.utf8) })
            else {
                throw SealingError(.malformed)
            }
            switch text("encoding") {
            case nil, "aes128gcm":
                try self.init(subscription: subscription, aes128gcm: body)
            case "aesgcm":
                guard let salt = text("salt").flatMap({ Base64.decodeForURL($0.utf8) }),
                    let senderKey = text("dh").flatMap({ Base64.decodeForURL($0.utf8) })
                else {
                    throw SealingError(.malformed)
                }
                try self.init(subscription, .aesgcm, salt: salt, senderKey: senderKey, ciphertext: body)
            default:
                throw SealingError(.unsupportedEncoding)
            }
        }

        /// Reads the body of a request with the content encoding `aes128gcm`: the header of RFC 8188, section 2.1, and
        /// one record.
        init(subscription: String, aes128gcm body: [UInt8]) throws(SealingError) {
            let idAt = Self.saltCount + 4
            guard body.count > idAt, body[idAt] == UInt8(Self.pointCount) else { throw SealingError(.malformed) }
            let recordSize = body[Self.saltCount..<idAt].reduce(0) { $0 << 8 | Int($1) }
            let start = idAt + 1 + Self.pointCount
            // A message has one record (RFC 8291, section 4), which may be shorter than the record size.
            guard body.count - start <= recordSize else { throw SealingError(.malformed) }
            try self.init(
                subscription,
                .aes128gcm,
                salt: Array(body.prefix(Self.saltCount)),
                senderKey: Array(body[(idAt + 1)...].prefix(Self.pointCount)),
                ciphertext: Array(body.dropFirst(start))
            )
        }

        private init(
            _ subscription: String,
            _ encoding: Encoding,
            salt: [UInt8],
            senderKey: [UInt8],
            ciphertext: [UInt8]
        ) throws(SealingError) {
            guard salt.count == Self.saltCount, senderKey.count == Self.pointCount,
                ciphertext.count > Primitives.tagCount
            else {
                throw SealingError(.malformed)
            }
            self.subscription = subscription
            self.encoding = encoding
            self.salt = salt
            self.senderKey = senderKey
            self.ciphertext = ciphertext
        }

        /// A member of the payload: an object whose texts count, or anything else.
        private struct Member: Decodable {
            let texts: [String: String]?

            private struct Text: Decodable {
                let text: String?

                init(from decoder: any Decoder) throws {
                    self.text = try? decoder.singleValueContainer().decode(String.self)
                }
            }

            init(from decoder: any Decoder) throws {
                let members = try? decoder.singleValueContainer().decode([String: Text].self)
                self.texts = members?.compactMapValues(\.text)
            }
        }
    }

    extension WebPushMessage: CustomStringConvertible {
        public var description: String { "WebPushMessage(\(self.subscription), \(self.ciphertext.count) bytes)" }
    }
#endif
