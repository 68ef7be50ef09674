#if canImport(CryptoKit) || Sealing
    import APNSBasics

    #if canImport(FoundationEssentials)
        import FoundationEssentials
    #else
        import Foundation
    #endif

    /// Names one message: the nonce it was sealed with. Coded as unpadded base64url text.
    public struct SealedMessageID: Sendable, Hashable, CustomStringConvertible {
        /// 12 of them.
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

    /// A sealed payload: what stands under one custom key of a notification and only the device can read.
    ///
    /// On the server it is a value for any JSON encoder, coded as its ``text``; on the device it is read from the
    /// notification. Reading checks the form only: what is in it, and whether it is genuine, a ``PayloadOpener`` says.
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
    /// The plaintext, as long as the ciphertext:
    ///
    ///     0       6      when it was sealed: milliseconds since 1970, big-endian
    ///     6       2      n, the length of the content, big-endian
    ///     8       n      the content
    ///     8 + n   …      zeros, up to the sealer's size
    ///
    /// The associated data, which is authenticated and not sent as such:
    ///
    ///     0       12     "apns-sealing"
    ///     12      1      version
    ///     13      8      id of the key
    ///     21      …      the purpose as UTF-8
    public struct SealedPayload: Sendable, Hashable {
        /// The custom key it stands under unless you choose another.
        public static let defaultKey = "sealed"

        static let version: UInt8 = 1
        /// The version and the id of the key.
        static let headerCount = 1 + SealingKeyID.count
        /// What sealing adds to content, padding aside.
        static let overhead = headerCount + Primitives.nonceCount + Frame.overhead + Primitives.tagCount

        let bytes: [UInt8]

        /// The id of the key that it says it was sealed with. Not authenticated yet.
        public let keyID: SealingKeyID

        /// Reads the bytes' form.
        init(bytes: [UInt8]) throws(SealingError) {
            guard let version = bytes.first else { throw SealingError(.malformed) }
            // First, since a later version may be shorter.
            guard version == Self.version else {
                throw SealingError(.unsupportedVersion, actual: Int(version), limit: Int(Self.version))
            }
            guard bytes.count >= Self.overhead else { throw SealingError(.malformed) }
            self.bytes = bytes
            self.keyID = SealingKeyID(bytes[1...])
        }

        /// Reads the text that stands under the custom key.
        ///
        /// - Throws: `SealingError` with `malformed` or `unsupportedVersion`.
        public init(text: String) throws(SealingError) {
            guard let bytes = Base64.decodeForURL(text.utf8) else { throw SealingError(.malformed) }
            try self.init(bytes: bytes)
        }

        /// Reads a notification's dictionary: `UNNotificationContent.userInfo`, `PKPushPayload.dictionaryPayload`, or what
        /// `application(_:didReceiveRemoteNotification:)` gets.
        ///
        /// - Throws: `SealingError` with `notSealed`, `malformed` or `unsupportedVersion`.
        public init(userInfo: [AnyHashable: Any], key: String = defaultKey) throws(SealingError) {
            guard let text = userInfo[key] as? String else { throw SealingError(.notSealed) }
            try self.init(text: text)
        }

        /// Reads a whole payload as JSON bytes.
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

        /// What stands under the custom key: always ``SealedSize/textCount`` characters, of those that JSON never escapes.
        public var text: String { Base64.encodeForURL(self.bytes) }

        /// The payload's bytes that the key's owner authenticates beside the plaintext, before the purpose.
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
        /// From its text. A fault of its form is a `DecodingError`.
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
