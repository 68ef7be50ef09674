/// A refused Web Push request: a status and a text for the sender's operator.
///
/// Senders delete a subscription after a 4xx, except 408 and 429. So no error of this type stands for a passing fault.
public struct WebPushError: Error, Sendable, Hashable {
    /// The kind of error. Later versions may add codes.
    public struct Code: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
        public let rawValue: String

        public init(rawValue: String) {
            self.rawValue = rawValue
        }

        public var description: String { self.rawValue }

        /// A header field is missing, repeated or malformed. Status 400.
        public static let invalidHeader = Code(rawValue: "invalidHeader")
        /// The body is not an encrypted message (RFC 8291). Status 400.
        public static let invalidBody = Code(rawValue: "invalidBody")
        /// The content encoding is not supported. Status 415.
        public static let unsupportedEncoding = Code(rawValue: "unsupportedEncoding")
        /// The message does not fit into a notification, or is larger than every gateway accepts. Status 413.
        public static let tooLarge = Code(rawValue: "tooLarge")
        /// The request does not identify its sender (RFC 8292), and must. Status 401.
        public static let vapidMissing = Code(rawValue: "vapidMissing")
        /// The identification is invalid, or the sender is another one than the subscription's. Status 403.
        public static let vapidInvalid = Code(rawValue: "vapidInvalid")
    }

    public var code: Code
    /// The fault and the remedy. It has no part of the request that is a secret.
    public var message: String

    public init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    /// The status of the response.
    public var status: Int {
        switch self.code {
        case .unsupportedEncoding: 415
        case .tooLarge: 413
        case .vapidMissing: 401
        case .vapidInvalid: 403
        default: 400
        }
    }
}
