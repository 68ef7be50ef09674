#if canImport(CryptoKit) || Sealing
    #if canImport(FoundationEssentials)
        public import FoundationEssentials
    #else
        public import Foundation
    #endif

    /// An opened message. Its description and its mirror do not show the content.
    public struct OpenedMessage: Sendable, Hashable {
        /// The content that the server sealed.
        public let content: [UInt8]
        /// The time of sealing by the server's clock, to the millisecond.
        public let sealedAt: Date
        /// The message's identifier.
        public let id: SealedMessageID
        /// The id of the key that opened it. If it is an old key, the server has not rotated yet.
        public let keyID: SealingKeyID

        let time: Milliseconds

        /// Decodes the content as JSON.
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
    /// A value type: you can keep one opener or create one for each payload.
    public struct PayloadOpener: Sendable {
        /// The keys that can open payloads.
        public var keyring: SealingKeyring
        /// The purpose for which the payloads must have been sealed.
        public let purpose: SealingPurpose

        /// - Parameters:
        ///   - keyring: The accepted keys.
        ///   - purpose: The purpose for which the payloads must have been sealed.
        public init(keyring: SealingKeyring, purpose: SealingPurpose = .notification) {
            self.keyring = keyring
            self.purpose = purpose
        }

        /// Creates an opener with one key, which is always accepted.
        public init(key: SealingKey, purpose: SealingPurpose = .notification) {
            self.init(keyring: SealingKeyring(key), purpose: purpose)
        }

        /// Opens a payload without checking whether it was opened before.
        ///
        /// - Parameters:
        ///   - payload: The payload read from the notification.
        ///   - now: The time that determines which old keys are still accepted.
        /// - Throws: `SealingError` with `unknownKey`, or `notAuthentic` for every other failure.
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
            // Only a holder of the key can make an invalid frame; the error is `notAuthentic` here too.
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
        ///   - payload: The payload read from the notification.
        ///   - window: Remembers admitted messages. It changes only if the payload is admitted; store it in that case.
        ///   - now: The time that determines which old keys are still accepted and which messages are too old.
        /// - Throws: The errors of the method without a window, and also `replayed`, `tooOld` or `fromTheFuture`.
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
