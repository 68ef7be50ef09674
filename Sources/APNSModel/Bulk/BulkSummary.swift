/// The number of outcomes of each kind in a bulk call, and how the call ended.
///
/// ```swift
/// let summary = await client.sendAll(notification, to: deviceTokens)
/// if !summary.isFinished { print("not all were sent:", summary.stopped?.message ?? "") }
/// ```
///
/// In a loop of your own, count each outcome with ``count(_:)-(PushOutcome)``.
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
    /// Whether the call reached the end of its input: each element has its outcome.
    ///
    /// False while the call runs, if it ended early (see ``stopped``), if the input threw, and if the loop was left. A
    /// call that is stopped before its input says that it has no further element counts as ended early.
    public var isFinished = false
    /// Why the call stopped sending; nil if nothing stopped it.
    ///
    /// The code is `suspectedMisconfiguration` if most device tokens were rejected, `cancelled` after
    /// ``BulkControl/stop()`` or a cancellation of the task, and `shuttingDown` if the client or its service shut down.
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

    /// Counts one outcome, and the reason of a rejection.
    ///
    /// ```swift
    /// var summary = BulkSummary()
    /// for await delivery in client.deliveries(of: notification, to: deviceTokens) {
    ///     summary.count(delivery.outcome)
    /// }
    /// print(summary)  // 3 pushes: 2 accepted, 1 rejected (1 Unregistered)
    /// ```
    ///
    /// Does not change ``isFinished`` and ``stopped``, which only the call knows: the `control.progress` of the
    /// deliveries has them.
    public mutating func count(_ outcome: PushOutcome) {
        self.count(outcome.certainty)
        if case .rejected(let error) = outcome { self.count(rejectedFor: error.reason) }
    }

    /// Counts one outcome by its certainty alone. Does not change ``rejections``, ``isFinished`` and ``stopped``.
    public mutating func count(_ certainty: Certainty) {
        switch certainty {
        case .accepted: self.accepted += 1
        case .rejected: self.rejected += 1
        case .notProcessed: self.notProcessed += 1
        case .notSent: self.notSent += 1
        case .unknown: self.unknown += 1
        }
    }

    /// Records the end of the call. A reason to stop that is already known counts.
    mutating func finish(_ end: BulkEnd) {
        self.isFinished = end.isFinished
        self.stopped = self.stopped ?? end.stopped
    }

    mutating func count(rejectedFor reason: RejectionReason?) {
        let reason = reason ?? Self.otherReasons
        let isKnown = self.rejections.count < Self.reasonLimit || self.rejections[reason] != nil
        self.rejections[isKnown ? reason : Self.otherReasons, default: 0] += 1
    }
}

extension BulkSummary: CustomStringConvertible {
    /// One line that leaves out zeros, for example `3 pushes: 2 accepted, 1 rejected (1 Unregistered)`. If something
    /// stopped the call, its reason follows.
    public var description: String {
        let counts = [
            (self.accepted, "accepted"), (self.rejected, "rejected\(self.reasons)"),
            (self.notProcessed, "not processed"), (self.notSent, "not sent"), (self.unknown, "unknown"),
        ]
        let parts = counts.filter { $0.0 > 0 }.map { "\($0.0) \($0.1)" }
        var text = self.total == 1 ? "1 push" : "\(self.total) pushes"
        if !parts.isEmpty { text += ": " + parts.joined(separator: ", ") }
        if let stopped { text += "; stopped: \(stopped.message)" }
        return text
    }

    /// The rejections by reason, the most frequent ones first.
    private var reasons: String {
        let sorted = self.rejections.sorted { ($1.value, $0.key.rawValue) < ($0.value, $1.key.rawValue) }
        guard !sorted.isEmpty else { return "" }
        return " (\(sorted.map { "\($0.value) \($0.key)" }.joined(separator: ", ")))"
    }
}
