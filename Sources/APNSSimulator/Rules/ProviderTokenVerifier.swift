internal import APNSModel
internal import APNSBasics
internal import APNSTransport

#if canImport(FoundationEssentials)
    internal import FoundationEssentials
#else
    internal import Foundation
#endif

/// A provider token with the results of its checks. Only its age needs to be checked again later.
struct InspectedToken: Sendable {
    /// A deviation from Apple's form that APNs has accepted for years.
    enum Note: Sendable, Hashable {
        /// `iat` is a text (APNSwift up to 6.4) or has a fraction (PyAPNs2).
        case issueTime
        /// The token is in plain Base64 (a2).
        case alphabet
    }

    /// Whether its form, algorithm, ids and signature are correct.
    var isGenuine: Bool
    var keyID = ""
    var teamID = ""
    /// Seconds since 1970.
    var issuedAt: Int64 = 0
    var note: Note?

    static let malformed = InspectedToken(isGenuine: false)
}

/// Checks provider tokens (JSON Web Tokens signed with ES256) as APNs does.
///
/// Source: Apple, "Establishing a token-based connection to APNs"; RFC 7515, RFC 7518 section 3.4.
struct ProviderTokenVerifier: Sendable {
    /// The age in seconds at which a token expires.
    static let lifetime: Int64 = 3600
    /// How many seconds in the future a token may be issued, because clocks differ.
    static let clockTolerance: Int64 = 600
    /// The shortest time in seconds between two tokens of one key.
    static let updateInterval: Int64 = 20 * 60

    /// Whether tokens of unknown keys are accepted without a check of their signature.
    var acceptsUnknownKeys: Bool
    /// The known keys by key id.
    var keys: [String: Simulator.Key]
    private var updates: [String: (tokens: [[UInt8]], lastUpdate: Int64)] = [:]

    init(acceptsUnknownKeys: Bool, keys: [String: Simulator.Key]) {
        self.acceptsUnknownKeys = acceptsUnknownKeys
        self.keys = keys
    }

    /// - Parameter token: the text in `authorization` after `bearer `.
    func inspect(_ token: some Collection<UInt8>) -> InspectedToken {
        let parts = token.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3, let header = Base64.decode(parts[0]), let claims = Base64.decode(parts[1]),
            let signature = Base64.decode(parts[2]),
            let header = try? JSONDecoder().decode(Header.self, from: Data(header)), header.alg == "ES256",
            let claims = try? JSONDecoder().decode(Claims.self, from: Data(claims)),
            Self.isIdentifier(header.kid), Self.isIdentifier(claims.iss)
        else { return .malformed }
        var isGenuine = self.acceptsUnknownKeys && signature.count >= 64
        if let key = self.keys[header.kid] {
            let signed = Array(token.prefix(parts[0].count + 1 + parts[1].count))
            isGenuine = key.teamID == claims.iss && Self.isValid(signature, of: signed, by: key.publicKey)
        }
        let isForURLs = parts.allSatisfy { Base64.decodeForURL($0) != nil }
        return InspectedToken(
            isGenuine: isGenuine,
            keyID: header.kid,
            teamID: claims.iss,
            issuedAt: claims.issuedAt,
            note: claims.isExact ? (isForURLs ? nil : .alphabet) : .issueTime
        )
    }

    /// - Parameter now: seconds since 1970.
    /// - Returns: the error of the token; nil if there is none.
    static func fault(of token: InspectedToken, now: Int64) -> RejectionReason? {
        guard token.isGenuine else { return .invalidProviderToken }
        // Written to avoid an overflow: `iat` may be any number.
        if token.issuedAt < now - Self.lifetime { return .expiredProviderToken }
        if token.issuedAt > now + Self.clockTolerance { return .invalidProviderToken }
        return nil
    }

    /// Records the use of a genuine token.
    ///
    /// - Returns: whether its key changes tokens more often than once in 20 minutes, from first use to first use.
    mutating func isUpdatedTooOften(_ token: InspectedToken, bytes: [UInt8], now: Int64) -> Bool {
        guard var update = self.updates[token.keyID] else {
            self.updates[token.keyID] = ([bytes], now)
            return false
        }
        if update.tokens.contains(bytes) { return false }
        if now - update.lastUpdate < Self.updateInterval { return true }
        // Connections that still use the previous token may continue to use it.
        update.tokens = update.tokens.suffix(1) + [bytes]
        update.lastUpdate = now
        self.updates[token.keyID] = update
        return false
    }

    /// Forgets which tokens were used. The next token of each key is its first.
    mutating func forgetUpdates() { self.updates = [:] }

    /// Accepts raw r‖s, as RFC 7518 requires, and the DER form, which APNs accepts too.
    private static func isValid(_ signature: [UInt8], of signed: [UInt8], by key: ES256PublicKey) -> Bool {
        let signature = ES256Signature(rawRepresentation: signature) ?? (try? ES256Signature(der: signature))
        return signature.map { key.isValid($0, of: signed) } ?? false
    }

    /// Key ids and team ids consist of ten letters and digits.
    static func isIdentifier(_ text: String) -> Bool {
        text.utf8.count == 10
            && text.utf8.allSatisfy {
                switch $0 {
                case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "a")...UInt8(ascii: "z"):
                    true
                default: false
                }
            }
    }

    private struct Header: Decodable {
        var alg: String
        var kid: String
    }

    private struct Claims: Decodable {
        private enum Key: String, CodingKey {
            case iss
            case iat
        }

        var iss: String
        var issuedAt: Int64
        /// Whether `iat` is a whole number.
        var isExact: Bool

        init(from decoder: any Decoder) throws {
            let claims = try decoder.container(keyedBy: Key.self)
            self.iss = try claims.decode(String.self, forKey: .iss)
            if let seconds = try? claims.decode(Int64.self, forKey: .iat) {
                (self.issuedAt, self.isExact) = (seconds, true)
                return
            }
            let text = try? claims.decode(String.self, forKey: .iat)
            let number = try text.flatMap { Double($0) } ?? claims.decode(Double.self, forKey: .iat)
            guard let seconds = Int64(exactly: number.rounded(.down)) else {
                throw DecodingError.dataCorruptedError(forKey: .iat, in: claims, debugDescription: "not a time")
            }
            (self.issuedAt, self.isExact) = (seconds, false)
        }
    }
}
