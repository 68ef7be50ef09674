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
    /// Adds the fields of `apns.attempt_end`, in their order.
    mutating func add(_ claim: Claim, due: Int64? = nil, counts: Bool? = nil, _ outcome: PushOutcome?) {
        let stored = outcome.map { StoredOutcome($0, of: claim.id) }
        self.add(claim.position)
        self.add(claim.epoch)
        self.add(claim.id)
        self.add(due)
        self.add(counts)
        self.add(stored.map { Int16($0.certainty.storedNumber) })
        self.add(stored.map { Int32(clamping: $0.sends) })
        self.add(stored?.invalidates)
        self.addJSON(stored?.result)
    }
}
