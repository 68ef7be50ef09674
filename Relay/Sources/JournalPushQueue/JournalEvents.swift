import Dispatch
import Synchronization

/// Events on their way from a journal's threads to a queue. A thread that adds entries faster than the queue takes them
/// is blocked, so that a long journal needs little memory.
package final class JournalEvents: Sendable {
    private struct State {
        var events: [JournalEvent] = []
        var bytes = 0
        var isClosed = false
        var taker: CheckedContinuation<Void, Never>?
        var blocked: [DispatchSemaphore] = []
    }

    private let maximumBytes: Int
    private let state = Mutex(State())

    /// - Parameter maximumBytes: how many bytes of entries may wait before ``add(_:)`` blocks.
    package init(maximumBytes: Int = 16 * 1_024 * 1_024) {
        self.maximumBytes = maximumBytes
    }

    /// Adds an event. If the waiting entries then exceed the limit, blocks until the queue has taken them. Must not be
    /// called by a task.
    package func add(_ event: JournalEvent) {
        let (taker, semaphore) = self.state.withLock {
            state -> (CheckedContinuation<Void, Never>?, DispatchSemaphore?) in
            guard !state.isClosed else { return (nil, nil) }
            state.events.append(event)
            var semaphore: DispatchSemaphore?
            if case .entry(let entry) = event {
                state.bytes += entry.record.count + 100
                if state.bytes > self.maximumBytes {
                    let new = DispatchSemaphore(value: 0)
                    state.blocked.append(new)
                    semaphore = new
                }
            }
            defer { state.taker = nil }
            return (state.taker, semaphore)
        }
        taker?.resume()
        semaphore?.wait()
    }

    /// Waits for events. Only one task may call it.
    ///
    /// - Returns: all events since the last call; nil once the journal is closed.
    package func take() async -> [JournalEvent]? {
        while true {
            let (events, blocked) = self.state.withLock { state in
                defer { (state.events, state.bytes, state.blocked) = ([], 0, []) }
                return (state.isClosed ? nil : state.events, state.blocked)
            }
            for semaphore in blocked { semaphore.signal() }
            guard let events else { return nil }
            if !events.isEmpty { return events }
            await withCheckedContinuation { continuation in
                let isNeeded = self.state.withLock { state in
                    guard state.events.isEmpty, !state.isClosed else { return false }
                    state.taker = continuation
                    return true
                }
                if !isNeeded { continuation.resume() }
            }
        }
    }

    /// Ends everything that waits. Events that were not taken are dropped.
    package func close() {
        let (taker, blocked) = self.state.withLock { state in
            defer { (state.taker, state.blocked, state.events) = (nil, [], []) }
            state.isClosed = true
            return (state.taker, state.blocked)
        }
        taker?.resume()
        for semaphore in blocked { semaphore.signal() }
    }
}
