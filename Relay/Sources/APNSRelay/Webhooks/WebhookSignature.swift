import Crypto

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// The signature of a request to a webhook, as Standard Webhooks defines it.
enum WebhookSignature {
    /// The value of the header `webhook-signature`: for each secret, `v1,` and the Base64 form of HMAC-SHA256 over
    /// `ID.TIMESTAMP.BODY`. Signatures are separated by a space, and a receiver accepts any of them.
    ///
    /// - Parameters:
    ///   - id: the value of the header `webhook-id`.
    ///   - timestamp: the value of the header `webhook-timestamp`, in seconds since 1970.
    ///   - body: the body of the request.
    ///   - secrets: the webhook's keys.
    static func sign(id: String, timestamp: String, body: [UInt8], secrets: [[UInt8]]) -> String {
        let signatures = secrets.map { secret in
            var code = HMAC<SHA256>(key: SymmetricKey(data: secret))
            code.update(data: Array("\(id).\(timestamp).".utf8))
            code.update(data: body)
            return "v1," + Data(code.finalize()).base64EncodedString()
        }
        return signatures.joined(separator: " ")
    }
}
