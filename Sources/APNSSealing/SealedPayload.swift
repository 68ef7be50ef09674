#if canImport(CryptoKit) || Sealing
    import APNSBasics

    #if canImport(FoundationEssentials)
        import FoundationEssentials
    #else
        import Foundation
    #endif

    /// Identifies one message by the nonce it was sealed with. Coded as unpadded base64url text.
    public struct SealedMessageID: Sendable, Hashable, CustomStringConvertible {
        /// The 12 bytes of the nonce.
        let bytes: [UInt8]

        init(_ bytes: some Sequence<UInt8>) {
            self.bytes = Array(bytes)
        }

        public var description: String { Base64.encodeForURL(self.bytes) }
    }

    extension SealedMessageID: Codable {
        public init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            guard let bytes = Base64.decodeForURL(try container.decode(String.self).utf8),
                bytes.count == Primitives.nonceCount
            else {
                throw DecodingError.dataCorruptedError(
                    in: container,
                    debugDescription: "A message id is 12 bytes as unpadded base64url."
                )
            }
            self.init(bytes)
        }

        public func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            try container.encode(self.description)
        }
    }

    /// A sealed payload: the value of one custom key of a notification, which only the device can read.
    ///
    /// On the server it is a value for any JSON encoder, coded as its ``text``. On the device it is read from the
    /// notification. Reading checks only the format; a ``PayloadOpener`` decrypts the content and checks that it is
    /// authentic.
    ///
    /// The text is unpadded base64url (RFC 4648 §5) of these bytes, version 1:
    ///
    ///     offset  bytes
    ///     0       1      version: 1
    ///     1       8      id of the key, big-endian
    ///     9       12     nonce, random
    ///     21      m      ciphertext (ChaCha20, RFC 8439)
    ///     21 + m  16     tag (Poly1305)
    ///
    /// The plaintext, which is as long as the ciphertext:
    ///
    ///     0       6      when it was sealed: milliseconds since 1970, big-endian
    ///     6       2      n, the length of the content, big-endian
    ///     8       n      the content
    ///     8 + n   …      zeros, up to the sealer's size
    ///
    /// The associated data, which is authenticated but not sent in this form:
    ///
    ///     0       12     "apns-sealing"
    ///     12      1      version
    ///     13      8      id of the key
    ///     21      …      the purpose as UTF-8
    public struct SealedPayload: Sendable, Hashable {
        /// The default custom key for the sealed text.
        public static let defaultKey = "sealed"

        static let version: UInt8 = 1
        /// The version and the id of the key.
        static let headerCount = 1 + SealingKeyID.count
        /// The number of bytes that sealing adds to content, without padding.
        static let overhead = headerCount + Primitives.nonceCount + Frame.overhead + Primitives.tagCount

        let bytes: [UInt8]

        /// The key id that the payload states. Not authenticated yet.
        public let keyID: SealingKeyID

        /// Parses the bytes.
        init(bytes: [UInt8]) throws(SealingError) {
            guard let version = bytes.first else { throw SealingError(.malformed) }
            // Check the version first, because a later version may be shorter.
            guard version == Self.version else {
                throw SealingError(.unsupportedVersion, actual: Int(version), limit: Int(Self.version))
            }
            guard bytes.count >= Self.overhead else { throw SealingError(.malformed) }
            self.bytes = bytes
            self.keyID = SealingKeyID(bytes[1...])
        }

        /// Parses the text of the custom key.
        ///
        /// - Throws: `SealingError` with `malformed` or `unsupportedVersion`.
        public init(text: String) throws(SealingError) {
            guard let bytes = Base64.decodeForURL(text.utf8) else { throw SealingError(.malformed) }
            try self.init(bytes: bytes)
        }

        /// Reads the sealed text from a notification's dictionary: `UNNotificationContent.userInfo`,
        /// `PKPushPayload.dictionaryPayload`, or the argument of `application(_:didReceiveRemoteNotification:)`.
        ///
        /// - Throws: `SealingError` with `notSealed`, `malformed` or `unsupportedVersion`.
        public init(userInfo: [AnyHashable: Any], key: String = defaultKey) throws(SealingError) {
            guard let text = userInfo[key] as? String else { throw SealingError(.notSealed) }
            try self.init(text: text)
        }

        /// Reads the sealed text from a whole payload in JSON bytes.
        ///
        /// - Throws: `SealingError` with `notSealed`, `malformed` or `unsupportedVersion`.
        public init(payload: [UInt8], key: String = defaultKey) throws(SealingError) {
            guard let members = try? JSONDecoder().decode([String: Member].self, from: Data(payload)),
                let text = members[key]?.text
            else {
                throw SealingError(.notSealed)
            }
            try self.init(text: text)
        }

        /// The value for the custom key: always ``SealedSize/textCount`` characters, none of which JSON escapes.
        public var text: String { Base64.encodeForURL(self.bytes) }

        /// The associated data: the bytes that are authenticated in addition to the plaintext.
        static func associatedData(header: some Sequence<UInt8>, purpose: SealingPurpose) -> [UInt8] {
            Array("apns-sealing".utf8) + header + Array(purpose.rawValue.utf8)
        }

        var header: ArraySlice<UInt8> { self.bytes[..<Self.headerCount] }

        /// The nonce, the ciphertext and the tag.
        var combined: ArraySlice<UInt8> { self.bytes[Self.headerCount...] }

        var messageID: SealedMessageID { SealedMessageID(self.combined.prefix(Primitives.nonceCount)) }

        /// A member of the payload: text, or anything else.
        private struct Member: Decodable {
            let text: String?

            init(from decoder: any Decoder) throws {
                self.text = try? decoder.singleValueContainer().decode(String.self)
            }
        }
    }

    extension SealedPayload: Codable {
        /// Decodes its text. A text of the wrong format is a `DecodingError`.
        public init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            let text = try container.decode(String.self)
            do {
                try self.init(text: text)
            } catch {
                throw DecodingError.dataCorruptedError(in: container, debugDescription: "\(error)")
            }
        }

        public func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            try container.encode(self.text)
        }
    }

    extension SealedPayload: CustomStringConvertible {
        public var description: String { "SealedPayload(key \(self.keyID), \(self.bytes.count) bytes)" }
    }
#endif
