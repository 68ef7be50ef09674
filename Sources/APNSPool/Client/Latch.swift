import SupervisedPool
import Synchronization

/// A latch that opens once. Any number of tasks can wait for it, each until it opens, the task is cancelled or a
/// deadline passes.
final class Latch: Sendable {
    private struct State {
        var isOpen = false
        var nextWaiter = 0
        var waiters: [Int: CheckedContinuation<Void, Never>] = [:]
    }

    private let state = Mutex(State())

    var isOpen: Bool { self.state.withLock { $0.isOpen } }

    func open() {
        let waiters = self.state.withLock { state in
            state.isOpen = true
            let waiters = state.waiters.values
            state.waiters = [:]
            return Array(waiters)
        }
        for waiter in waiters { waiter.resume() }
    }

    /// Waits until the latch opens or the task is cancelled. Returns whether the latch is open.
    @discardableResult
    func wait() async -> Bool {
        let id = self.state.withLock { state in
            state.nextWaiter += 1
            return state.nextWaiter
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isDone = self.state.withLock { state in
                    if state.isOpen || Task.isCancelled { return true }
                    state.waiters[id] = continuation
                    return false
                }
                if isDone { continuation.resume() }
            }
        } onCancel: {
            self.state.withLock { $0.waiters.removeValue(forKey: id) }?.resume()
        }
        return self.isOpen
    }

    /// Waits until the latch opens, the task is cancelled or `deadline` passes. Returns whether the latch is open.
    func wait(until deadline: MonotonicInstant, clock: any MonotonicClock) async -> Bool {
        if self.isOpen { return true }
        return await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.wait() }
            group.addTask { try? await clock.sleep(until: deadline) }
            await group.next()
            group.cancelAll()
            await group.waitForAll()
            return self.isOpen
        }
    }
}
