/// Why a push was not accepted, and what is certain about its fate. Every failure of a client is a `PushError`.
///
/// To react to an error, read `canResend`, `retryAfter` and `invalidation`.
///
/// ```swift
/// do {
///     print(try await client.send(notification, to: deviceToken).apnsID)
/// } catch {
///     if error.invalidation != nil { print("the device token is dead") }
///     if error.canResend { print("send it again in", error.retryAfter ?? .seconds(60)) }
/// }
/// ```
///
/// Coded form, stable; keys that are nil are left out: `{"code", "certainty", "attempts", "message", "apnsID",
/// "retryAfterSeconds", "rejection": {…}, "validation": {…}}`.
public struct PushError: Error, Sendable, Hashable {
    /// What happened. Open: later versions may add codes.
    public struct Code: RawRepresentable, Sendable, Hashable, Codable, CustomStringConvertible {
        public let rawValue: String

        public init(rawValue: String) {
            self.rawValue = rawValue
        }

        public var description: String { self.rawValue }

        /// The response was not 200; see `rejection`. With the certainty `unknown`, APNs itself may not have sent it.
        public static let rejected = Code(rawValue: "rejected")
        /// The push or the device token failed validation and was not sent; see `validation`.
        public static let validation = Code(rawValue: "validation")
        /// The push had no outcome before its deadline.
        public static let deadlineExceeded = Code(rawValue: "deadlineExceeded")
        /// The caller's task was cancelled, or the caller stopped its bulk call.
        public static let cancelled = Code(rawValue: "cancelled")
        /// The client's queue is full.
        public static let queueFull = Code(rawValue: "queueFull")
        /// No connection to APNs could be opened for a while.
        public static let unavailable = Code(rawValue: "unavailable")
        /// Each push gets the same failure at present, such as a 503. The message names it.
        public static let outage = Code(rawValue: "outage")
        /// The client is shutting down and accepts no more pushes.
        public static let shuttingDown = Code(rawValue: "shuttingDown")
        /// The client is not running.
        public static let notRunning = Code(rawValue: "notRunning")
        /// The provider token or the certificate is wrong.
        public static let credential = Code(rawValue: "credential")
        /// The endpoint cannot work as configured: its name, its certificate or its protocol is wrong.
        public static let configuration = Code(rawValue: "configuration")
        /// The connection ended before the response arrived.
        public static let connectionLost = Code(rawValue: "connectionLost")
        /// The connection could not take this very push: a bug in the library, or no memory. The push is not moved to another
        /// connection.
        public static let connectionFault = Code(rawValue: "connectionFault")
        /// APNs refused the stream without processing it (RFC 9113 §8.7).
        public static let refused = Code(rawValue: "refused")
        /// APNs closed the connection and provably did not process the push (RFC 9113 §6.8).
        public static let goAway = Code(rawValue: "goAway")
        /// The push's own expiration passed.
        public static let expired = Code(rawValue: "expired")
        /// A newer push with the same key replaced this one. Reported by the relay only.
        public static let superseded = Code(rawValue: "superseded")
        /// So many device tokens were rejected for one reason that the environment or topic is probably wrong.
        public static let suspectedMisconfiguration = Code(rawValue: "suspectedMisconfiguration")
        /// An error in this library.
        public static let internalFault = Code(rawValue: "internalFault")
    }

    private struct Fields: Sendable, Hashable {
        var code: Code
        var certainty: Certainty
        var apnsID: APNSID?
        var attempts: Int
        var message: String
        var retryAfter: Duration?
        var rejection: Rejection?
        var validation: ValidationError?
    }

    private final class Storage: Sendable {
        let fields: Fields
        init(_ fields: Fields) { self.fields = fields }
    }

    /// A reference, to keep the type small. Most pushes are accepted; without it, each task that waits for an outcome
    /// would reserve the half kilobyte that an error takes.
    private var storage: Storage

    private var fields: Fields {
        get { self.storage.fields }
        set { self.storage = Storage(newValue) }
    }

