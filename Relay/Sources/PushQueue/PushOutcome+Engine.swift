public import APNSModel

/// The outcomes that an engine decides itself, and how it merges the outcomes of several attempts.
extension PushOutcome {
    /// The outcome of a push that a newer one replaced.
    public static func superseded(_ id: APNSID, attempts: Int = 0) -> PushOutcome {
        .notSent(id, .superseded, attempts, "a newer push with the same key replaced it")
    }

    /// The outcome of a push that was cancelled.
    public static func cancelled(_ id: APNSID, attempts: Int = 0) -> PushOutcome {
        .notSent(id, .cancelled, attempts, "the push was cancelled")
    }

    /// The outcome of a push whose deadline or expiration passed while it was queued. The code says which of the two
    /// passed first.
    public static func overdue(
        _ id: APNSID,
        deadline: QueueTime,
        expiration: Expiration,
        attempts: Int = 0
    ) -> PushOutcome {
        if let expired = QueueTime(expirationOf: expiration), expired <= deadline {
            return .notSent(id, .expired, attempts, "the push expired before it was sent")
        }
        return .notSent(id, .deadlineExceeded, attempts, "the deadline passed before the push was sent")
    }

    /// The outcome of a push that was marked as written and whose lease then expired.
    public static func lost(_ id: APNSID, attempts: Int) -> PushOutcome {
        .unknown(
            PushError(
                code: .connectionLost,
                certainty: .unknown,
                apnsID: id,
                attempts: attempts,
                message: "the process that was sending the push ended before the outcome was stored"
            )
        )
    }

    /// The outcome of a push that may have been sent after the backup from which the queue was restored.
    public static func restored(_ id: APNSID, attempts: Int) -> PushOutcome {
        .unknown(
            PushError(
                code: .connectionLost,
                certainty: .unknown,
                apnsID: id,
                attempts: attempts,
                message: "the queue was restored from a backup, and the push may have been sent before"
            )
        )
    }

    /// The outcome of a stored push that cannot be read.
    public static func unreadable(_ id: APNSID, attempts: Int = 0) -> PushOutcome {
        .notSent(id, .internalFault, attempts, "the stored push cannot be read; check the storage")
    }

    /// Merges this outcome with the outcome of the earlier attempts. The stronger certainty wins. If both are equally
    /// strong, this outcome wins.
    ///
    /// - Parameter earlier: the outcome of the attempts before this one; nil if there was none.
    public func merged(with earlier: PushOutcome?) -> PushOutcome {
        guard let earlier, earlier.certainty > self.certainty, var error = earlier.error else { return self }
        if let message = self.error?.message, !error.message.hasSuffix(message) {
            error.message += Self.afterThat + message
        }
        return .failed(error)
    }

    private static let afterThat = "; after that: "

    /// Whether the last attempt has this message. It is the whole message of the outcome, or ``merged(with:)`` appended
    /// it.
    public func ends(with message: String) -> Bool {
        guard let text = self.error?.message else { return false }
        return text == message || text.hasSuffix(Self.afterThat + message)
    }

    private static func notSent(
        _ id: APNSID,
        _ code: PushError.Code,
        _ attempts: Int,
        _ message: String
    ) -> PushOutcome {
        .notSent(PushError(code: code, certainty: .notSent, apnsID: id, attempts: attempts, message: message))
    }
}

extension QueueTime {
    /// When a push with this expiration expires; nil if never.
    public init?(expirationOf expiration: Expiration) {
        guard case .at(let seconds) = expiration, seconds != 0 else { return nil }
        self.init(secondsSince1970: seconds)
    }
}
