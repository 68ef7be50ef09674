/// The reason why a submitted push is not stored.
struct PushFault: Error, Sendable, Hashable {
    enum Code: String, Sendable {
        /// The text is not valid JSON.
        case badJSON
        /// The push cannot be sent as it is.
        case invalidPush
        /// The caller may not send to the app.
        case forbidden
        /// Another push has the same idempotency key or id.
        case conflict
    }

    var code: Code
    /// The line of the request's body, counted from 1.
    var line = 1
    /// The faulty member, for example `headers.apns-priority`; nil if the fault concerns no single member.
    var field: String?
    /// The fault, and the expected value.
    var message: String

    init(_ code: Code, _ field: String?, _ message: String) {
        self.code = code
        self.field = field
        self.message = message
    }

    /// The fault of a member whose value is not allowed.
    static func invalid(_ field: String, _ message: String) -> PushFault { PushFault(.invalidPush, field, message) }
}
