#if canImport(CryptoKit) || Sealing
    #if canImport(FoundationEssentials)
        public import FoundationEssentials
    #else
        public import Foundation
    #endif

    /// The purpose of a payload. It is bound to the payload but not sent: a payload sealed for one purpose opens for no
    /// other, so nobody in between can pass off a sealed message as a sealed call.
    ///
    /// The purpose can be any text. If several apps share a key, use the topic.
    public struct SealingPurpose: RawRepresentable, Sendable, Hashable, Codable, CustomStringConvertible {
        public let rawValue: String

        public init(rawValue: String) {
            self.rawValue = rawValue
        }

        public var description: String { self.rawValue }

        /// A notification that the service extension rewrites.
        public static let notification = SealingPurpose(rawValue: "notification")
        /// A background push.
        public static let background = SealingPurpose(rawValue: "background")
        /// A call (PushKit).
        public static let call = SealingPurpose(rawValue: "call")
    }

    /// Seals content for one device: pads it to one length, encrypts it, and binds it to the key's id and the purpose.
    ///
    ///     let sealer = PayloadSealer(key: key)
    ///     let sealed = try sealer.seal(encoding: Message(from: "Ada", text: "At eight?"))
    ///     let notification = PushNotification(topic: "com.grasscove.Fern", alert: "New message")
    ///         .mutableContent()
    ///         .custom(key: SealedPayload.defaultKey, sealed)
    ///
    /// Each call uses a new random nonce, which is never reused, even if the push is not sent. To retry after a
    /// failure, resend the identical notification: the device recognizes the second copy (``ReplayWindow``). If you
    /// seal the content again, it is a different message. 96 random bits allow 2³² messages per key; a device receives
    /// far fewer before its key is rotated.
    ///
    /// A value type without state: you can keep, copy, share and discard it.
    public struct PayloadSealer: Sendable {
        /// The device's key.
        public let key: SealingKey
        /// The purpose of the payloads.
        public let purpose: SealingPurpose
        /// The size that all payloads are padded to.
        public let size: SealedSize

        private let header: [UInt8]
        private let associatedData: [UInt8]

        /// - Parameters:
        ///   - key: The device's current key.
        ///   - purpose: The purpose of the payloads; the device must use this purpose too.
        ///   - size: The size of every payload. The device need not know it.
        public init(key: SealingKey, purpose: SealingPurpose = .notification, size: SealedSize = .standard) {
            self.key = key
            self.purpose = purpose
            self.size = size
            self.header = [SealedPayload.version] + key.id.bytes
            self.associatedData = SealedPayload.associatedData(header: self.header, purpose: purpose)
        }

        /// Seals bytes, up to the limit of ``size``.
        ///
        /// - Parameters:
        ///   - content: The content for the device.
        ///   - now: The time of sealing, which is encrypted with the content, for ``ReplayWindow``.
        /// - Throws: `SealingError.Code.contentTooLong` with length and limit.
        public func seal(bytes content: [UInt8], at now: Date = Date()) throws(SealingError) -> SealedPayload {
            try self.seal(bytes: content, at: now, nonce: Primitives.freshNonce())
        }

        /// Seals a sequence of bytes, such as `Data`.
        public func seal(bytes content: some Sequence<UInt8>, at now: Date = Date()) throws(SealingError)
            -> SealedPayload
        {
            try self.seal(bytes: Array(content), at: now)
        }

        /// Seals a value as JSON.
        ///
        /// - Parameters:
        ///   - value: The content for the device, encoded by Foundation's `JSONEncoder` with its default settings.
        ///   - now: The time of sealing, which is encrypted with the content, for ``ReplayWindow``.
        /// - Throws: `SealingError` with `notEncodable`, or `contentTooLong` with length and limit.
        public func seal(encoding value: some Encodable, at now: Date = Date()) throws(SealingError) -> SealedPayload {
            guard let content = try? JSONEncoder().encode(value) else { throw SealingError(.notEncodable) }
            return try self.seal(bytes: Array(content), at: now)
        }

        /// Seals with a given nonce, for tests. A nonce used twice under one key reveals both contents.
        func seal(bytes content: [UInt8], at now: Date, nonce: Primitives.Nonce) throws(SealingError) -> SealedPayload {
            guard content.count <= self.size.contentLimit else {
                throw SealingError(.contentTooLong, actual: content.count, limit: self.size.contentLimit)
            }
            let frame = Frame.bytes(content, time: Milliseconds(now), count: self.size.frameCount)
            let combined: Data
            do {
                combined = try Primitives.seal(
                    frame,
                    key: self.key.secret,
                    nonce: nonce,
                    authenticating: self.associatedData
                )
            } catch {
                // ChaCha20-Poly1305 rejects only content longer than 256 GiB.
                throw SealingError(.contentTooLong, actual: content.count, limit: self.size.contentLimit)
            }
            var bytes: [UInt8] = []
            bytes.reserveCapacity(self.size.sealedCount)
            bytes.append(contentsOf: self.header)
            bytes.append(contentsOf: combined)
            return try SealedPayload(bytes: bytes)
        }
    }

    extension PayloadSealer: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
        public var description: String {
            "PayloadSealer(key \(self.key.id), \(self.purpose), \(self.size.textCount) bytes)"
        }

        public var debugDescription: String { self.description }

        public var customMirror: Mirror {
            Mirror(
                self,
                children: ["keyID": self.key.id, "purpose": self.purpose, "size": self.size],
                displayStyle: .struct
            )
        }
    }
#endif
