/// Why a push was not accepted, and what is certain about it. Every failure of a client is one of these.
///
/// Three questions have a response each time: `canResend`, `retryAfter`, `invalidation`.
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

        /// APNs answered that it refuses the push; see `rejection`.
        public static let rejected = Code(rawValue: "rejected")
        /// The push, or the device token, was refused before the network; see `validation`.
        public static let validation = Code(rawValue: "validation")
        /// The deadline came first.
        public static let deadlineExceeded = Code(rawValue: "deadlineExceeded")
        /// The caller's task was cancelled.
        public static let cancelled = Code(rawValue: "cancelled")
        /// The client's queue is full.
        public static let queueFull = Code(rawValue: "queueFull")
        /// No connection to APNs could be had for a while.
        public static let unavailable = Code(rawValue: "unavailable")
        /// The client is shutting down and takes no more pushes.
        public static let shuttingDown = Code(rawValue: "shuttingDown")
        /// The client is not running.
        public static let notRunning = Code(rawValue: "notRunning")
        /// The provider token or the certificate is at fault.
        public static let credential = Code(rawValue: "credential")
        /// The endpoint cannot work as configured: its name, its certificate, its protocol.
        public static let configuration = Code(rawValue: "configuration")
        /// The connection ended before the response came.
        public static let connectionLost = Code(rawValue: "connectionLost")
        /// The connection broke while it handled this very push, which is therefore not moved to another one.
        public static let connectionFault = Code(rawValue: "connectionFault")
        /// APNs refused the stream without looking at it (RFC 9113 §8.7).
        public static let refused = Code(rawValue: "refused")
        /// APNs closed the connection and proved that it did not look at the push (RFC 9113 §6.8).
        public static let goAway = Code(rawValue: "goAway")
        /// The push's own expiration came first.
        public static let expired = Code(rawValue: "expired")
        /// A newer push took its place.
        public static let superseded = Code(rawValue: "superseded")
        /// So many device tokens were refused in the same way that the environment or topic must be wrong.
        public static let suspectedMisconfiguration = Code(rawValue: "suspectedMisconfiguration")
        /// A fault of this library.
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

    /// One reference: most pushes are accepted, and room for half a kilobyte that an error takes would lie in the memory
    /// of each task that waits for an outcome.
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
    /// What is certain; never `accepted`.
    public var certainty: Certainty {
        get { self.storage.fields.certainty }
        set { self.fields.certainty = newValue }
    }
    /// The id that the push had; nil if it never got one.
    public var apnsID: APNSID? {
        get { self.storage.fields.apnsID }
        set { self.fields.apnsID = newValue }
    }
    /// How often the push was given to a connection.
    public var attempts: Int {
        get { self.storage.fields.attempts }
        set { self.fields.attempts = newValue }
    }
    /// What happened, for people. May name hosts, topics and reasons; holds neither secrets nor whole device tokens.
    public var message: String {
        get { self.storage.fields.message }
        set { self.fields.message = newValue }
    }
    /// How long to wait before the push is sent again; nil if it should not be or nothing is known.
    public var retryAfter: Duration? {
        get { self.storage.fields.retryAfter }
        set { self.fields.retryAfter = newValue }
    }
    /// APNs' response, if there was one.
    public var rejection: Rejection? {
        get { self.storage.fields.rejection }
        set { self.fields.rejection = newValue }
    }
    /// Why APNs refused the push; nil if it did not, or gave no reason.
    public var reason: RejectionReason? { self.rejection?.reason }
    /// What was wrong before the network, with the code `validation`; else nil.
    public var validation: ValidationError? {
        get { self.storage.fields.validation }
        set { self.fields.validation = newValue }
    }

    /// For senders of your own. A client makes its errors itself.
    ///
    /// - Parameters:
    ///   - code: what happened.
    ///   - certainty: what is certain; not `accepted`.
    ///   - apnsID: the id that the push had.
    ///   - attempts: how often it was given to a connection.
    ///   - message: for people; it is printed and logged, so it must hold no secret.
    ///   - retryAfter: how long to wait before it is sent again.
    ///   - rejection: APNs' response, if there was one.
    ///   - validation: what was wrong before the network.
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

    /// The error of a push that APNs refused.
    ///
    /// - Parameters:
    ///   - rejection: APNs' response.
    ///   - attempts: how often the push was given to a connection.
    ///   - retryAfter: what the response's header said; nil takes what Apple's documentation advises.
    public static func rejected(_ rejection: Rejection, attempts: Int, retryAfter: Duration? = nil) -> PushError {
        PushError(
            code: .rejected,
            certainty: .rejected,
            apnsID: rejection.apnsID,
            attempts: attempts,
            message: "\(rejection.status) \(rejection.reason?.rawValue ?? "without a reason"): \(rejection.meaning)",
            retryAfter: retryAfter ?? rejection.delay,
            rejection: rejection
        )
    }

    /// The error of a push that was refused before the network.
    public static func validation(_ error: ValidationError, apnsID: APNSID? = nil) -> PushError {
        PushError(
            code: .validation,
            certainty: .notSent,
            apnsID: apnsID,
            message: error.description,
            validation: error
        )
    }

    /// Whether the same push may be sent again: it cannot arrive twice, and it is not bound to fail again.
    ///
    /// False for `unknown` (it may have arrived), for rejections that would be repeated, and for pushes that are invalid,
    /// expired or superseded.
    public var canResend: Bool {
        switch self.certainty {
        case .accepted, .unknown: false
        case .rejected: self.rejection?.mayBeResent ?? false
        case .notProcessed, .notSent: self.code != .validation && self.code != .expired && self.code != .superseded
        }
    }

    /// That APNs called the device token invalid (status 410); nil otherwise.
    public var invalidation: TokenInvalidation? {
        self.certainty == .rejected ? self.rejection?.invalidation : nil
    }

    /// What to do now, in a word.
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
        case .unavailable, .queueFull: return .wait
        case .expired, .superseded: return .none
        default: return .resend
        }
    }

    private static func advice(for rejection: Rejection) -> Advice {
        // A closed or stale connection is nothing to wait for.
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
    public var description: String {
        var text = "\(self.code) (\(self.certainty.rawValue)): \(self.message)"
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
    /// From seconds of unknown origin, to the millisecond; nil if they are not a sensible time.
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
