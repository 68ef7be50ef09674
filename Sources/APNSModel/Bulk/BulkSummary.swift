/// The number of outcomes of each kind in a bulk call.
public struct BulkSummary: Sendable, Hashable {
    /// Pushes that APNs accepted.
    public var accepted = 0
    /// Pushes that APNs rejected.
    public var rejected = 0
    /// Pushes that left this process but that APNs provably did not process.
    public var notProcessed = 0
    /// Pushes of which no byte left this process.
    public var notSent = 0
    /// Pushes that were written but got no response.
    public var unknown = 0
    /// Why the call stopped on its own: most device tokens were rejected (`suspectedMisconfiguration`). Nil otherwise,
    /// also after `stop()`, a cancellation or a shutdown.
    public var stopped: PushError?

    /// Rejected pushes by APNs' reason, at most ``reasonLimit`` different reasons.
    ///
    /// Rejections for any further reason, or without a reason, are counted under ``otherReasons``. The counts add up to
    /// ``rejected``, unless some outcomes were counted by their certainty alone.
    public private(set) var rejections: [RejectionReason: Int] = [:]

    /// The most reasons that ``rejections`` holds: 64. A limit is needed because APNs chooses the reasons.
    public static let reasonLimit = 64
    /// The key of all other rejections in ``rejections``: `other`.
    public static let otherReasons = RejectionReason(rawValue: "other")

    /// All counts 0.
    public init() {}

    /// The total of all outcomes.
    public var total: Int { self.accepted + self.rejected + self.notProcessed + self.notSent + self.unknown }

    /// Counts one outcome. Does not change `stopped`.
    public mutating func count(_ certainty: Certainty) {
        switch certainty {
        case .accepted: self.accepted += 1
        case .rejected: self.rejected += 1
        case .notProcessed: self.notProcessed += 1
        case .notSent: self.notSent += 1
        case .unknown: self.unknown += 1
        }
    }

    mutating func count(_ outcome: PushOutcome) {
        self.count(outcome.certainty)
        if case .rejected(let error) = outcome { self.count(rejectedFor: error.reason) }
        if outcome.error?.code == .suspectedMisconfiguration { self.stopped = outcome.error }
    }

    mutating func count(rejectedFor reason: RejectionReason?) {
        let reason = reason ?? Self.otherReasons
        let isKnown = self.rejections.count < Self.reasonLimit || self.rejections[reason] != nil
        self.rejections[isKnown ? reason : Self.otherReasons, default: 0] += 1
    }
}
