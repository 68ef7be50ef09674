import HTTPTypes
import Hummingbird
import PushQueue

/// A response that reports an error: `{"error":{"code":"…","message":"…","line":3,"field":"…"}}`.
struct APIError: Error, Hashable {
    enum Code: String, Sendable, CaseIterable {
        case badJSON, badQuery, badRequest, invalidPush, unauthorized, forbidden, notFound, methodNotAllowed, timeout
        case conflict, written, settled, bodyTooLarge, tooManyPushes, unsupportedMediaType, rateLimited, quotaExceeded
        case outcomesMissing, invalidSettings, preconditionFailed, preconditionRequired
        case queueFull, unavailable, undecided, shuttingDown, internalError
    }

    var status: HTTPResponse.Status
    var code: Code
    /// The fault and the remedy.
    var message: String
    /// The line of the body, counted from 1.
    var line: Int?
    /// The member of the push.
    var field: String?
    /// The number of seconds after which a repetition of the request may succeed.
    var retryAfter: Int?
    /// The outcomes that a reader of a feed has missed.
    var gap: FeedGap?
    /// How a request that is not authorized can identify itself.
    var scheme = "Bearer"

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

    /// The error for a push that cannot be stored.
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

    /// The error for invalid settings of the fleet.
    init(_ fault: FleetSettings.Fault) {
        self.init(.badRequest, .invalidSettings, fault.message, field: fault.member)
    }

    /// The error for a cursor after which outcomes are missing.
    init(_ gap: FeedGap) {
        let range = "\(gap.first) to \(gap.last)"
        let next = "Continue with after=\(gap.resume.text)."
        switch gap.reason {
        case .deleted:
            self.init(
                .gone,
                .outcomesMissing,
                "The outcomes \(range) were deleted before you read them, because they are older than "
                    + "retention.outcomes. \(next)"
            )
        case .restored:
            self.init(
                .gone,
                .outcomesMissing,
                "The queue was restored from a backup or replaced. It does not have the outcomes \(range) that you "
                    + "have read, and gives their positions to other outcomes. \(next)"
            )
        }
        self.gap = gap
    }

    /// The error for a failed call of the queue. The queue's own message may name files, so it appears only in the log.
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
                "The queue did not respond in time. It is unknown whether anything was changed. Repeat the request "
                    + "with the same idempotency keys.",
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

    /// The error for a caller that has none of the roles that it needs for a request.
    static func missing(_ roles: [Role], of caller: Caller) -> APIError {
        let names = roles.map(\.rawValue).joined(separator: " or ")
        return APIError(.forbidden, .forbidden, "The caller \(caller.name) needs the role \(names) for this.")
    }

    /// The error for a caller or a sender that must wait.
    ///
    /// - Parameter reason: a sentence.
    static func rateLimited(_ wait: Duration, _ reason: String) -> APIError {
        let seconds = max(1, Int((wait / .seconds(1)).rounded(.up)))
        let message = "\(reason) Nothing was stored; try again in \(seconds) s."
        return APIError(.tooManyRequests, .rateLimited, message, retryAfter: seconds)
    }

    /// The error for a request whose header and member `idempotencyKey` differ.
    static let otherKeyInHeader = APIError(
        .badRequest,
        .invalidPush,
        "idempotencyKey: the header Idempotency-Key has another key; give one of them",
        field: "idempotencyKey"
    )

    static func notFound(_ message: String) -> APIError { APIError(.notFound, .notFound, message) }

    /// The error for a member of a request.
    static func invalid(_ field: String, _ message: String) -> APIError {
        APIError(.badRequest, .badRequest, "\(field): \(message)", field: field)
    }

    /// The response. The middleware adds the headers that every response has.
    var response: Response {
        var headers = HTTPFields()
        if let retryAfter { headers[.retryAfter] = String(retryAfter) }
        if self.status == .unauthorized { headers[.wwwAuthenticate] = self.scheme }
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
        /// The first and the last missing position.
        var first: Int64
        var last: Int64
        /// The cursor to continue with.
        var cursor: String
    }

    var error: Content
}
