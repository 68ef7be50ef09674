import Synchronization

/// An actor's inbox: any thread can post items, in order and without waiting for the actor.
///
/// There is one reader, the actor's `run()`, which waits in ``wait()``. Posting takes one lock, starts no task, and
/// allocates only when the array grows. The wait ignores cancellation on purpose: a cancelled actor still has to stop
/// its children and resume its callers, so cancellation arrives as an item like any other.
final class Mailbox<Item: Sendable>: Sendable {
    private struct State: Sendable {
        var items: [Item] = []
        /// Whether items that are not urgent wake the reader.
        var isAttentive: Bool
        var isWoken = false
        var isClosed = false
        var reader: CheckedContinuation<Void, Never>?

        mutating func wake() -> CheckedContinuation<Void, Never>? {
            guard let reader else {
                self.isWoken = true
                return nil
            }
            self.reader = nil
            return reader
        }
    }

    private let state: Mutex<State>
    /// Whether `items` has any, so that the reader need not take the lock to find out.
    private let hasItems = Atomic<Bool>(false)

    /// - Parameter isAttentive: Whether items that are not urgent wake the reader, until ``take(into:isAttentive:)``
    ///   changes it.
    init(isAttentive: Bool) {
        self.state = Mutex(State(isAttentive: isAttentive))
    }

    /// Adds an item, and wakes the reader if the item is urgent or the reader is attentive. Does nothing after
    /// ``close()``.
    func post(_ item: Item, isUrgent: Bool = false) {
        let reader = self.state.withLock { state -> CheckedContinuation<Void, Never>? in
            if state.isClosed { return nil }
            state.items.append(item)
            self.hasItems.store(true, ordering: .releasing)
            return isUrgent || state.isAttentive ? state.wake() : nil
        }
        reader?.resume()
    }

    /// Wakes the reader without an item. If the reader is not waiting, its next wait returns immediately.
    func wake() {
        self.state.withLock { $0.wake() }?.resume()
    }

    /// Whether no item has been posted since the last ``take(into:isAttentive:)``.
    var isEmpty: Bool { !self.hasItems.load(ordering: .acquiring) }

    /// Swaps `batch`, which must be empty, for all items posted so far. Both arrays keep their capacity.
    func take(into batch: inout [Item], isAttentive: Bool) {
        self.state.withLock { state in
            state.isAttentive = isAttentive
            if !state.items.isEmpty { swap(&state.items, &batch) }
            self.hasItems.store(false, ordering: .relaxed)
        }
    }

    /// Waits for a wake-up. Only one reader may wait.
    func wait() async {
        await withCheckedContinuation { continuation in
            let isWoken = self.state.withLock { state -> Bool in
                guard !state.isWoken, !state.isClosed else {
                    state.isWoken = false
                    return true
                }
                state.reader = continuation
                return false
            }
            if isWoken { continuation.resume() }
        }
    }

    /// Closes the mailbox. Items that have not been taken are dropped, and so are all later ones.
    func close() {
        let reader = self.state.withLock { state -> CheckedContinuation<Void, Never>? in
            state.isClosed = true
            state.items = []
            return state.wake()
        }
        reader?.resume()
    }
}

/// An actor's only timer. It is armed for the earliest deadline, and rearmed only when an earlier one appears. A
/// deadline that moves to a later time costs one needless wake-up.
struct EarliestTimer: ~Copyable {
    private var deadline: MonotonicInstant = .distantFuture
    private var sleeper: Task<Void, Never>?

    /// Whether the timer fires later than `instant`. It must then be rearmed, so the actor must be woken.
    func isLater(than instant: MonotonicInstant) -> Bool {
        instant < self.deadline
    }

    /// Makes sure that `fire` is called at `instant`, or earlier if the timer is already armed for an earlier time. The
    /// group waits for the sleeping task, so the task cannot outlive its owner.
    mutating func arm(
        for instant: MonotonicInstant,
        clock: any MonotonicClock,
        in group: inout DiscardingTaskGroup,
        fire: @escaping @Sendable () -> Void
    ) {
        if self.deadline <= clock.now {
            // The timer has fired or is about to.
            self.deadline = .distantFuture
        }
        guard instant < self.deadline else { return }
        self.sleeper?.cancel()
        self.deadline = instant
        let task = Task { @concurrent in
            do {
                try await clock.sleep(until: instant)
                fire()
            } catch {
                // Cancelled: the timer was rearmed for an earlier deadline, or its owner has ended.
            }
        }
        self.sleeper = task
        group.addTask { await task.value }
    }

    /// Stops the timer. Nothing fires after the group has ended.
    mutating func cancel() {
        self.sleeper?.cancel()
        self.sleeper = nil
        self.deadline = .distantFuture
    }
}
