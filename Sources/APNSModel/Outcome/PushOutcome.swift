/// The acknowledgement of a push that APNs accepted.
///
/// Coded form, stable: `{"apnsID", "apnsUniqueID"?, "attempts"}`.
public struct Receipt: Sendable, Hashable, Codable {
    /// The id of the push: the id in APNs' response, or the id that was sent if the response has none.
    public var apnsID: APNSID
    /// The id of the push in the delivery log of the Push Notifications Console. Development environment only.
    public var apnsUniqueID: String?
    /// How many attempts were made, including the accepted one.
    public var attempts: Int

    /// - Parameters:
    ///   - apnsID: the id of the push.
    ///   - apnsUniqueID: APNs' own id, in the development environment only.
    ///   - attempts: how many attempts were made.
    public init(apnsID: APNSID, apnsUniqueID: String? = nil, attempts: Int = 1) {
        self.apnsID = apnsID
        self.apnsUniqueID = apnsUniqueID
        self.attempts = attempts
    }
}

extension Receipt: CustomStringConvertible {
    /// One line, for example `accepted [apns-id …]`, or `accepted at attempt 2 [apns-id …]` after a retry.
    public var description: String {
        let attempt = self.attempts > 1 ? " at attempt \(self.attempts)" : ""
        let unique = self.apnsUniqueID.map { ", apns-unique-id \($0)" } ?? ""
        return "accepted\(attempt) [apns-id \(self.apnsID)\(unique)]"
    }
}

/// The recommended action for an outcome. Open: later versions may add values.
public struct Advice: RawRepresentable, Sendable, Hashable, Codable, CustomStringConvertible {
    public let rawValue: String

    public init(rawValue: String) {
        self.rawValue = rawValue
    }

    public var description: String { self.rawValue }

    /// Do nothing: the push was accepted, it is too late, or its fate is unknown and a resend might show it twice.
    public static let none = Advice(rawValue: "none")
    /// Resend the push now.
    public static let resend = Advice(rawValue: "resend")
    /// Resend the push later.
    public static let wait = Advice(rawValue: "wait")
    /// Correct the notification.
    public static let fixRequest = Advice(rawValue: "fix-request")
    /// Check the environment and the topic: the device token does not match them.
    public static let checkEnvironment = Advice(rawValue: "check-environment")
    /// Remove the device token, which is no longer valid; see `TokenInvalidation.shouldRemove(registeredAt:)`.
    public static let removeToken = Advice(rawValue: "remove-token")
    /// Correct the provider token or the certificate.
    public static let fixCredential = Advice(rawValue: "fix-credential")
}

/// How one push ended: one of five cases. Each push has exactly one outcome.
///
/// The error of a case has that case's certainty. ``failed(_:)`` creates the case that matches an error.
///
/// ```swift
/// switch await client.deliver(notification, to: deviceToken) {
/// case .accepted(let receipt): print("accepted", receipt.apnsID)
/// case .rejected(let error): print("rejected", error.reason?.rawValue ?? "")
/// case .notProcessed(let error), .notSent(let error): print("not arrived, may be sent again:", error.canResend)
/// case .unknown: print("may have arrived")
/// }
/// ```
///
/// Coded form, stable: `{"outcome": certainty, "receipt": {…}}` if accepted, else `{"outcome": certainty,
/// "error": {…}}`.
public enum PushOutcome: Sendable, Hashable {
    /// APNs responded with 200: it accepted the push. The push is not yet delivered.
    case accepted(Receipt)
    // Indirect, so that an accepted push does not reserve memory for an error.
    /// APNs responded that it rejects the push; `error.reason` holds the reason.
    indirect case rejected(PushError)
    /// The push left this process, but APNs provably did not process it.
    indirect case notProcessed(PushError)
    /// No byte of the push left this process.
    indirect case notSent(PushError)
    /// The push was written but got no response, or one that proves nothing: it may have been delivered.
    indirect case unknown(PushError)

    /// The outcome of a push that ended with an error, by the error's certainty. An error cannot report an accepted
    /// push; the certainty `accepted` becomes `unknown`.
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

    /// What is certain about the fate of the push.
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

    /// How many attempts were made; 0 if the push was never assigned to a connection.
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

    /// Whether you may resend the push; false for accepted ones.
    public var canResend: Bool { self.error?.canResend ?? false }

    /// How long to wait before resending the push; nil if it should not be resent or if no time is known.
    public var retryAfter: Duration? { self.error?.retryAfter }

    /// The invalidation of the device token by APNs (status 410); nil for other outcomes.
    public var invalidation: TokenInvalidation? { self.error?.invalidation }

    /// The recommended action.
    public var advice: Advice { self.error?.advice ?? .none }

    /// Returns the receipt of an accepted push.
    ///
    /// - Throws: the error of any other outcome.
    public func get() throws(PushError) -> Receipt {
        switch self {
        case .accepted(let receipt): return receipt
        case .rejected(let error), .notProcessed(let error), .notSent(let error), .unknown(let error): throw error
        }
    }
}

extension PushOutcome: CustomStringConvertible {
    /// One line: what happened, why, and the id of the push, for example
    /// `rejected: 410 Unregistered: the device token is no longer active for the topic [apns-id …]`.
    public var description: String {
        switch self {
        case .accepted(let receipt): receipt.description
        case .rejected(let error), .notProcessed(let error), .notSent(let error), .unknown(let error): error.description
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