    /// What happened.
    public var code: Code {
        get { self.storage.fields.code }
        set { self.fields.code = newValue }
    }
    /// The certainty of the outcome; never `accepted`.
    public var certainty: Certainty {
        get { self.storage.fields.certainty }
        set { self.fields.certainty = newValue }
    }
    /// The id of the push; nil if it never got one.
    public var apnsID: APNSID? {
        get { self.storage.fields.apnsID }
        set { self.fields.apnsID = newValue }
    }
    /// How many attempts were made: how often the push was assigned to a connection.
    public var attempts: Int {
        get { self.storage.fields.attempts }
        set { self.fields.attempts = newValue }
    }
    /// A description for people. It may name hosts, topics and reasons, but contains neither secrets nor whole device
    /// tokens.
    public var message: String {
        get { self.storage.fields.message }
        set { self.fields.message = newValue }
    }
    /// How long to wait before resending the push; nil if it should not be resent or if no time is known.
    public var retryAfter: Duration? {
        get { self.storage.fields.retryAfter }
        set { self.fields.retryAfter = newValue }
    }
    /// The response, if there was one other than 200.
    public var rejection: Rejection? {
        get { self.storage.fields.rejection }
        set { self.fields.rejection = newValue }
    }
    /// Why APNs rejected the push; nil if it did not reject it or gave no reason.
    public var reason: RejectionReason? { self.rejection?.reason }
    /// The validation error if the code is `validation`; nil otherwise.
    public var validation: ValidationError? {
        get { self.storage.fields.validation }
        set { self.fields.validation = newValue }
    }

    /// Creates an error, for your own senders. A client creates its errors itself.
    ///
    /// - Parameters:
    ///   - code: what happened.
    ///   - certainty: the certainty of the outcome; not `accepted`.
    ///   - apnsID: the id of the push.
    ///   - attempts: how many attempts were made.
    ///   - message: a description for people. It is printed and logged, so it must not contain secrets.
    ///   - retryAfter: how long to wait before resending the push.
    ///   - rejection: APNs' response, if there was one.
    ///   - validation: the validation error, if there was one.
    public init(
        code: Code,
        certainty: Certainty,
        apnsID: APNSID? = nil,
        attempts: Int = 0,
        message: String,
        retryAfter: Duration? = nil,
        rejection: Rejection? = nil,
        validation: ValidationError? = nil
    ) {
        self.storage = Storage(
            Fields(
                code: code,
                certainty: certainty,
                apnsID: apnsID,
                attempts: attempts,
                message: message,
                retryAfter: retryAfter,
                rejection: rejection,
                validation: validation
            )
        )
    }

    public static func == (lhs: PushError, rhs: PushError) -> Bool {
        lhs.storage === rhs.storage || lhs.storage.fields == rhs.storage.fields
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(self.storage.fields)
    }

    /// The error of a push that got a response other than 200.
    ///
    /// Its certainty is `rejected`, but `unknown` for a 5xx response without one of APNs' documented reasons: a proxy or
    /// gateway may have sent it after it had passed the push on.
    ///
    /// - Parameters:
    ///   - rejection: APNs' response.
    ///   - attempts: how many attempts were made.
    ///   - retryAfter: the delay from the response's header; nil for the delay that Apple's documentation advises.
    public static func rejected(_ rejection: Rejection, attempts: Int, retryAfter: Duration? = nil) -> PushError {
        let doubt = rejection.provesNoEffect ? "" : "; a server before APNs may have sent it after passing the push on"
        return PushError(
            code: .rejected,
            certainty: rejection.provesNoEffect ? .rejected : .unknown,
            apnsID: rejection.apnsID,
            attempts: attempts,
            message: rejection.description + doubt,
            retryAfter: retryAfter ?? rejection.delay,
            rejection: rejection
        )
    }

    /// The error of a push that failed validation and was not sent.
    public static func validation(_ error: ValidationError, apnsID: APNSID? = nil) -> PushError {
        PushError(
            code: .validation,
            certainty: .notSent,
            apnsID: apnsID,
            message: error.description,
            validation: error
        )
    }

