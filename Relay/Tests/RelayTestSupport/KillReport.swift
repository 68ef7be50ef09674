import APNSModel
package import APNSSimulator

/// What a run with faults has shown.
package struct KillReport: CustomStringConvertible {
    package var pushes = 0
    package var outcomes: [String: Int] = [:]
    /// Pushes that the simulator processed more than once.
    package var duplicates = 0
    /// Pushes that the database has lost, and how many of them the simulator processed.
    package var lost = 0
    package var lostAndProcessed = 0
    /// What the relays must never do, besides duplicates.
    package var faults: [String] = []

    package var unknown: Int { self.outcomes["unknown"] ?? 0 }

    package var description: String {
        let counts = self.outcomes.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: ", ")
        return "\(self.pushes) pushes: \(counts); processed twice: \(self.duplicates)"
            + (self.lost == 0 ? "" : "; lost: \(self.lost), of which \(self.lostAndProcessed) were processed")
            + (self.faults.isEmpty ? "" : "; \(self.faults.count) faults: \(self.faults.prefix(5))")
    }

    /// Compares the acknowledged pushes with their outcomes and with what the simulator has processed.
    ///
    /// - Parameters:
    ///   - load: the pushes that a relay has acknowledged.
    ///   - settled: all outcomes.
    ///   - lost: the ids of acknowledged pushes that the database has lost. They must have no outcome.
    ///   - simulator: what stands in for APNs.
    package init(_ load: PushLoad, _ settled: [SettledPush], lost: Set<String> = [], _ simulator: Simulator) {
        let ids = load.ids
        let processed = simulator.record.processedCounts
        let byID = Dictionary(grouping: settled, by: \.id)
        self.pushes = ids.count
        self.faults = load.faults
        if Set(ids.values).count < ids.count { self.faults.append("two pushes have one id") }
        for (number, id) in ids {
            let outcomes = byID[id] ?? []
            if lost.contains(id), outcomes.isEmpty, let key = APNSID(id) {
                let count = processed[key] ?? 0
                self.lost += 1
                if count > 0 { self.lostAndProcessed += 1 }
                if count > 1 { self.duplicates += 1 }
                continue
            }
            guard outcomes.count == 1, let outcome = outcomes.first?.outcome.outcome, let key = APNSID(id) else {
                self.faults.append("push \(number) (\(id)) has \(outcomes.count) outcomes")
                continue
            }
            self.outcomes[outcome, default: 0] += 1
            let count = processed[key] ?? 0
            if count > 1 { self.duplicates += 1 }
            switch outcome {
            case "accepted":
                if count == 0 { self.faults.append("push \(number) is accepted and was never processed") }
            case "unknown": break
            default:
                if count > 0 { self.faults.append("push \(number) is \(outcome) and was processed") }
            }
        }
        // A push whose acknowledgement was lost was submitted again under its key: no others may exist.
        if settled.count != ids.count - self.lost {
            self.faults.append("\(settled.count) outcomes for \(ids.count - self.lost) pushes")
        }
    }
}
