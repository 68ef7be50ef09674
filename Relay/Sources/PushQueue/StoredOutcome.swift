package import APNSModel

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// An outcome as both engines store it.
package struct StoredOutcome: Sendable {
    package var certainty: Certainty
    /// The attempts of the call that has the outcome.
    package var sends: Int
    /// Whether it invalidates the device token.
    package var invalidates: Bool
    /// The coded form (JSON); nil if the push was accepted and the receipt has nothing but the push's id.
    package var result: [UInt8]?

    /// - Parameters:
    ///   - outcome: the outcome.
    ///   - id: the push.
    package init(_ outcome: PushOutcome, of id: APNSID) {
        self.certainty = outcome.certainty
        self.sends = outcome.attempts
        self.invalidates = outcome.invalidation != nil
        if let receipt = outcome.receipt, receipt.apnsID == id, receipt.apnsUniqueID == nil { return }
        self.result = (try? JSONEncoder().encode(outcome)).map { Self.withoutZero(Array($0)) }
    }

    /// The outcome that was stored. It is ``APNSModel/PushOutcome/unreadable(_:attempts:)`` if the coded form is damaged.
    ///
    /// - Parameters:
    ///   - sends: the stored number of attempts.
    ///   - result: the stored coded form.
    ///   - id: the push.
    package static func outcome(sends: Int, result: [UInt8]?, of id: APNSID) -> PushOutcome {
        guard let result else { return .accepted(Receipt(apnsID: id, attempts: sends)) }
        if let outcome = try? JSONDecoder().decode(PushOutcome.self, from: Data(result)) { return outcome }
        return .unreadable(id, attempts: sends)
    }

    /// PostgreSQL's `jsonb` cannot hold the character U+0000, which a server's response may contain: it becomes U+FFFD.
    private static func withoutZero(_ json: [UInt8]) -> [UInt8] {
        let zero = Array("u0000".utf8)
        var result = json
        var index = 0
        while index < result.count {
            guard result[index] == UInt8(ascii: "\\") else {
                index += 1
                continue
            }
            if result[(index + 1)...].starts(with: zero) {
                result.replaceSubrange(index + 1..<index + 1 + zero.count, with: Array("ufffd".utf8))
            }
            index += 2
        }
        return result
    }
}

extension Certainty {
    /// The number in the tables of both engines. It must never change. A larger one is a stronger certainty.
    package var storedNumber: Int {
        switch self {
        case .notSent: 0
        case .notProcessed: 1
        case .rejected: 2
        case .unknown: 3
        case .accepted: 4
        }
    }
}

extension Expiration {
    /// The expiration of a stored value of the header `apns-expiration`.
    package init(stored header: Int64?) {
        switch header {
        case nil: self = .systemDefault
        case 0: self = .immediate
        case .some(let seconds): self = .at(secondsSince1970: seconds)
        }
    }
}

extension PreparedPush {
    /// A push from its stored columns; nil if they are not a push.
    package init?(
        storedTopic topic: String,
        type: String,
        priority: Int64?,
        expiration: Int64?,
        collapse: String?,
        payload: [UInt8]
    ) {
        let collapseID = collapse.flatMap { try? CollapseID($0) }
        guard collapse == nil || collapseID != nil else { return nil }
        let push = try? PreparedPush(
            topic: topic,
            pushType: PushType(rawValue: type),
            payload: payload,
            priority: priority.map { Priority(rawValue: Int(clamping: $0)) },
            expiration: Expiration(stored: expiration),
            collapseID: collapseID,
            skippingValidation: true
        )
        guard let push else { return nil }
        self = push
    }
}
