import Synchronization

/// Wakes one waiting task. If no task waits, any number of signals are kept as one signal for the next wait.
final class Wakeup: Sendable {
    private struct State {
        var isSignalled = false
        var waiting: CheckedContinuation<Void, Never>?
    }

    private let state = Mutex(State())

    /// Whether there was a signal that no wait has consumed.
    var isSignalled: Bool { self.state.withLock { $0.isSignalled } }

    func signal() {
        let waiting = self.state.withLock { state in
            guard let waiting = state.waiting.take() else {
                state.isSignalled = true
                return nil as CheckedContinuation<Void, Never>?
            }
            return waiting
        }
        waiting?.resume()
    }

    /// Returns after the next signal, or when the task is cancelled. Only one task may wait at a time; a second one
    /// returns at once.
    func wait() async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let mayWait = self.state.withLock { state in
                    guard !state.isSignalled, state.waiting == nil, !Task.isCancelled else {
                        state.isSignalled = false
                        return false
                    }
                    state.waiting = continuation
                    return true
                }
                if !mayWait { continuation.resume() }
            }
        } onCancel: {
            self.signal()
        }
    }
}
