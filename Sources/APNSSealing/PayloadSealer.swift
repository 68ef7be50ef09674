#if canImport(CryptoKit) || Sealing
    #if canImport(FoundationEssentials)
        public import FoundationEssentials
    #else
        public import Foundation
    #endif

    /// What a payload is for. It is bound to the payload and not sent: sealed for one purpose, it opens for no other, so
    /// that nobody on the way can pass off a sealed message as a sealed call.
    ///
    /// Open: any text. A topic makes a good purpose where several apps share a key.
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
    /// Each call draws a new random nonce, which is spent whatever becomes of the push. To send again after a failure, send
    /// the same notification again: the device recognises the second copy (``ReplayWindow``). Sealed again, it would be
    /// another message. 96 random bits allow 2³² messages a key; a device sees far fewer before its key is rotated.
    ///
    /// A value without state: it may be kept, copied, shared and thrown away.
    public struct PayloadSealer: Sendable {
        /// The device's key.
        public let key: SealingKey
        /// What the payloads are sealed for.
        public let purpose: SealingPurpose
        /// The length that all of them are padded to.
        public let size: SealedSize

        private let header: [UInt8]
        private let associatedData: [UInt8]

        /// - Parameters:
        ///   - key: the device's current key.
        ///   - purpose: what the payloads are for; the device must know.
        ///   - size: how large every payload is. The device need not know.
        public init(key: SealingKey, purpose: SealingPurpose = .notification, size: SealedSize = .standard) {
            self.key = key
            self.purpose = purpose
            self.size = size
            self.header = [SealedPayload.version] + key.id.bytes
            self.associatedData = SealedPayload.associatedData(header: self.header, purpose: purpose)
        }

        /// Seals bytes, of any number up to the limit of ``size``.
        ///
        /// - Parameters:
        ///   - content: what the device gets.
        ///   - now: the time that goes along, in secret, for ``ReplayWindow``.
        /// - Throws: `SealingError.Code.contentTooLong` with length and limit.
        public func seal(bytes content: [UInt8], at now: Date = Date()) throws(SealingError) -> SealedPayload {
            try self.seal(bytes: content, at: now, nonce: Primitives.freshNonce())
        }

        /// As the form with an array; for `Data` and others.
        public func seal(bytes content: some Sequence<UInt8>, at now: Date = Date()) throws(SealingError)
            -> SealedPayload
        {
            try self.seal(bytes: Array(content), at: now)
        }

        /// Seals a value as JSON.
        ///
        /// - Parameters:
        ///   - value: what the device gets, encoded by Foundation's `JSONEncoder` as it is by default.
        ///   - now: the time that goes along, in secret, for ``ReplayWindow``.
        /// - Throws: `SealingError` with `notEncodable`, or `contentTooLong` with length and limit.
        public func seal(encoding value: some Encodable, at now: Date = Date()) throws(SealingError) -> SealedPayload {
            guard let content = try? JSONEncoder().encode(value) else { throw SealingError(.notEncodable) }
            return try self.seal(bytes: Array(content), at: now)
        }

        /// With a nonce of the tests' choosing. A nonce that is used twice under one key gives both contents away.
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
                // ChaCha20-Poly1305 refuses only what is longer than 256 GiB.
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
