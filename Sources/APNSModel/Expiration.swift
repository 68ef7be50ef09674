#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

/// How long APNs stores a push for a device that it cannot reach: the header `apns-expiration`.
///
/// Coded as a whole number of seconds since 1970 (0 for `immediate`), or the string `"system-default"`.
/// Source: Apple, "Sending notification requests to APNs".
public enum Expiration: Sendable, Hashable, Codable {
    /// Sends no header: APNs stores the push by its own rules, up to 30 days.
    case systemDefault
    /// 0: APNs makes one delivery attempt and stores nothing.
    case immediate
    /// APNs stores the push until this time, at most 30 days from now. A point in time in whole seconds since 1970.
    case at(secondsSince1970: Int64)

    /// The largest value accepted, in the year 5138. A larger one is probably in milliseconds by mistake.
    package static let latestSeconds: Int64 = 99_999_999_999

    /// Expires at the date, without its fraction of a second. A date out of range becomes a value that validation
    /// rejects.
    public static func at(_ date: Date) -> Expiration {
        .at(secondsSince1970: Int64(exactly: date.timeIntervalSince1970.rounded(.down)) ?? Int64.max)
    }

    /// Expires after the duration, rounded up to a whole second.
    ///
    /// - Parameters:
    ///   - duration: how long APNs stores the push, at most 30 days; 0 or less means `immediate`.
    ///   - now: the start of the duration.
    public static func `in`(_ duration: Duration, from now: Date = Date()) -> Expiration {
        guard duration > .zero else { return .immediate }
        let (seconds, attoseconds) = duration.components
        // The bound is far above anything that validation accepts and far below an overflow.
        let whole = Double(min(seconds, 1 << 40)) + Double(attoseconds) * 1e-18
        return .at(secondsSince1970: Int64(exactly: (now.timeIntervalSince1970 + whole).rounded(.up)) ?? Int64.max)
    }

    /// The header's number; nil if the header is left out.
    public var headerValue: Int64? {
        switch self {
        case .systemDefault: nil
        case .immediate: 0
        case .at(let seconds): seconds
        }
    }

    func validate() throws(ValidationError) {
        guard let seconds = self.headerValue else { return }
        guard seconds >= 0, seconds <= Self.latestSeconds else {
            throw ValidationError(code: .expirationInvalid, field: "apns-expiration", value: String(seconds))
        }
    }

    private static let systemDefaultText = "system-default"

    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if let seconds = try? container.decode(Int64.self) {
            self = seconds == 0 ? .immediate : .at(secondsSince1970: seconds)
        } else if try container.decode(String.self) == Self.systemDefaultText {
            self = .systemDefault
        } else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "neither seconds nor a known word")
        }
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        if let headerValue {
            try container.encode(headerValue)
        } else {
            try container.encode(Self.systemDefaultText)
        }
    }
}
