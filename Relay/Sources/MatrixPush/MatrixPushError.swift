/// Why a request is refused, or why a device gets no notification.
public struct MatrixPushError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The kind of error. Later versions may add codes.
    public struct Code: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
        public let rawValue: String

        public init(rawValue: String) {
            self.rawValue = rawValue
        }

        public var description: String { self.rawValue }

        /// The request is not that of the Push Gateway API. Status 400.
        public static let malformed = Code(rawValue: "malformed")
        /// The pushkey is not a device token.
        public static let invalidPushkey = Code(rawValue: "invalidPushkey")
        /// The payload that the app has registered is too large for a notification.
        public static let payloadTooLarge = Code(rawValue: "payloadTooLarge")
    }

    public var code: Code
    /// The fault and the remedy. It has no part of the request.
    public var message: String

    public init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    public var description: String { self.message }
}
