/// Whether the rows of a soak are flat after the warm-up.
struct SoakVerdict: Sendable {
    /// The faults found, a sentence each; empty if the soak passed.
    var faults: [String] = []

    /// The growth that is allowed between the first and the last third of the rows after the warm-up.
    static let heapGrowth = 512 * 1024
    static let residentGrowth = 4 << 20
    /// Connections that are being opened or closed have descriptors, but are not counted as connections.
    static let descriptorGrowth = 3
    /// The increase of the event loops' delay that is allowed, in milliseconds, beyond twice its early value.
    static let delayGrowth = 5.0

    /// - Parameters:
    ///   - rows: in the order of time. The first quarter is the warm-up.
    ///   - counts: the totals of the pushes.
    ///   - processed: how many pushes the server processed; nil if it did not say.
    init(rows: [SoakRow], counts: SoakCounts, processed: Int?) {
        checkRest(rows)
        checkOutcomes(counts, processed)
        let warm = Array(rows.dropFirst(max(1, rows.count / 4)))
        guard warm.count >= 6 else {
            faults.append("\(rows.count) rows are too few for a verdict: at least 8 are needed")
            return
        }
        let early = Array(warm.prefix(warm.count / 3))
        let late = Array(warm.suffix(warm.count / 3))
        checkGrowth("the heap", early, late, \.heapBytes, limit: Self.heapGrowth)
        checkGrowth("the resident set", early, late, \.residentBytes, limit: Self.residentGrowth)
        let threads = early.map(\.threads).max() ?? 0
        // Even the row with the fewest threads: the number of pool threads varies.
        if let fewest = late.map(\.threads).min(), fewest > threads {
            faults.append("threads grew from \(threads) to \(fewest)")
        }
        let descriptors = early.map(\.otherDescriptors).max() ?? 0
        if let most = late.map(\.otherDescriptors).max(), most > descriptors + Self.descriptorGrowth {
            faults.append("descriptors other than those of connections grew from \(descriptors) to \(most)")
        }
        let delay = median(early.map(\.loopDelayP99))
        let lateDelay = median(late.map(\.loopDelayP99))
        if lateDelay > 2 * delay + Self.delayGrowth {
            faults.append(
                "the event loops' delay grew from \(decimal(delay, places: 2)) to \(decimal(lateDelay, places: 2)) ms"
            )
        }
    }

    private mutating func checkRest(_ rows: [SoakRow]) {
        for row in rows where row.leases + row.waiting + row.inFlight > 0 {
            faults.append(
                "after \(decimal(row.seconds / 60, places: 1)) minutes, the client was not at rest: "
                    + "\(row.leases) leases, \(row.waiting) waiting, \(row.inFlight) in flight"
            )
        }
    }

    private mutating func checkOutcomes(_ counts: SoakCounts, _ processed: Int?) {
        if counts.outcomes != counts.pushes {
            faults.append("\(counts.pushes) pushes had \(counts.outcomes) outcomes")
        }
        guard let processed else {
            faults.append("the server did not say how many pushes it processed")
            return
        }
        if !(counts.accepted...counts.accepted + counts.unknown).contains(processed) {
            faults.append(
                "the server processed \(processed) pushes, but \(counts.accepted) were accepted and "
                    + "\(counts.unknown) are unknown"
            )
        }
    }

    private mutating func checkGrowth(
        _ name: String,
        _ early: [SoakRow],
        _ late: [SoakRow],
        _ value: (SoakRow) -> Int,
        limit: Int
    ) {
        let growth = median(late.map { Double(value($0)) }) - median(early.map { Double(value($0)) })
        if growth > Double(limit) {
            faults.append("\(name) grew by \(Int(growth) / 1024) KiB; \(limit / 1024) KiB are allowed")
        }
    }
}
