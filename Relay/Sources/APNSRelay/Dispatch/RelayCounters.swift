import APNSModel
import PushQueue
import Synchronization

/// Counts since the start of the process.
final class RelayCounters: Sendable {
    private let state = Mutex(RelayTotals())

    var totals: RelayTotals { self.state.withLock { $0 } }

    func settle(_ outcome: PushOutcome, _ route: Route) {
        self.state.withLock { totals in
            switch outcome.certainty {
            case .accepted: totals.accepted += 1
            case .rejected: totals.rejected += 1
            case .notProcessed: totals.notProcessed += 1
            case .notSent: totals.notSent += 1
            case .unknown: totals.unknown += 1
            }
        }
    }

    func settle(notSent: Int = 0, unknown: Int = 0) {
        self.state.withLock { totals in
            totals.notSent += notSent
            totals.unknown += unknown
        }
    }

    func add(queued: Int = 0, duplicates: Int = 0, retried: Int = 0, parked: Int = 0) {
        self.state.withLock { totals in
            totals.queued += queued
            totals.duplicates += duplicates
            totals.retried += retried
            totals.parked += parked
        }
    }

    func late() {
        self.state.withLock { $0.late += 1 }
    }
}
