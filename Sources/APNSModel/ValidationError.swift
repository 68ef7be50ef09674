/// Why a push, a device token or a header value was rejected before it was sent.
///
/// The checks cover everything that APNs would reject or silently ignore: Apple, "Sending notification requests to
/// APNs" and "Generating a remote notification". The error names the field and, if there is one, the limit.
///
/// Coded form, stable: `{"code", "field", "value"?, "limit"?, "actual"?}`.
public struct ValidationError: Error, Sendable, Hashable, Codable, CustomStringConvertible {
    /// What is wrong. Open: later versions may add codes.
    public struct Code: RawRepresentable, Sendable, Hashable, Codable, CustomStringConvertible {
        public let rawValue: String

        public init(rawValue: String) {
            self.rawValue = rawValue
        }

        public var description: String { self.rawValue }

        /// The encoded payload has more bytes than its push type allows.
        public static let payloadTooLarge = Code(rawValue: "payloadTooLarge")
        /// The payload has no bytes.
        public static let payloadEmpty = Code(rawValue: "payloadEmpty")
        /// A typed field or a custom value was added to a payload given as raw bytes, which are never edited.
        public static let payloadIsRaw = Code(rawValue: "payloadIsRaw")
        /// The content contradicts the push type, for example a sound in a background push.
        public static let contentNotAllowed = Code(rawValue: "contentNotAllowed")
        /// A required part of the push is missing, such as a Live Activity's event.
        public static let contentMissing = Code(rawValue: "contentMissing")
        /// Two fields exclude each other, such as a title and a localisation key for the title in a Live Activity's
        /// alert.
        public static let contentContradictory = Code(rawValue: "contentContradictory")
        /// A value could not be written as JSON: its `encode(to:)` threw, or it holds infinity or NaN.
        public static let notEncodable = Code(rawValue: "notEncodable")
        /// The device token has no digits.
        public static let deviceTokenEmpty = Code(rawValue: "deviceTokenEmpty")
        /// The device token contains characters other than the digits 0 to 9 and a to f.
        public static let deviceTokenNotHexadecimal = Code(rawValue: "deviceTokenNotHexadecimal")
        /// The device token has an odd number of digits: it may be truncated.
        public static let deviceTokenOddLength = Code(rawValue: "deviceTokenOddLength")
        /// The device token has more than `DeviceToken.maximumDigits` digits.
        public static let deviceTokenTooLong = Code(rawValue: "deviceTokenTooLong")
        /// The topic is empty.
        public static let topicMissing = Code(rawValue: "topicMissing")
        /// The topic contains characters other than visible ASCII, or is far too long.
        public static let topicInvalid = Code(rawValue: "topicInvalid")
        /// The topic lacks the suffix of its push type. This happens only with raw parts.
        public static let topicSuffixMissing = Code(rawValue: "topicSuffixMissing")
        /// The push type is empty, too long, or contains characters other than visible ASCII.
        public static let pushTypeInvalid = Code(rawValue: "pushTypeInvalid")
        /// The collapse id has more than 64 bytes of UTF-8.
        public static let collapseIDTooLong = Code(rawValue: "collapseIDTooLong")
        /// The collapse id is empty, contains characters other than ASCII text, or starts or ends with a blank.
        public static let collapseIDInvalid = Code(rawValue: "collapseIDInvalid")
        /// The priority is not 10, 5 or 1, or the push type does not allow it.
        public static let priorityNotAllowed = Code(rawValue: "priorityNotAllowed")
        /// The expiration is negative, or so large that it must be milliseconds.
        public static let expirationInvalid = Code(rawValue: "expirationInvalid")
        /// A time in the payload (`timestamp`, `stale-date`, `dismissal-date`) is negative, or so large that it must be
        /// milliseconds.
        public static let timeInvalid = Code(rawValue: "timeInvalid")
        /// A channel id is empty, too long, or not base64 with its padding.
        public static let channelIDInvalid = Code(rawValue: "channelIDInvalid")
        /// The badge is below 0.
        public static let badgeInvalid = Code(rawValue: "badgeInvalid")
        /// The volume of a critical sound lies outside 0...1.
        public static let volumeOutOfRange = Code(rawValue: "volumeOutOfRange")
        /// The relevance score lies outside 0...1, or is not finite in a Live Activity's push.
        public static let relevanceScoreInvalid = Code(rawValue: "relevanceScoreInvalid")
        /// The closure that creates the push or the device token of a row in a bulk call threw an error.
        public static let rowInvalid = Code(rawValue: "rowInvalid")
        /// A custom value has the key `aps`, which is reserved for Apple.
        public static let customKeyReserved = Code(rawValue: "customKeyReserved")
        /// Two values write the same key, beside `aps` or in it.
        public static let customKeyDuplicate = Code(rawValue: "customKeyDuplicate")
        /// A value that must encode as a JSON object does not: a custom value without a key, or a Live Activity's
        /// content state or attributes.
        public static let customNotAnObject = Code(rawValue: "customNotAnObject")
    }

