import APNSBasics
import SupervisedPool
import Synchronization

/// A latch that opens once. Any number of tasks can wait for it, each until it opens, the task is cancelled or a
/// deadline passes.
final class Latch: Sendable {
    private struct State {
        var isOpen = false
        var waiters: [ObjectIdentifier: OneShot<Void>] = [:]
    }

    private let state = Mutex(State())

    var isOpen: Bool { self.state.withLock { $0.isOpen } }

    func open() {
        let waiters = self.state.withLock { state in
            defer { state.waiters = [:] }
            state.isOpen = true
            return state.waiters.values
        }
        for waiter in waiters { waiter.give(()) }
    }

    /// Waits until the latch opens or the task is cancelled. Returns whether the latch is open.
    @discardableResult
    func wait() async -> Bool {
        let waiter = OneShot<Void>()
        let id = ObjectIdentifier(waiter)
        let isOpen = self.state.withLock { state in
            if !state.isOpen { state.waiters[id] = waiter }
            return state.isOpen
        }
        if isOpen { return true }
        await waiter.wait(orCancelled: ())
        return self.state.withLock { state in
            state.waiters[id] = nil
            return state.isOpen
        }
    }

    /// Waits until the latch opens, the task is cancelled or `deadline` passes. Returns whether the latch is open.
    func wait(until deadline: MonotonicInstant, clock: any MonotonicClock) async -> Bool {
        if self.isOpen { return true }
        await self.cancelling { try? await clock.sleep(until: deadline) }
        return self.isOpen
    }

    /// Runs `body`, and cancels it when the latch opens.
    func cancelling(_ body: @escaping @Sendable () async -> Void) async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.wait() }
            group.addTask { await body() }
            await group.next()
            group.cancelAll()
            await group.waitForAll()
        }
    }
}
