/// The id of a broadcast channel, as APNs gave it when the channel was created: the header `apns-channel-id`. Coded as its
/// string.
///
/// Opaque: base64 text of no promised length, with `/`, `+` and `=`, sent on unchanged. Source: Apple, "Sending channel
/// management requests to APNs".
public struct ChannelID: Sendable, Hashable, Codable, CustomStringConvertible {
    /// Far above what APNs gives (24 characters), far below what a header list may hold.
    public static let maximumBytes = 512

    /// The text that APNs gave.
    public let rawValue: String

    /// Takes base64 text: letters, digits, `+` and `/`, padded with `=` to a multiple of four (RFC 4648, section 4), at
    /// most 512 bytes. An id that was cut off on its way is thus found before the network.
    ///
    /// Throws `channelIDInvalid`.
    public init(_ rawValue: String) throws(ValidationError) {
        let size = rawValue.utf8.count
        guard size <= Self.maximumBytes else {
            throw ValidationError(
                code: .channelIDInvalid,
                field: "apns-channel-id",
                limit: Self.maximumBytes,
                actual: size
            )
        }
        guard Self.isBase64(rawValue) else {
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
        guard !rawValue.isEmpty, rawValue.utf8.count <= Self.maximumBytes, HeaderRules.isVisibleASCII(rawValue) else {
            return nil
        }
        self.rawValue = rawValue
    }

    private static func isBase64(_ text: String) -> Bool {
        var digits = 0
        var padding = 0
        for byte in text.utf8 {
            switch byte {
            case 0x3D: padding += 1
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2B, 0x2F:
                guard padding == 0 else { return false }
                digits += 1
            default: return false
            }
        }
        return digits > 0 && padding <= 2 && (digits + padding).isMultiple(of: 4)
    }

    public var description: String { self.rawValue }

    /// Checks only what a header cannot hold: the id may be one that APNs gave, whatever it looks like.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let id = ChannelID(fromAPNs: try container.decode(String.self)) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "not a channel id")
        }
        self = id
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(self.rawValue)
    }
}
