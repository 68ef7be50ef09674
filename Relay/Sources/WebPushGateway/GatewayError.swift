/// Why the gateway refuses a request.
package struct GatewayError: Error, Sendable, Hashable {
    package enum Code: Sendable, Hashable {
        case badRequest, unauthorized, forbidden, notFound, conflict, bodyTooLarge, unsupportedMediaType, rateLimited
        case unavailable
    }

    package var code: Code
    /// The fault and the remedy.
    package var message: String
    /// The member of the body.
    package var field: String?
    /// The number of seconds after which a repetition of the request may succeed.
    package var retryAfter: Int?
    /// How a request that is not authorized can identify itself.
    package var scheme = "Bearer"

    init(_ code: Code, _ message: String, field: String? = nil, retryAfter: Int? = nil) {
        self.code = code
        self.message = message
        self.field = field
        self.retryAfter = retryAfter
    }

    static func notFound(_ message: String) -> GatewayError { GatewayError(.notFound, message) }

    /// The error for a member of a body.
    static func invalid(_ field: String, _ message: String) -> GatewayError {
        GatewayError(.badRequest, "\(field): \(message)", field: field)
    }

    /// The error for a sender or a device that must wait.
    ///
    /// - Parameter reason: a sentence.
    static func rateLimited(_ wait: Duration, _ reason: String) -> GatewayError {
        let seconds = max(1, Int((wait / .seconds(1)).rounded(.up)))
        let message = "\(reason) Nothing was stored; try again in \(seconds) s."
        return GatewayError(.rateLimited, message, retryAfter: seconds)
    }
}
