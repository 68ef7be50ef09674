import APNSModel
import PushQueue

extension PushOutcome {
    /// Reads three columns: certainty, sends and result; nil if the first one is NULL.
    ///
    /// - Parameter id: the push.
    init?(_ row: Row, at first: Int32, of id: APNSID) {
        guard !row.isNull(first) else { return nil }
        self = StoredOutcome.outcome(sends: row.int(first + 1), result: row.json(first + 2), of: id)
    }
}

extension Parameters {
    /// Adds the four arrays certainty, sends, invalidates and result.
    mutating func add(_ outcomes: [StoredOutcome?]) {
        self.add(outcomes.lazy.map { $0.map { Int16($0.certainty.storedNumber) } })
        self.add(outcomes.lazy.map { $0.map { Int32(clamping: $0.sends) } })
        self.add(outcomes.lazy.map { $0?.invalidates })
        self.addJSON(outcomes.lazy.map { $0?.result })
    }
}
