import Crypto

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// The keys that encrypt the device tokens of subscriptions at rest.
///
/// The first key encrypts. The others only decrypt, while one key replaces another: put the new key first, encrypt everything
/// anew that ``open(_:for:)`` calls old, and then remove the old key.
public struct DeviceTokenKeys: Sendable {
    /// Why an encrypted token cannot be read.
    public enum Failure: Error, Sendable, Hashable {
        /// None of the keys has encrypted it.
        case unknownKey
        /// It was changed, or belongs to another subscription.
        case notAuthentic
    }

    /// The length of a key in bytes.
    public static let keyCount = 32
    private static let idCount = 4

    private struct Key: Sendable {
        /// The beginning of the key's hash, which finds the key.
        var id: [UInt8]
        var encryption: SymmetricKey
        var tags: SymmetricKey
    }

    private let keys: [Key]

    /// Whether there are keys that only decrypt.
    public var hasOldKeys: Bool { self.keys.count > 1 }

    /// - Parameters:
    ///   - key: 32 random bytes, the key that encrypts.
    ///   - old: earlier keys, which only decrypt.
    /// - Returns: nil unless each key has 32 bytes.
    public init?(_ key: [UInt8], old: [[UInt8]] = []) {
        let all = [key] + old
        guard all.allSatisfy({ $0.count == Self.keyCount }) else { return nil }
        self.keys = all.map { bytes in
            let key = SymmetricKey(data: bytes)
            func derived(_ use: String) -> SymmetricKey {
                HKDF<SHA256>.deriveKey(inputKeyMaterial: key, info: Array(use.utf8), outputByteCount: 32)
            }
            return Key(
                id: Array(SHA256.hash(data: bytes).prefix(Self.idCount)),
                encryption: derived("device tokens"),
                tags: derived("tags of devices")
            )
        }
    }

    /// Encrypts a device token.
    ///
    /// - Parameters:
    ///   - token: the token's bytes.
    ///   - subscription: the id of its subscription. The token can be read only with the same one, so that nobody who can
    ///     write to the database can send one subscription's pushes to another device.
    public func seal(_ token: [UInt8], for subscription: String) -> [UInt8] {
        let key = self.keys[0]
        // Fails only for a nonce of the wrong length.
        let box = try? ChaChaPoly.seal(token, using: key.encryption, authenticating: Array(subscription.utf8))
        return key.id + (box.map { Array($0.combined) } ?? [])
    }

    /// Decrypts a device token.
    ///
    /// - Returns: the token, and whether an old key has encrypted it.
    public func open(_ sealed: [UInt8], for subscription: String) throws(Failure) -> (token: [UInt8], isOld: Bool) {
        let id = Array(sealed.prefix(Self.idCount))
        guard let index = self.keys.firstIndex(where: { $0.id == id }) else { throw .unknownKey }
        do {
            let box = try ChaChaPoly.SealedBox(combined: sealed.dropFirst(Self.idCount))
            let token = try ChaChaPoly.open(
                box,
                using: self.keys[index].encryption,
                authenticating: Array(subscription.utf8)
            )
            return (Array(token), index > 0)
        } catch {
            throw .notAuthentic
        }
    }

    /// Texts that find the subscriptions of a device without revealing it: one for each key, 43 characters of base64url. New
    /// subscriptions have the first one.
    ///
    /// - Parameters:
    ///   - token: the token's bytes.
    ///   - app: what else distinguishes devices: the app and the environment.
    public func tags(_ token: [UInt8], app: String) -> [String] {
        self.keys.map { key in
            Base64Text.encode(HMAC<SHA256>.authenticationCode(for: Array(app.utf8) + [0] + token, using: key.tags))
        }
    }
}

extension DeviceTokenKeys: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    public var description: String { "DeviceTokenKeys(\(self.keys.count) keys, redacted)" }

    public var debugDescription: String { self.description }

    public var customMirror: Mirror { Mirror(self, children: ["count": self.keys.count], displayStyle: .struct) }
}
