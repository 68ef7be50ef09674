import Crypto

/// Issues challenges and recognizes them without storing them, so that servers that share a key need nothing else in
/// common.
///
/// A challenge has 16 random bytes, its expiry, and an HMAC of both. A challenge is used once by each key:
/// ``AttestedKey/use(counter:challenge:now:)`` remembers it until it expires.
public struct AppAttestChallenges: Sendable {
    /// A challenge that was issued here and has not expired.
    public struct Challenge: Sendable, Hashable, Codable {
        /// The random bytes.
        public var id: [UInt8]
        /// In seconds since 1970.
        public var expiry: Int64
    }

    /// How long a challenge can be used, in seconds.
    public static let lifetime: Int64 = 300
    private static let idCount = 16
    private static let bodyCount = Self.idCount + 8

    private let keys: [SymmetricKey]

    /// - Parameters:
    ///   - key: a secret of the servers. A key for HMAC is derived from it.
    ///   - old: earlier secrets, whose challenges are still recognized.
    public init(key: [UInt8], old: [[UInt8]] = []) {
        self.keys = ([key] + old).map { key in
            HKDF<SHA256>.deriveKey(
                inputKeyMaterial: SymmetricKey(data: key),
                info: Array("challenges of App Attest".utf8),
                outputByteCount: 32
            )
        }
    }

    /// Makes a challenge: 56 bytes.
    ///
    /// - Parameter now: in seconds since 1970.
    public func issue(now: Int64) -> [UInt8] {
        var generator = SystemRandomNumberGenerator()
        let id = (0..<Self.idCount).map { _ in UInt8.random(in: 0...255, using: &generator) }
        let expiry = UInt64(bitPattern: now + Self.lifetime)
        let body = id + (0..<8).map { UInt8(truncatingIfNeeded: expiry >> (56 - 8 * $0)) }
        return body + HMAC<SHA256>.authenticationCode(for: body, using: self.keys[0])
    }

    /// Recognizes a challenge.
    ///
    /// - Parameter now: in seconds since 1970.
    /// - Throws: `AppAttestError`: `unknownChallenge` or `expiredChallenge`.
    public func challenge(_ bytes: [UInt8], now: Int64) throws(AppAttestError) -> Challenge {
        let (body, code) = (bytes.prefix(Self.bodyCount), bytes.dropFirst(Self.bodyCount))
        let isOurs =
            body.count == Self.bodyCount
            && self.keys.contains { HMAC<SHA256>.isValidAuthenticationCode(code, authenticating: body, using: $0) }
        guard isOurs else {
            throw AppAttestError(.unknownChallenge, "The challenge was not issued here. Ask for another one.")
        }
        let expiry = Int64(bitPattern: body.dropFirst(Self.idCount).reduce(0) { $0 << 8 | UInt64($1) })
        guard now < expiry else {
            throw AppAttestError(.expiredChallenge, "The challenge has expired. Ask for another one.")
        }
        return Challenge(id: Array(body.prefix(Self.idCount)), expiry: expiry)
    }
}
