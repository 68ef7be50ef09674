import Synchronization

/// Counts the running calls of a queue, and lets `close` wait for them.
package final class CallGate: Sendable {
    private struct State {
        var running = 0
        var isClosed = false
        var waiters: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())

    package init() {}

    /// The number of calls that have begun and not ended.
    package var running: Int { self.state.withLock { $0.running } }

    /// Begins a call. ``end()`` must follow.
    ///
    /// - Throws: `QueueError` (`closed`) after ``close()``.
    package func begin() throws(QueueError) {
        let isOpen = self.state.withLock { state in
            if !state.isClosed { state.running += 1 }
            return !state.isClosed
        }
        if !isOpen { throw .closed }
    }

    package func end() {
        let waiters = self.state.withLock { state in
            state.running -= 1
            guard state.running == 0 else { return [CheckedContinuation<Void, Never>]() }
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.resume() }
    }

    /// Lets no more calls begin, and waits until none is running.
    package func close() async {
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            let mayContinue = self.state.withLock { state in
                state.isClosed = true
                if state.running == 0 { return true }
                state.waiters.append(continuation)
                return false
            }
            if mayContinue { continuation.resume() }
        }
    }
}