    /// Whether you may resend the push: it cannot arrive twice, and a resend does not necessarily fail.
    ///
    /// False for `unknown` (the push may have arrived), for rejections that would repeat, and for pushes that are
    /// invalid, expired or superseded.
    public var canResend: Bool {
        switch self.certainty {
        case .accepted, .unknown: false
        case .rejected: self.rejection?.mayBeResent ?? false
        case .notProcessed, .notSent: self.code != .validation && self.code != .expired && self.code != .superseded
        }
    }

    /// Whether the failure says nothing about the push: any other push would meet it now.
    package var isWeather: Bool {
        if let rejection { return rejection.isWeather }
        return [.connectionLost, .outage, .unavailable, .refused, .credential].contains(self.code)
    }

    /// The invalidation of the device token by APNs (status 410); nil for other errors.
    public var invalidation: TokenInvalidation? {
        self.certainty == .rejected ? self.rejection?.invalidation : nil
    }

    /// The recommended action.
    public var advice: Advice {
        switch self.certainty {
        case .accepted, .unknown:
            return .none
        case .rejected:
            return self.rejection.map(Self.advice(for:)) ?? .fixRequest
        case .notProcessed, .notSent:
            break
        }
        switch self.code {
        case .validation: return .fixRequest
        case .credential: return .fixCredential
        case .configuration, .suspectedMisconfiguration: return .checkEnvironment
        case .unavailable, .outage, .queueFull: return .wait
        case .expired, .superseded: return .none
        default: return .resend
        }
    }

    private static func advice(for rejection: Rejection) -> Advice {
        // A closed or stale connection needs no delay.
        if rejection.mayBeResent, rejection.delay == .zero { return .resend }
        switch rejection.disposition {
        case .tokenInvalid: return .removeToken
        case .tokenOrEnvironment: return .checkEnvironment
        case .credential: return .fixCredential
        case .retryLater, .pauseDevice: return .wait
        default: return .fixRequest
        }
    }
}

extension PushError: CustomStringConvertible {
    /// One line: the code, the certainty unless the code is the same word, the message, and the id of the push.
    public var description: String {
        let certainty = self.certainty.rawValue
        var text = self.code.rawValue == certainty ? certainty : "\(self.code) (\(certainty))"
        text += ": \(self.message)"
        if let apnsID { text += " [apns-id \(apnsID)]" }
        return text
    }
}

extension PushError: Codable {
    private enum CodingKeys: String, CodingKey {
        case code, certainty, attempts, message, apnsID, retryAfterSeconds, rejection, validation
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            code: try container.decode(Code.self, forKey: .code),
            certainty: try container.decode(Certainty.self, forKey: .certainty),
            apnsID: try container.decodeIfPresent(APNSID.self, forKey: .apnsID),
            attempts: try container.decode(Int.self, forKey: .attempts),
            message: try container.decode(String.self, forKey: .message),
            retryAfter: try container.decodeIfPresent(Double.self, forKey: .retryAfterSeconds)
                .flatMap(Duration.init(wholeMilliseconds:)),
            rejection: try container.decodeIfPresent(Rejection.self, forKey: .rejection),
            validation: try container.decodeIfPresent(ValidationError.self, forKey: .validation)
        )
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(self.code, forKey: .code)
        try container.encode(self.certainty, forKey: .certainty)
        try container.encode(self.attempts, forKey: .attempts)
        try container.encode(self.message, forKey: .message)
        try container.encodeIfPresent(self.apnsID, forKey: .apnsID)
        try container.encodeIfPresent(self.retryAfter?.secondsValue, forKey: .retryAfterSeconds)
        try container.encodeIfPresent(self.rejection, forKey: .rejection)
        try container.encodeIfPresent(self.validation, forKey: .validation)
    }
}

extension Duration {
    /// Takes seconds from an untrusted source, rounded to a millisecond; nil if they are not a sensible duration.
    fileprivate init?(wholeMilliseconds seconds: Double) {
        guard seconds.magnitude < 1e12, let milliseconds = Int64(exactly: (seconds * 1_000).rounded()) else {
            return nil
        }
        self = .milliseconds(milliseconds)
    }

    fileprivate var secondsValue: Double {
        let (seconds, attoseconds) = self.components
        return Double(seconds) + (Double(attoseconds) / 1e15).rounded() / 1_000
    }
}
