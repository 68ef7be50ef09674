import Synchronization

/// Counts the workers of a client that may have a connection: those that the settings allow, and surplus ones that have
/// not ended since the settings were reduced.
///
/// A worker that begins although the settings no longer allow it is not counted: its pool knows that it is surplus, and
/// never lets it connect.
final class WorkerTally: Sendable {
    struct Count: Sendable, Equatable {
        /// How many workers the settings allow.
        var limit: Int
        /// How many workers beyond the limit still run.
        var surplus: Int
    }

    private struct State {
        var limit: Int
        /// The workers that run. An index may occur twice: during a rotation there are two sessions.
        var workers: [Int: (index: Int, mayConnect: Bool)] = [:]
        var lastNumber = 0

        var surplus: Int { self.workers.values.count { $0.mayConnect && $0.index >= self.limit } }
    }

    private let state: Mutex<State>
    private let onChange: @Sendable () -> Void

    /// - Parameter onChange: Called outside the lock after each `setLimit`, and when a surplus worker has ended.
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

    /// A worker begins, and may soon connect.
    ///
    /// - Returns: The number for `ended`.
    func began(_ index: Int) -> Int {
        self.state.withLock { state in
            state.lastNumber += 1
            state.workers[state.lastNumber] = (index, mayConnect: index < state.limit)
            return state.lastNumber
        }
    }

    /// A worker has ended, and its connections are closed.
    func ended(_ number: Int) {
        let wasSurplus = self.state.withLock { state in
            guard let worker = state.workers.removeValue(forKey: number) else { return false }
            return worker.mayConnect && worker.index >= state.limit
        }
        if wasSurplus { self.onChange() }
    }
}
