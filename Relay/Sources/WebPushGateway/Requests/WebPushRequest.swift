public import HTTPTypes

/// A request for a push message: RFC 8030, section 5.
public struct WebPushRequest: Sendable, Hashable {
    /// How much the message matters: RFC 8030, section 5.3.
    public enum Urgency: String, Sendable, Hashable, CaseIterable {
        case veryLow = "very-low"
        case low
        case normal
        case high
    }

    /// The largest body that every push service must accept, in bytes (RFC 8030, section 7.2), and the largest one here.
    public static let maxBodyBytes = 4_096
    /// The longest time to live, in seconds: APNs stores a push for up to 30 days.
    public static let maxTimeToLive = 30 * 86_400

    /// How long the message is worth delivering, in seconds; 0 for only at once. At most ``maxTimeToLive``, so it can be
    /// shorter than the sender's: return it in the header field `TTL` of the response.
    public let timeToLive: Int
    public let urgency: Urgency
    /// A newer message with the same topic replaces an older one: up to 32 characters of base64url.
    public let topic: String?
    /// The message; nil for a request without a body, for which the device shows the fallback text.
    public let content: WebPushContent?

    /// Reads a request.
    ///
    /// - Parameters:
    ///   - headers: its header fields.
    ///   - body: its body. Read at most one byte more than ``maxBodyBytes``.
    /// - Throws: `WebPushError`: `invalidHeader`, `invalidBody`, `unsupportedEncoding` or `tooLarge`.
    public init(_ headers: HTTPFields, body: [UInt8]) throws(WebPushError) {
        self.timeToLive = try Self.timeToLive(Self.one(.timeToLive, headers))
        self.urgency = try Self.urgency(Self.one(.urgency, headers))
        self.topic = try Self.one(.topic, headers).map(Self.topic)
        self.content = try Self.content(headers, body)
    }

    /// The value of a field that may occur once.
    private static func one(_ name: HTTPField.Name, _ headers: HTTPFields) throws(WebPushError) -> String? {
        let values = headers[values: name]
        guard values.count <= 1 else {
            throw WebPushError(.invalidHeader, "The header field \(name) occurs \(values.count) times; send it once.")
        }
        return values.first
    }

    /// RFC 8030, section 5.2: a number of seconds. A number that is too large to be stored counts as the largest one.
    private static func timeToLive(_ text: String?) throws(WebPushError) -> Int {
        guard let text else {
            throw WebPushError(.invalidHeader, "The header field TTL is missing (RFC 8030, section 5.2).")
        }
        let isNumber = !text.isEmpty && text.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        guard isNumber else {
            throw WebPushError(.invalidHeader, "The header field TTL must be a number of seconds.")
        }
        return min(Int(text) ?? .max, self.maxTimeToLive)
    }

    private static func urgency(_ text: String?) throws(WebPushError) -> Urgency {
        guard let text else { return .normal }
        guard let urgency = Urgency(rawValue: text.lowercased()) else {
            let names = Urgency.allCases.map(\.rawValue).joined(separator: ", ")
            throw WebPushError(.invalidHeader, "The header field Urgency must be one of \(names).")
        }
        return urgency
    }

    /// RFC 8030, section 5.4.
    private static func topic(_ text: String) throws(WebPushError) -> String {
        let isTopic =
            (1...32).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
                    true
                default: false
                }
            }
        guard isTopic else {
            throw WebPushError(.invalidHeader, "The header field Topic must have 1 to 32 characters of base64url.")
        }
        return text
    }

    private static func content(_ headers: HTTPFields, _ body: [UInt8]) throws(WebPushError) -> WebPushContent? {
        guard body.count <= self.maxBodyBytes else {
            throw WebPushError(.tooLarge, "The body has more than \(self.maxBodyBytes) bytes.")
        }
        let encoding = try self.one(.contentEncoding, headers)?.lowercased()
        switch encoding {
        case nil where body.isEmpty: return nil
        case "aes128gcm": return try WebPushContent(aes128gcm: body)
        case "aesgcm":
            return try WebPushContent(
                aesgcm: body,
                salt: HeaderParameters(headers[values: .encryption])["salt"],
                senderKey: HeaderParameters(headers[values: .cryptoKey])["dh"]
            )
        default:
            throw WebPushError(
                .unsupportedEncoding,
                "The content encoding must be aes128gcm (RFC 8291), or aesgcm of the earlier draft."
            )
        }
    }
}

extension HTTPField.Name {
    /// The time to live of a message in seconds: RFC 8030, section 5.2.
    public static let timeToLive = HTTPField.Name("TTL") ?? .date
    static let urgency = HTTPField.Name("Urgency") ?? .date
    static let topic = HTTPField.Name("Topic") ?? .date
    static let encryption = HTTPField.Name("Encryption") ?? .date
    static let cryptoKey = HTTPField.Name("Crypto-Key") ?? .date
}
