public import SupervisedPool
import Synchronization

/// A clock that stands still until a test advances it, so that no test sleeps or depends on speed.
public final class ManualClock: MonotonicClock {
    private struct Sleeper {
        let until: MonotonicInstant
        let continuation: CheckedContinuation<Bool, Never>
    }

    private struct Watcher {
        let id: Int
        let count: Int
        let continuation: CheckedContinuation<Void, Never>
    }

    private struct State {
        var now: MonotonicInstant
        var lastID = 0
        var sleepers: [Int: Sleeper] = [:]
        /// Sleeps and waits that were cancelled before they began.
        var cancelled: Set<Int> = []
        var watchers: [Watcher] = []
    }

    private let state: Mutex<State>

    /// Creates a clock that stands at `start`, by default a thousand seconds after its zero.
    public init(start: MonotonicInstant = MonotonicInstant(nanoseconds: 1_000_000_000_000)) {
        state = Mutex(State(now: start))
    }

    public var now: MonotonicInstant {
        state.withLock { $0.now }
    }

    /// The number of tasks that sleep on this clock now.
    public var sleepers: Int {
        state.withLock { $0.sleepers.count }
    }

    /// The time of the sleeper that wakes first.
    public var nextWakeUp: MonotonicInstant? {
        state.withLock { $0.sleepers.values.map(\.until).min() }
    }

    /// Advances the clock and wakes all sleepers that are due, the earliest first.
    public func advance(by duration: Duration) {
        let due = state.withLock { state -> [Sleeper] in
            state.now = state.now.advanced(by: duration)
            let due = state.sleepers.filter { $0.value.until <= state.now }
            for id in due.keys { state.sleepers[id] = nil }
            return due.values.sorted { $0.until < $1.until }
        }
        for sleeper in due { sleeper.continuation.resume(returning: true) }
    }

    /// Advances the clock to `instant` as soon as a task sleeps until then. It stops at earlier wake-ups on the way,
    /// because an outdated timer fires once more before the next one is armed.
    ///
    /// - Throws: `CancellationError` if the task is cancelled, for example by the test's time limit.
    public func advance(toWakeUpAt instant: MonotonicInstant) async throws {
        while now < instant {
            try Task.checkCancellation()
            if let next = nextWakeUp, next <= instant {
                advance(by: now.duration(to: next))
            } else {
                try await ContinuousClock().sleep(for: .milliseconds(1))
            }
        }
    }

    /// Returns when at least `count` tasks sleep: their timers are armed, and ``advance(by:)`` will reach them. Also
    /// returns when the task is cancelled, for example by the test's time limit.
    public func waitForSleepers(_ count: Int) async {
        let id = state.withLock { state in
            state.lastID += 1
            return state.lastID
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isOver = state.withLock { state in
                    if state.cancelled.remove(id) != nil || state.sleepers.count >= count { return true }
                    state.watchers.append(Watcher(id: id, count: count, continuation: continuation))
                    return false
                }
                if isOver { continuation.resume() }
            }
        } onCancel: {
            let watcher = state.withLock { state -> Watcher? in
                guard let index = state.watchers.firstIndex(where: { $0.id == id }) else {
                    state.cancelled.insert(id)
                    return nil
                }
                return state.watchers.remove(at: index)
            }
            watcher?.continuation.resume()
        }
    }

    public func sleep(until instant: MonotonicInstant) async throws {
        let id = state.withLock { state in
            state.lastID += 1
            return state.lastID
        }
        let hasSlept = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let (result, satisfied) = state.withLock { state -> (Bool?, [Watcher]) in
                    if state.cancelled.remove(id) != nil { return (false, []) }
                    if instant <= state.now { return (true, []) }
                    state.sleepers[id] = Sleeper(until: instant, continuation: continuation)
                    let satisfied = state.watchers.filter { $0.count <= state.sleepers.count }
                    state.watchers.removeAll { $0.count <= state.sleepers.count }
                    return (nil, satisfied)
                }
                if let result { continuation.resume(returning: result) }
                for watcher in satisfied { watcher.continuation.resume() }
            }
        } onCancel: {
            let sleeper = state.withLock { state -> Sleeper? in
                if let sleeper = state.sleepers.removeValue(forKey: id) { return sleeper }
                state.cancelled.insert(id)
                return nil
            }
            sleeper?.continuation.resume(returning: false)
        }
        _ = state.withLock { $0.cancelled.remove(id) }
        if !hasSlept { throw CancellationError() }
    }
}
