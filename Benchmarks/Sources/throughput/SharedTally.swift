import Synchronization

/// What became of the pushes of a run.
struct Tally: Sendable {
    var accepted = 0
    var failed = 0
    var latencies = Latencies()
    /// A few different reasons, to be shown on standard error.
    var failures: Set<String> = []

    var outcomes: Int { accepted + failed }

    mutating func note(_ failure: @autoclosure () -> String) {
        failed += 1
        if failures.count < 5 { failures.insert(failure()) }
    }
}

/// The tally of all tasks together.
final class SharedTally: Sendable {
    private let tally = Mutex(Tally())

    var value: Tally { tally.withLock { $0 } }

    func addAccepted(_ latency: UInt64) {
        tally.withLock { tally in
            tally.accepted += 1
            tally.latencies.record(latency)
        }
    }

    /// Empties `latencies`.
    func addAccepted(_ latencies: inout [UInt64]) {
        tally.withLock { tally in
            tally.accepted += latencies.count
            for latency in latencies { tally.latencies.record(latency) }
        }
        latencies.removeAll(keepingCapacity: true)
    }

    func addFailed(_ latency: UInt64, _ failure: String) {
        tally.withLock { tally in
            tally.latencies.record(latency)
            tally.note(failure)
        }
    }
}
