import APNSModel
import Synchronization

/// Counts pushes by type, outcome and reason. Counting is always on: an accepted single push costs one addition, and a
/// bulk call adds many accepted pushes of one type at once.
final class PushCounters: Sendable {
    struct Key: Hashable, Sendable {
        var type: String
        var outcome: Certainty
        /// APNs' reason, or `other` for an unknown one; the error's code; or `none`. Never an unknown text from the
        /// network.
        var reason: String
    }

    private final class Cell: Sendable {
        let type: PushType
        let accepted = Atomic<Int>(0)

        init(_ type: PushType) { self.type = type }
    }

    /// The most common types first, because they are searched in this order.
    private static let types: [PushType] = [
        .alert, .background, .liveactivity, .voip, .widgets, .complication, .location, .pushtotalk, .fileprovider, .mdm,
        .controls, .accessory,
    ]
    /// For types that Apple adds later: a caller's own strings must not each create a metric.
    static let otherType = PushType(rawValue: "other")

    private let cells = PushCounters.types.map(Cell.init)
    private let acceptedOthers = Atomic<Int>(0)
    private let failures = Mutex<[Key: Int]>([:])

    func accepted(_ type: PushType, _ count: Int = 1) {
        for cell in self.cells where cell.type == type {
            cell.accepted.wrappingAdd(count, ordering: .relaxed)
            return
        }
        self.acceptedOthers.wrappingAdd(count, ordering: .relaxed)
    }

    func count(_ outcome: PushOutcome, _ type: PushType) {
        guard let error = outcome.error else { return self.accepted(type) }
        let name = (Self.types.contains(type) ? type : Self.otherType).rawValue
        let key = Key(type: name, outcome: error.certainty, reason: Self.reason(error))
        self.failures.withLock { $0[key, default: 0] += 1 }
    }

    static func reason(_ error: PushError) -> String {
        guard let rejection = error.rejection else { return error.code.rawValue }
        guard let reason = rejection.reason, reason.meaning != nil else { return "other" }
        return reason.rawValue
    }

    /// The number of all pushes counted.
    var count: Int {
        self.failures.withLock { $0.values.reduce(0, +) } + self.acceptedOthers.load(ordering: .relaxed)
            + self.cells.reduce(0) { $0 + $1.accepted.load(ordering: .relaxed) }
    }

    /// All counts that are not zero.
    var totals: [Key: Int] {
        var totals = self.failures.withLock { $0 }
        func add(_ type: String, _ count: Int) {
            if count > 0 { totals[Key(type: type, outcome: .accepted, reason: "none")] = count }
        }
        for cell in self.cells { add(cell.type.rawValue, cell.accepted.load(ordering: .relaxed)) }
        add(Self.otherType.rawValue, self.acceptedOthers.load(ordering: .relaxed))
        return totals
    }
}

/// Accepted pushes of one bulk call that have not been counted yet.
struct AcceptedTally {
    private var type: PushType?
    private var count = 0

    mutating func add(_ type: PushType, to counters: PushCounters) {
        if type != self.type {
            self.flush(to: counters)
            self.type = type
        }
        self.count += 1
    }

    mutating func flush(to counters: PushCounters) {
        guard self.count > 0, let type else { return }
        counters.accepted(type, self.count)
        self.count = 0
    }
}
