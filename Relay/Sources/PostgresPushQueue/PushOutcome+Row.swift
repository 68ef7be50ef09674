import APNSModel
import PushQueue

extension PushOutcome {
    /// Reads the columns `certainty`, `sends` and `result`; nil if the first one is NULL.
    ///
    /// - Parameter id: the push.
    init?(_ row: Row, of id: APNSID) {
        guard !row.isNull("certainty") else { return nil }
        self = StoredOutcome.outcome(sends: row.int("sends"), result: row.json("result"), of: id)
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
