import Synchronization

/// Reads a value that many requests need, at most once in an interval, and remembers it. While a reading hangs, requests get
/// the value of the one before.
final class SharedReading<Value: Sendable>: Sendable {
    private struct State {
        var value: Value?
        var started: ContinuousClock.Instant?
        /// Nil if it has ended.
        var task: Task<Void, Never>?
        /// The readings of single requests that are running.
        var single = 0
    }

    private final class Box: Sendable {
        let value = Mutex<Value?>(nil)
    }

    /// So many readings of single requests may hang.
    private static var mostSingle: Int { 4 }

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
        if let task = self.running() { await Self.wait(for: task, limit) }
        return self.state.withLock { $0.value }
    }

    /// Reads the value for one request; nil if it was never read.
    ///
    /// - Parameters:
    ///   - limit: the longest wait. After that, or if many readings hang, the value is the one before.
    ///   - first: the longest wait for the first value.
    func fresh(within limit: Duration, first: Duration) async -> Value? {
        let (last, mayRead) = self.state.withLock { state in
            let mayRead = state.single < Self.mostSingle
            if mayRead { state.single += 1 }
            return (state.value, mayRead)
        }
        guard mayRead else { return last }
        let own = Box()
        let task = Task {
            let value = await self.read()
            own.value.withLock { $0 = value }
            self.state.withLock { state in
                state.single -= 1
                if let value { state.value = value }
            }
        }
        await Self.wait(for: task, last == nil ? first : limit)
        return own.value.withLock { $0 } ?? self.state.withLock { $0.value }
    }

    /// Waits for a task, but no longer than the limit.
    private static func wait(for task: Task<Void, Never>, _ limit: Duration) async {
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
