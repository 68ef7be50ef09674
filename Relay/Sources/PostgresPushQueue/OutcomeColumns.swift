import APNSModel
import PushQueue

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// An outcome as the tables hold it.
struct OutcomeColumns {
    /// Stored numbers must never change. A larger one is a stronger certainty.
    var certainty: Int16
    /// The attempts of the call that has the outcome.
    var sends: Int32
    /// Whether it invalidates the device token.
    var invalidates: Bool
    /// The coded form; nil if the push was accepted and the receipt has nothing but the push's id.
    var result: [UInt8]?

    init(_ outcome: PushOutcome, of id: APNSID) {
        self.certainty = Self.number(of: outcome.certainty)
        self.sends = Int32(clamping: outcome.attempts)
        self.invalidates = outcome.invalidation != nil
        if let receipt = outcome.receipt, receipt.apnsID == id, receipt.apnsUniqueID == nil { return }
        self.result = (try? JSONEncoder().encode(outcome)).map { Self.withoutZero(Array($0)) }
    }

    static func number(of certainty: Certainty) -> Int16 {
        switch certainty {
        case .notSent: 0
        case .notProcessed: 1
        case .rejected: 2
        case .unknown: 3
        case .accepted: 4
        }
    }

    /// Reads three columns: certainty, sends and result; nil if the first one is NULL.
    ///
    /// - Parameter id: the push.
    static func outcome(_ row: Row, at first: Int32, of id: APNSID) -> PushOutcome? {
        guard !row.isNull(first) else { return nil }
        guard let result = row.json(first + 2) else {
            return .accepted(Receipt(apnsID: id, attempts: row.int(first + 1)))
        }
        if let outcome = try? JSONDecoder().decode(PushOutcome.self, from: Data(result)) { return outcome }
        return .unreadable(id, attempts: row.int(first + 1))
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

extension Parameters {
    /// Adds the four arrays certainty, sends, invalidates and result.
    mutating func add(_ outcomes: [OutcomeColumns?]) {
        self.add(outcomes.lazy.map { $0?.certainty })
        self.add(outcomes.lazy.map { $0?.sends })
        self.add(outcomes.lazy.map { $0?.invalidates })
        self.addJSON(outcomes.lazy.map { $0?.result })
    }
}