    /// What is wrong.
    public var code: Code
    /// The field: Apple's key or header (`aps.badge`, `apns-topic`), or the coding path of a custom value.
    public var field: String
    /// The invalid value, shortened and made printable. Of a device token, only both ends are shown.
    public var value: String?
    /// The limit that was exceeded, in the unit of `actual` (bytes for payloads and ids, digits for device tokens).
    public var limit: Int?
    /// The actual size.
    public var actual: Int?

    /// Creates an error, for your own senders.
    ///
    /// - Parameters:
    ///   - code: what is wrong.
    ///   - field: the field that is wrong.
    ///   - value: the invalid value, shortened, without secrets or whole device tokens.
    ///   - limit: the limit that was exceeded.
    ///   - actual: the actual size.
    public init(code: Code, field: String, value: String? = nil, limit: Int? = nil, actual: Int? = nil) {
        self.code = code
        self.field = field
        self.value = value
        self.limit = limit
        self.actual = actual
    }

    public var description: String {
        var text = "\(self.field): \(self.explanation)"
        if let actual, let limit {
            text += " (\(actual), at most \(limit))"
        }
        if let value {
            text += ": \(value)"
        }
        return text
    }

    private var explanation: String {
        switch self.code {
        case .payloadTooLarge: "the payload has more bytes than APNs accepts for this push type"
        case .payloadEmpty: "the payload is empty; APNs requires a JSON object"
        case .payloadIsRaw: "a payload given as raw bytes is sent unchanged; put this field into the bytes"
        case .contentNotAllowed: "this push type does not allow it"
        case .contentMissing: "without this field the push does nothing"
        case .contentContradictory: "give only one of them"
        case .notEncodable: "the value cannot be written as JSON"
        case .deviceTokenEmpty: "the device token is empty"
        case .deviceTokenNotHexadecimal: "a device token consists of the digits 0-9 and a-f only"
        case .deviceTokenOddLength: "a device token has an even number of digits; this one may be cut off"
        case .deviceTokenTooLong: "the device token has too many digits"
        case .topicMissing:
            "the topic is missing; give the notification the app's bundle ID, or set the client's default topic (APNS_TOPIC)"
        case .topicInvalid: "a topic is a bundle ID of visible ASCII characters without blanks"
        case .topicSuffixMissing: "the topic of this push type must end with"
        case .pushTypeInvalid: "a push type is a short word of visible ASCII characters"
        case .collapseIDTooLong: "the collapse id has more UTF-8 bytes than APNs accepts"
        case .collapseIDInvalid: "a collapse id is ASCII text without control characters or blanks at its ends"
        case .channelIDInvalid: "a channel id is the base64 text that APNs gave the channel when it was made"
        case .priorityNotAllowed: "APNs does not accept this priority for this push type"
        case .expirationInvalid: "an expiration is a date in seconds since 1970, not negative and not milliseconds"
        case .timeInvalid: "a time is in seconds since 1970, not negative and not milliseconds"
        case .rowInvalid: "the closure that makes the row's push threw an error"
        case .badgeInvalid: "a badge is 0 (removes it) or more"
        case .volumeOutOfRange: "the volume of a critical sound must be between 0 and 1"
        case .relevanceScoreInvalid: "a relevance score must be between 0 and 1 (any finite number for Live Activities)"
        case .customKeyReserved: "custom values cannot use the key \"aps\": it belongs to Apple"
        case .customKeyDuplicate: "two values write the same key"
        case .customNotAnObject: "it must encode as a JSON object; give a custom value a key"
        default: self.code.rawValue
        }
    }

    /// At most 40 characters. Control and non-ASCII characters become dots, so that a log entry stays on one line.
    package static func shortened(_ text: some StringProtocol) -> String {
        var result = ""
        for scalar in text.unicodeScalars.prefix(40) {
            result.unicodeScalars.append(scalar.value >= 0x20 && scalar.value < 0x7F ? scalar : ".")
        }
        if text.unicodeScalars.dropFirst(40).first != nil {
            result += "…"
        }
        return result
    }
}
