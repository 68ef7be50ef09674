import Crypto

/// A request that a device signs, so that its evidence cannot be used for another one.
///
/// The client data is `METHOD PATH`, a line feed, the challenge as the server sent it, a line feed, and the body:
///
/// ```
/// DELETE /webpush/subscriptions/kX8dZq2vYbRn5tGm
/// 7Hc…
/// ```
public struct AppAttestRequest: Sendable, Hashable {
    /// The method in capitals.
    public var method: String
    /// The path as it is sent, percent-encoded and without a query.
    public var path: String
    /// The text of the challenge.
    public var challenge: String
    /// The bytes of the body; empty if there is none, and for an attestation, which is itself part of the body.
    public var body: [UInt8]

    public init(method: String, path: String, challenge: String, body: [UInt8] = []) {
        self.method = method
        self.path = path
        self.challenge = challenge
        self.body = body
    }

    /// What the app passes to `attestKey` or `generateAssertion`: SHA-256 of the client data.
    public var clientDataHash: [UInt8] {
        Array(SHA256.hash(data: Array("\(self.method) \(self.path)\n\(self.challenge)\n".utf8) + self.body))
    }
}
