import Synchronization

/// What others tell an actor, in the order in which they told it, without waiting for it.
///
/// One reader, the actor's `run()`, waits in ``wait()``; any thread posts. Posting takes one lock, starts no task and
/// allocates nothing but the array's growth. The reader's wait ignores cancellation on purpose: a cancelled actor still
/// has children to stop and callers to answer, so cancellation reaches it as an item like everything else.
final class Mailbox<Item: Sendable>: Sendable {
    private struct State: Sendable {
        var items: [Item] = []
        /// Whether an item that is not urgent wakes the reader.
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

    /// - Parameter isAttentive: whether items that are not urgent wake the reader, until ``take(into:isAttentive:)`` says
    ///   otherwise.
    init(isAttentive: Bool) {
        self.state = Mutex(State(isAttentive: isAttentive))
    }

    /// Adds an item; wakes the reader when the item is urgent or the reader is attentive. Nothing happens once closed.
    func post(_ item: Item, isUrgent: Bool = false) {
        let reader = self.state.withLock { state -> CheckedContinuation<Void, Never>? in
            if state.isClosed { return nil }
            state.items.append(item)
            return isUrgent || state.isAttentive ? state.wake() : nil
        }
        reader?.resume()
    }

    /// Wakes the reader without an item. A wake-up before the wait is not lost.
    func wake() {
        self.state.withLock { $0.wake() }?.resume()
    }

    /// Exchanges `batch`, which must be empty, for all items posted so far. Both arrays keep their room.
    func take(into batch: inout [Item], isAttentive: Bool) {
        self.state.withLock { state in
            state.isAttentive = isAttentive
            if !state.items.isEmpty { swap(&state.items, &batch) }
        }
    }

    /// Waits for a wake-up. For one reader.
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

    /// From now on items are dropped, and so are those not yet taken.
    func close() {
        let reader = self.state.withLock { state -> CheckedContinuation<Void, Never>? in
            state.isClosed = true
            state.items = []
            return state.wake()
        }
        reader?.resume()
    }
}

/// The one timer of an actor: it is armed for the earliest deadline, and armed anew only when an earlier one appears.
/// A deadline that has moved away costs one needless wake-up.
struct EarliestTimer: ~Copyable {
    private var deadline: MonotonicInstant = .distantFuture
    private var sleeper: Task<Void, Never>?

    /// Whether a wake-up is needed to arm the timer for `instant`.
    func isLater(than instant: MonotonicInstant) -> Bool {
        instant < self.deadline
    }

    /// Makes sure that `fire` is called at `instant` or before. The group waits for the sleeping task, so that it cannot
    /// outlive its owner.
    mutating func arm(
        for instant: MonotonicInstant,
        clock: any MonotonicClock,
        in group: inout DiscardingTaskGroup,
        fire: @escaping @Sendable () -> Void
    ) {
        if self.deadline <= clock.now {
            // It has fired, or is about to.
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
                // Cancelled: an earlier deadline took over, or the owner has ended.
            }
        }
        self.sleeper = task
        group.addTask { await task.value }
    }

    /// Stops the timer; nothing fires after the group has ended.
    mutating func cancel() {
        self.sleeper?.cancel()
        self.sleeper = nil
        self.deadline = .distantFuture
    }
}
