import Synchronization

/// Tells waiting readers of a feed that there may be new outcomes.
final class FeedNews: Sendable {
    private struct State {
        var readers: [Int: AsyncStream<Void>.Continuation] = [:]
        var next = 0
    }

    private let state = Mutex(State())

    func signal() {
        let readers = self.state.withLock { Array($0.readers.values) }
        for reader in readers { reader.yield() }
    }

    /// The signals from now on. Several signals before the next read count as one.
    func signals() -> AsyncStream<Void> {
        let (signals, reader) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let number = self.state.withLock { state in
            state.next += 1
            state.readers[state.next] = reader
            return state.next
        }
        reader.onTermination = { [weak self] _ in self?.remove(number) }
        return signals
    }

    private func remove(_ number: Int) {
        // Released outside of the lock: its deinitialization may call this again.
        let reader = self.state.withLock { $0.readers.removeValue(forKey: number) }
        _ = reader
    }

    /// The number of waiting readers. Exposed for tests.
    var count: Int { self.state.withLock { $0.readers.count } }
}

extension AsyncStream<Void> {
    /// Returns after the next element, or after a time. Then the stream has ended: a task that is cancelled ends the stream that
    /// it reads.
    func next(within time: Duration) async {
        await withTaskGroup { tasks in
            tasks.addTask { for await _ in self { return } }
            tasks.addTask { try? await Task.sleep(for: time) }
            await tasks.next()
            tasks.cancelAll()
        }
    }
}
