/// APNs took the push.
///
/// Coded form, stable: `{"apnsID", "apnsUniqueID"?, "attempts"}`.
public struct Receipt: Sendable, Hashable, Codable {
    /// The id of the push: the one that APNs answered, or the one that was sent if the response has none.
    public var apnsID: APNSID
    /// The key to the delivery log of the Push Notifications Console; in development only.
    public var apnsUniqueID: String?
    /// How often the push was sent until it was accepted.
    public var attempts: Int

    /// - Parameters:
    ///   - apnsID: the id of the push.
    ///   - apnsUniqueID: APNs' own id, in development only.
    ///   - attempts: how often the push was sent.
    public init(apnsID: APNSID, apnsUniqueID: String? = nil, attempts: Int = 1) {
        self.apnsID = apnsID
        self.apnsUniqueID = apnsUniqueID
        self.attempts = attempts
    }
}

/// What to do about an outcome, in a word. Open.
public struct Advice: RawRepresentable, Sendable, Hashable, Codable, CustomStringConvertible {
    public let rawValue: String

    public init(rawValue: String) {
        self.rawValue = rawValue
    }

    public var description: String { self.rawValue }

    /// Nothing: it was accepted, or it is too late, or its fate is unknown and sending it again might show it twice.
    public static let none = Advice(rawValue: "none")
    /// Send it again, now.
    public static let resend = Advice(rawValue: "resend")
    /// Send it again later.
    public static let wait = Advice(rawValue: "wait")
    /// The notification is wrong.
    public static let fixRequest = Advice(rawValue: "fix-request")
    /// The device token does not fit the environment or the topic.
    public static let checkEnvironment = Advice(rawValue: "check-environment")
    /// The device token is dead; see `TokenInvalidation.shouldRemove(registeredAt:)`.
    public static let removeToken = Advice(rawValue: "remove-token")
    /// The provider token or the certificate is wrong.
    public static let fixCredential = Advice(rawValue: "fix-credential")
}

/// How one push ended: one of five cases. Each push has exactly one outcome.
///
/// The error of a case has the case's certainty; ``failed(_:)`` makes the case that fits an error.
///
/// Coded form, stable: `{"outcome": certainty, "receipt": {…}}` if accepted, else `{"outcome": certainty,
/// "error": {…}}`.
public enum PushOutcome: Sendable, Hashable {
    /// APNs answered 200: it took the push. That is not yet delivery.
    case accepted(Receipt)
    // Indirect, so that an accepted push does not carry the room of an error about.
    /// APNs answered that it refuses the push; `error.reason` says why.
    indirect case rejected(PushError)
    /// The push left this process, and APNs proved that it did not look at it.
    indirect case notProcessed(PushError)
    /// No byte of the push left this process.
    indirect case notSent(PushError)
    /// The push was written and no response came: it may have been delivered.
    indirect case unknown(PushError)

    /// The outcome of a push that ended with an error, by the error's certainty. An error cannot say that a push was
    /// accepted: such a one makes it `unknown`.
    public static func failed(_ error: PushError) -> PushOutcome {
        switch error.certainty {
        case .rejected: return .rejected(error)
        case .notProcessed: return .notProcessed(error)
        case .notSent: return .notSent(error)
        case .unknown: return .unknown(error)
        case .accepted:
            var error = error
            error.certainty = .unknown
            return .unknown(error)
        }
    }

    /// What is known about the fate of the push.
    public var certainty: Certainty {
        switch self {
        case .accepted: .accepted
        case .rejected: .rejected
        case .notProcessed: .notProcessed
        case .notSent: .notSent
        case .unknown: .unknown
        }
    }

    /// The id of the push; nil if it never got one.
    public var apnsID: APNSID? { self.receipt?.apnsID ?? self.error?.apnsID }

    /// How often the push was given to a connection; 0 if none had it.
    public var attempts: Int { self.receipt?.attempts ?? self.error?.attempts ?? 0 }

    /// The receipt of an accepted push; nil otherwise.
    public var receipt: Receipt? {
        if case .accepted(let receipt) = self { receipt } else { nil }
    }

    /// Why the push was not accepted; nil if it was.
    public var error: PushError? {
        switch self {
        case .accepted: nil
        case .rejected(let error), .notProcessed(let error), .notSent(let error), .unknown(let error): error
        }
    }

    /// The HTTP status of APNs' response; nil if there was none.
    public var status: Int? {
        if case .accepted = self { 200 } else { self.error?.rejection?.status }
    }

    /// Whether the same push may be sent again; false for accepted ones.
    public var canResend: Bool { self.error?.canResend ?? false }

    /// How long to wait before that; nil if it should not be or nothing is known.
    public var retryAfter: Duration? { self.error?.retryAfter }

    /// That APNs called the device token invalid (status 410); nil otherwise.
    public var invalidation: TokenInvalidation? { self.error?.invalidation }

    /// What to do now, in a word.
    public var advice: Advice { self.error?.advice ?? .none }

    /// The receipt of an accepted push.
    ///
    /// - Throws: the error of any other outcome.
    public func get() throws(PushError) -> Receipt {
        switch self {
        case .accepted(let receipt): return receipt
        case .rejected(let error), .notProcessed(let error), .notSent(let error), .unknown(let error): throw error
        }
    }
}

extension PushOutcome: Codable {
    private enum CodingKeys: String, CodingKey {
        case outcome, receipt, error
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        switch try container.decode(Certainty.self, forKey: .outcome) {
        case .accepted: self = .accepted(try container.decode(Receipt.self, forKey: .receipt))
        default: self = .failed(try container.decode(PushError.self, forKey: .error))
        }
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(self.certainty, forKey: .outcome)
        try container.encodeIfPresent(self.receipt, forKey: .receipt)
        try container.encodeIfPresent(self.error, forKey: .error)
    }
}
