#if canImport(CryptoKit) || Sealing
    #if canImport(FoundationEssentials)
        public import FoundationEssentials
    #else
        public import Foundation
    #endif

    /// What was sealed, as it was sealed. Its description and its mirror do not show the content.
    public struct OpenedMessage: Sendable, Hashable {
        /// What the server sealed.
        public let content: [UInt8]
        /// When it was sealed, by the server's clock, to the millisecond.
        public let sealedAt: Date
        /// Names this message among all others.
        public let id: SealedMessageID
        /// The key that opened it. If it is an old one, the server has not rotated yet.
        public let keyID: SealingKeyID

        let time: Milliseconds

        /// The content as JSON of a type.
        ///
        /// - Throws: `SealingError.Code.notDecodable`.
        public func decoded<Value: Decodable>(as type: Value.Type = Value.self) throws(SealingError) -> Value {
            guard let value = try? JSONDecoder().decode(type, from: Data(self.content)) else {
                throw SealingError(.notDecodable)
            }
            return value
        }
    }

    extension OpenedMessage: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
        public var description: String { "OpenedMessage(\(self.id), key \(self.keyID), redacted)" }

        public var debugDescription: String { self.description }

        public var customMirror: Mirror {
            Mirror(
                self,
                children: ["id": self.id, "keyID": self.keyID, "sealedAt": self.sealedAt],
                displayStyle: .struct
            )
        }
    }

    /// Opens sealed payloads on the device: in the notification service extension, or in the app.
    ///
    ///     let opener = PayloadOpener(keyring: keyring)
    ///     let message = try opener.open(SealedPayload(userInfo: request.content.userInfo))
    ///     let fern = try message.decoded(as: Message.self)
    ///
    /// A value; it makes no difference whether one is kept or made for each payload.
    public struct PayloadOpener: Sendable {
        /// The keys that it opens with.
        public var keyring: SealingKeyring
        /// What the payloads must be sealed for.
        public let purpose: SealingPurpose

        /// - Parameters:
        ///   - keyring: the keys that are accepted.
        ///   - purpose: what the payloads must have been sealed for.
        public init(keyring: SealingKeyring, purpose: SealingPurpose = .notification) {
            self.keyring = keyring
            self.purpose = purpose
        }

        /// With one key, which is always accepted.
        public init(key: SealingKey, purpose: SealingPurpose = .notification) {
            self.init(keyring: SealingKeyring(key), purpose: purpose)
        }

        /// Opens a payload, without asking whether it was opened before.
        ///
        /// - Parameters:
        ///   - payload: what was read from the notification.
        ///   - now: decides which old keys are still accepted.
        /// - Throws: `SealingError` with `unknownKey`, or `notAuthentic` for everything else.
        public func open(_ payload: SealedPayload, at now: Date = Date()) throws(SealingError) -> OpenedMessage {
            guard let key = self.keyring.key(payload.keyID, at: now) else {
                throw SealingError(.unknownKey, keyID: payload.keyID)
            }
            let plaintext: Data
            do {
                plaintext = try Primitives.open(
                    payload.combined,
                    key: key.secret,
                    authenticating: SealedPayload.associatedData(header: payload.header, purpose: self.purpose)
                )
            } catch {
                throw SealingError(.notAuthentic)
            }
            // Only a holder of the key can have made a frame that does not add up; the response is the same.
            guard let frame = Frame(Array(plaintext)) else { throw SealingError(.notAuthentic) }
            return OpenedMessage(
                content: frame.content,
                sealedAt: frame.time.date,
                id: payload.messageID,
                keyID: key.id,
                time: frame.time
            )
        }

        /// Opens a payload that was not opened before.
        ///
        /// - Parameters:
        ///   - payload: what was read from the notification.
        ///   - window: remembers what was admitted. It changes only if the payload is; store it then.
        ///   - now: decides which old keys are still accepted, and what is too old.
        /// - Throws: as the form without a window; then `replayed`, `tooOld` or `fromTheFuture`.
        public func open(
            _ payload: SealedPayload,
            admittedBy window: inout ReplayWindow,
            at now: Date = Date()
        ) throws(SealingError) -> OpenedMessage {
            let message = try self.open(payload, at: now)
            try window.admit(message, at: now)
            return message
        }
    }

    extension PayloadOpener: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
        public var description: String {
            "PayloadOpener(\(self.purpose), keys \(self.keyring.entries.map(\.key.id)))"
        }

        public var debugDescription: String { self.description }

        public var customMirror: Mirror {
            Mirror(self, children: ["purpose": self.purpose, "keyring": self.keyring], displayStyle: .struct)
        }
    }
#endif
