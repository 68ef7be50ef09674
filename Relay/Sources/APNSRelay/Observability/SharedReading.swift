import Synchronization

/// Reads a value that many requests need, at most once in an interval, and remembers it. While a reading hangs, requests get
/// the value of the one before.
final class SharedReading<Value: Sendable>: Sendable {
    private struct State {
        var value: Value?
        var started: ContinuousClock.Instant?
        /// Nil if it has ended.
        var task: Task<Void, Never>?
    }

    private let interval: Duration
    private let read: @Sendable () async -> Value?
    private let state = Mutex(State())

    /// - Parameters:
    ///   - interval: the shortest time between the starts of two readings.
    ///   - read: reads the value; nil if it could not be read.
    init(every interval: Duration, _ read: @escaping @Sendable () async -> Value?) {
        self.interval = interval
        self.read = read
    }

    /// The newest value; nil if there was none.
    ///
    /// - Parameter limit: the longest wait for a reading that is running. It continues after that.
    func value(within limit: Duration) async -> Value? {
        if let task = self.running() {
            let (ends, end) = AsyncStream.makeStream(of: Never.self)
            let timer = Task {
                try? await Task.sleep(for: limit)
                end.finish()
            }
            Task {
                await task.value
                end.finish()
            }
            for await _ in ends {}
            timer.cancel()
        }
        return self.state.withLock { $0.value }
    }

    /// The running reading; starts one if it is due.
    private func running() -> Task<Void, Never>? {
        let now = ContinuousClock.now
        return self.state.withLock { state in
            if let task = state.task { return task }
            if let started = state.started, started.duration(to: now) < self.interval { return nil }
            state.started = now
            state.task = Task {
                let value = await self.read()
                self.state.withLock { state in
                    if let value { state.value = value }
                    state.task = nil
                }
            }
            return state.task
        }
    }
}
