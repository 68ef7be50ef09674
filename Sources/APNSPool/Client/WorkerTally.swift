import Synchronization

/// Counts the workers of a client that may have a connection: those that the settings allow, and surplus ones whose
/// connections have not closed since the settings were reduced.
final class WorkerTally: Sendable {
    struct Count: Sendable, Equatable {
        /// How many workers the settings allow.
        var limit: Int
        /// How many workers beyond the limit may still have a connection.
        var surplus: Int
    }

    /// One run of a worker.
    struct Member: Sendable {
        fileprivate let tally: WorkerTally
        fileprivate let number: Int

        /// The worker opens a connection.
        func connects() { self.tally.set(self.number, mayConnect: true) }

        /// The worker has no connection, and opens none until the settings allow it.
        func isDismissed() { self.tally.set(self.number, mayConnect: false) }

        /// The worker has ended, and its connections are closed.
        func ended() { self.tally.set(self.number, mayConnect: nil) }
    }

    private struct State {
        var limit: Int
        /// The workers that run. An index may occur more than once: during a rotation there are several sessions.
        var workers: [Int: (index: Int, mayConnect: Bool)] = [:]
        var lastNumber = 0

        var surplus: Int { self.workers.values.count { $0.mayConnect && $0.index >= self.limit } }
    }

    private let state: Mutex<State>
    private let onChange: @Sendable () -> Void

    /// - Parameter onChange: Called outside the lock after each `setLimit`, and when there are fewer surplus workers.
    init(limit: Int, onChange: @escaping @Sendable () -> Void = {}) {
        self.state = Mutex(State(limit: limit))
        self.onChange = onChange
    }

    var count: Count { self.state.withLock { Count(limit: $0.limit, surplus: $0.surplus) } }

    /// Sets how many workers the settings allow. The pools must already know.
    func setLimit(_ limit: Int) {
        self.state.withLock { state in
            state.limit = limit
            for (number, worker) in state.workers where worker.index < limit {
                state.workers[number]?.mayConnect = true
            }
        }
        self.onChange()
    }

    /// A worker begins. If the settings no longer allow it, it is not counted: its pool never lets it connect.
    func began(_ index: Int) -> Member {
        self.state.withLock { state in
            state.lastNumber += 1
            state.workers[state.lastNumber] = (index, mayConnect: index < state.limit)
            return Member(tally: self, number: state.lastNumber)
        }
    }

    private func set(_ number: Int, mayConnect: Bool?) {
        let isLess = self.state.withLock { state in
            let before = state.surplus
            if let mayConnect { state.workers[number]?.mayConnect = mayConnect } else { state.workers[number] = nil }
            return state.surplus < before
        }
        if isLess { self.onChange() }
    }
}
