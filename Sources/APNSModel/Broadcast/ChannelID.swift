/// The id of a broadcast channel: the header `apns-channel-id`. APNs assigns it when the channel is created.
///
/// The id is opaque: base64 text of no documented length, with `/`, `+` and `=`, which is sent unchanged. Coded as its
/// string. Source: Apple, "Sending channel management requests to APNs".
public struct ChannelID: Sendable, Hashable, Codable, CustomStringConvertible {
    /// The longest id accepted, in bytes: far above what APNs assigns (24 characters) and far below what a header list
    /// may hold.
    public static let maximumBytes = 512

    /// The id's text, as APNs returned it.
    public let rawValue: String

    /// Takes base64 text: letters, digits, `+` and `/`, padded with `=` to a multiple of four (RFC 4648, section 4), at
    /// most 512 bytes. This check finds a truncated id before it is sent.
    ///
    /// - Throws: `channelIDInvalid`.
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

    /// Takes base64 text, as `init(_:)` for a `String` does.
    public init(_ rawValue: some StringProtocol) throws(ValidationError) {
        try self.init(String(rawValue))
    }

    /// Takes an id from a response of APNs without checking its form. Returns nil if a header cannot hold it.
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

    /// Checks only that a header can hold the id, because APNs may assign ids in another form.
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
