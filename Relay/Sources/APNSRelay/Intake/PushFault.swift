/// Why a push that was handed in is not stored.
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
    /// The line of the request's body, from 1.
    var line = 1
    /// The member that is wrong, for example `headers.apns-priority`; nil if it is none.
    var field: String?
    /// The fault, and the expected value.
    var message: String

    init(_ code: Code, _ field: String?, _ message: String) {
        self.code = code
        self.field = field
        self.message = message
    }

    /// A member with a value that the push cannot have.
    static func invalid(_ field: String, _ message: String) -> PushFault { PushFault(.invalidPush, field, message) }
}
