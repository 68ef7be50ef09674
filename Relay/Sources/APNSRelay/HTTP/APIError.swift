import HTTPTypes
import Hummingbird
import PushQueue

/// A response that reports an error: `{"error":{"code":"…","message":"…","line":3,"field":"…"}}`.
struct APIError: Error, Hashable {
    enum Code: String, Sendable, CaseIterable {
        case badJSON, badQuery, badRequest, invalidPush, unauthorized, forbidden, notFound, methodNotAllowed, timeout
        case conflict, written, settled, bodyTooLarge, tooManyPushes, unsupportedMediaType, rateLimited
        case outcomesMissing, invalidSettings, preconditionFailed, preconditionRequired
        case queueFull, unavailable, undecided, shuttingDown, internalError
    }

    var status: HTTPResponse.Status
    var code: Code
    /// The fault and the remedy.
    var message: String
    /// The line of the body, from 1.
    var line: Int?
    /// The member of the push.
    var field: String?
    /// The seconds after which the request may succeed.
    var retryAfter: Int?
    /// The outcomes that a reader of a feed has missed.
    var gap: FeedGap?

    init(
        _ status: HTTPResponse.Status,
        _ code: Code,
        _ message: String,
        line: Int? = nil,
        field: String? = nil,
        retryAfter: Int? = nil
    ) {
        self.status = status
        self.code = code
        self.message = message
        self.line = line
        self.field = field
        self.retryAfter = retryAfter
    }

    /// A push that cannot be stored.
    init(_ fault: PushFault) {
        switch fault.code {
        case .badJSON: self.init(.badRequest, .badJSON, fault.message)
        case .invalidPush: self.init(.badRequest, .invalidPush, fault.message)
        case .forbidden: self.init(.forbidden, .forbidden, fault.message)
        case .conflict: self.init(.conflict, .conflict, fault.message)
        }
        self.line = fault.line
        self.field = fault.field
    }

    /// Settings that cannot be used.
    init(_ fault: FleetSettings.Fault) {
        self.init(.badRequest, .invalidSettings, fault.message, field: fault.member)
    }

    /// A cursor after which outcomes are missing.
    init(_ gap: FeedGap) {
        let range = "\(gap.first) to \(gap.last)"
        let next = "Continue with after=\(gap.resume.text)."
        switch gap.reason {
        case .deleted:
            self.init(
                .gone,
                .outcomesMissing,
                "The outcomes \(range) were deleted before they were read, because they are older than "
                    + "retention.outcomes. \(next)"
            )
        case .restored:
            self.init(
                .gone,
                .outcomesMissing,
                "The queue was restored from a backup or replaced: it does not have the outcomes \(range) that were "
                    + "read, and later outcomes get the same positions. \(next)"
            )
        }
        self.gap = gap
    }

    /// A call of the queue that failed. The queue's own message may name files, so only the log has it.
    init(_ error: QueueError) {
        switch error.code {
        case .full:
            self.init(
                .serviceUnavailable,
                .queueFull,
                "The queue has reached its capacity. Nothing was stored; try again later.",
                retryAfter: 10
            )
        case .closed: self = .shuttingDown
        case .undecided:
            self.init(
                .serviceUnavailable,
                .undecided,
                "The queue did not respond in time. It is not known whether anything was changed; repeat the request, with "
                    + "the same idempotency keys.",
                retryAfter: 5
            )
        case .unavailable, .unusable, .inUse:
            self.init(
                .serviceUnavailable,
                .unavailable,
                "The queue cannot be used now. Nothing was changed; try again later.",
                retryAfter: 5
            )
        }
    }

    static let shuttingDown = APIError(
        .serviceUnavailable,
        .shuttingDown,
        "The relay is shutting down. Nothing was changed; try again later.",
        retryAfter: 5
    )

    static func notFound(_ message: String) -> APIError { APIError(.notFound, .notFound, message) }

    /// The response, without the headers that every response has.
    var response: Response {
        var headers = HTTPFields()
        if let retryAfter { headers[.retryAfter] = String(retryAfter) }
        if self.status == .unauthorized { headers[.wwwAuthenticate] = "Bearer" }
        return .json(
            ErrorJSON(
                error: .init(
                    code: self.code.rawValue,
                    message: self.message,
                    line: self.line,
                    field: self.field,
                    missing: self.gap.map { .init(first: $0.first, last: $0.last, cursor: $0.resume.text) }
                )
            ),
            status: self.status,
            headers: headers
        )
    }
}

/// The body of a response that reports an error.
struct ErrorJSON: Encodable {
    struct Content: Encodable {
        var code: String
        var message: String
        var line: Int?
        var field: String?
        var missing: Missing?
    }

    struct Missing: Encodable {
        /// The first and the last position that is missing.
        var first: Int64
        var last: Int64
        /// Where to continue.
        var cursor: String
    }

    var error: Content
}
