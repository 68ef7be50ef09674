/// The id of a broadcast channel, as APNs made it: base64 text (RFC 4648, section 4), sent as `apns-channel-id`.
///
/// It is opaque: it is never decoded, and goes to APNs as it came. A channel belongs to one app in one environment. Coded
/// as its string.
///
/// Source: Apple, "Sending channel management requests to APNs".
public struct ChannelID: Sendable, Hashable, Codable, CustomStringConvertible {
    /// The most characters accepted. APNs' ids have 24.
    public static let maximumLength = 256

    public let rawValue: String

    /// Takes base64 text with its padding, 4 to 256 characters.
    ///
    /// Throws `channelIDInvalid`.
    public init(_ rawValue: String) throws(ValidationError) {
        let bytes = Array(rawValue.utf8)
        let digits = bytes.prefix { Self.isDigit($0) }
        let padding = bytes.dropFirst(digits.count)
        guard !bytes.isEmpty, bytes.count <= Self.maximumLength, bytes.count.isMultiple(of: 4), padding.count <= 2,
            padding.allSatisfy({ $0 == 0x3D })
        else {
            throw ValidationError(
                code: .channelIDInvalid,
                field: "apns-channel-id",
                value: ValidationError.shortened(rawValue)
            )
        }
        self.rawValue = rawValue
    }

    /// As the form with a `String`.
    public init(_ rawValue: some StringProtocol) throws(ValidationError) {
        try self.init(String(rawValue))
    }

    /// An id that APNs gave, whatever it looks like; nil if no header could hold it.
    package init?(fromAPNs rawValue: String) {
        guard !rawValue.isEmpty, rawValue.utf8.count <= Self.maximumLength,
            rawValue.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F })
        else { return nil }
        self.rawValue = rawValue
    }

    public var description: String { rawValue }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let id = ChannelID(fromAPNs: try container.decode(String.self)) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "not a channel id")
        }
        self = id
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(rawValue)
    }

    private static func isDigit(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2B, 0x2F: true
        default: false
        }
    }
}

extension ValidationError.Code {
    /// The channel id is not base64 text.
    public static let channelIDInvalid = ValidationError.Code(rawValue: "channelIDInvalid")
}
