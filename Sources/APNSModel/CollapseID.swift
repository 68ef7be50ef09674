/// The header `apns-collapse-id`: pushes with equal collapse ids replace each other on the device.
///
/// Coded as its string. Source: Apple, "Sending notification requests to APNs".
public struct CollapseID: Sendable, Hashable, Codable, CustomStringConvertible {
    /// The most UTF-8 bytes that APNs accepts.
    public static let maximumBytes = 64

    /// The text that is sent.
    public let rawValue: String

    /// Takes 1 to 64 bytes of ASCII text without control characters and without blanks at either end.
    ///
    /// - Throws: `collapseIDTooLong` or `collapseIDInvalid`.
    public init(_ rawValue: String) throws(ValidationError) {
        let size = rawValue.utf8.count
        guard size <= Self.maximumBytes else {
            throw ValidationError(
                code: .collapseIDTooLong,
                field: "apns-collapse-id",
                value: ValidationError.shortened(rawValue),
                limit: Self.maximumBytes,
                actual: size
            )
        }
        guard HeaderRules.isHeaderText(rawValue) else {
            throw ValidationError(
                code: .collapseIDInvalid,
                field: "apns-collapse-id",
                value: ValidationError.shortened(rawValue)
            )
        }
        self.rawValue = rawValue
    }

    public var description: String { self.rawValue }

    public init(from decoder: any Decoder) throws {
        try self.init(try decoder.singleValueContainer().decode(String.self))
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(self.rawValue)
    }
}
