import Crypto
import HTTPTypes

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// The identification of a sender as a request carries it: RFC 8292. Nothing is verified yet.
struct VAPIDToken: Sendable, Hashable {
    /// The claims that RFC 8292, section 2, names.
    struct Claims: Sendable, Hashable {
        /// The push services for which the token is.
        var audiences: [String]
        /// Seconds since 1970.
        var expiry: Double
        /// How to reach the sender's operator.
        var subject: String?
    }

    /// The JSON Web Token: header, claims and signature.
    let text: String
    /// The sender's public key: an uncompressed point of P-256, 65 bytes.
    let key: [UInt8]

    /// Reads the header field `Authorization` in its present form (`vapid t=…, k=…`) or in that of the earlier draft
    /// (`WebPush …`, with the key in `Crypto-Key`).
    ///
    /// - Returns: nil if the request identifies no sender.
    /// - Throws: `WebPushError.Code.vapidInvalid`.
    init?(_ headers: HTTPFields) throws(WebPushError) {
        let fields = headers[values: .authorization]
        guard !fields.isEmpty else { return nil }
        guard fields.count == 1, let field = fields.first else { throw Self.invalid("it occurs more than once") }
        let parts = field.split(separator: " ", maxSplits: 1)
        guard let scheme = parts.first?.lowercased(), let rest = parts.last, parts.count == 2 else {
            throw Self.invalid("expected vapid t=…, k=…")
        }
        let key: String?
        switch scheme {
        case "vapid":
            let parameters = HeaderParameters([String(rest)])
            guard let text = parameters["t"] else { throw Self.invalid("the parameter t is missing") }
            self.text = text
            key = parameters["k"]
        case "webpush", "bearer":
            self.text = String(rest)
            key = HeaderParameters(headers[values: .cryptoKey])["p256ecdsa"]
        default:
            throw Self.invalid("expected vapid t=…, k=…")
        }
        guard let bytes = key.flatMap(Base64Text.decode), bytes.count == 65 else {
            throw Self.invalid("the sender's public key must have 65 bytes as base64url")
        }
        self.key = bytes
    }

    /// Verifies the signature.
    ///
    /// - Returns: the claims.
    /// - Throws: `WebPushError.Code.vapidInvalid`.
    func verified() throws(WebPushError) -> Claims {
        let parts = self.text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, let header = Base64Text.decode(String(parts[0])),
            let claims = Base64Text.decode(String(parts[1])), let signature = Base64Text.decode(String(parts[2]))
        else {
            throw Self.invalid("the token must have three parts in base64url")
        }
        struct Header: Decodable { var alg: String }
        guard (try? JSONDecoder().decode(Header.self, from: Data(header)))?.alg == "ES256" else {
            throw Self.invalid("the token must be signed with ES256")
        }
        guard let key = try? P256.Signing.PublicKey(x963Representation: self.key) else {
            throw Self.invalid("the sender's public key is no point of P-256")
        }
        guard let signature = try? P256.Signing.ECDSASignature(rawRepresentation: signature),
            key.isValidSignature(signature, for: Data("\(parts[0]).\(parts[1])".utf8))
        else {
            throw Self.invalid("the signature is not that of the key")
        }
        guard let claims = try? JSONDecoder().decode(DecodedClaims.self, from: Data(claims)) else {
            throw Self.invalid("its claims are not a JSON object")
        }
        return Claims(
            audiences: try Self.required(claims.aud, "aud", "a string or an array of strings").values,
            expiry: try Self.required(claims.exp, "exp", "a number of seconds since 1970, without quotation marks"),
            subject: claims.sub == .missing ? nil : try Self.required(claims.sub, "sub", "a string")
        )
    }

    private static func required<Value>(
        _ claim: Claim<Value>,
        _ name: String,
        _ expected: String
    ) throws(WebPushError) -> Value {
        switch claim {
        case .value(let value): return value
        case .missing: throw self.invalid("the claim \(name) is missing")
        case .otherType: throw self.invalid("the claim \(name) must be \(expected)")
        }
    }

    private enum Claim<Value: Decodable & Hashable>: Hashable {
        case missing
        case otherType
        case value(Value)
    }

    private struct DecodedClaims: Decodable {
        var aud: Claim<Audience>
        var exp: Claim<Double>
        var sub: Claim<String>

        private enum CodingKeys: String, CodingKey { case aud, exp, sub }

        init(from decoder: any Decoder) throws {
            let claims = try decoder.container(keyedBy: CodingKeys.self)
            func claim<Value>(_ key: CodingKeys) -> Claim<Value> {
                do {
                    return try claims.decodeIfPresent(Value.self, forKey: key).map { .value($0) } ?? .missing
                } catch {
                    return .otherType
                }
            }
            self.aud = claim(.aud)
            self.exp = claim(.exp)
            self.sub = claim(.sub)
        }

        /// One text or several (RFC 7519, section 4.1.3).
        struct Audience: Decodable, Hashable {
            var values: [String]

            init(from decoder: any Decoder) throws {
                let container = try decoder.singleValueContainer()
                if let one = try? container.decode(String.self) {
                    self.values = [one]
                } else {
                    self.values = try container.decode([String].self)
                }
            }
        }
    }

    static func invalid(_ message: String) -> WebPushError {
        WebPushError(
            .vapidInvalid,
            "The header field Authorization does not identify the sender (RFC 8292): \(message)."
        )
    }
}
