import APNSTransport
import SupervisedPool
import Synchronization

/// Collects what one bulk call waits for: results, delivered in arrays by connections, and the result of its checkout
/// from the pool. The call's task waits here for either.
final class BulkCollector: Sendable {
    struct Item: Sendable {
        /// The push's index in the bulk call.
        var index: Int
        var result: StreamResult
    }

    /// The result of the call's one checkout.
    enum Checkout: ~Copyable {
        case leased(PoolLease<ConnectionActor>)
        case failed(PoolError)
        /// Streams were leased while the consumer was busy, so they were returned to the pool.
        case returned

        var isLeased: Bool {
            switch self {
            case .leased: true
            case .failed: false
            case .returned: false
            }
        }
    }

    /// The approximate number of results that the call's task takes at once. If all responses arrive in one burst, the
    /// caller gets its first outcome before all of them are processed.
    static let portion = 512

    private struct State: ~Copyable {
        /// The arrays as they were delivered. They are neither copied nor appended to one growing array.
        var items: [[Item]] = []
        var checkout: Checkout?
        /// Whether leases are returned to the pool because nobody waits for a checkout any more.
        var refusesCheckouts = false
        /// Whether the consumer is busy with an outcome. It may ask for the next one at any time, or never.
        var isConsumerBusy = false
        var isSignalled = false
        var waiter: CheckedContinuation<Void, Never>?
        /// Set when the consumer is gone: the number of results still to come, and the function to call after the last
        /// one.
        var abandoned: (left: Int, onLast: @Sendable () -> Void)?
    }

    private let state = Mutex(State())

    /// Adds results. A connection calls it on its event loop, usually once per tick. A closed connection calls it on
    /// the task that tries to send.
    func deliver(_ items: [Item]) {
        let (waiter, onLast) = self.state.withLock { state in
            if let abandoned = state.abandoned {
                let left = abandoned.left - items.count
                state.abandoned?.left = left
                return (CheckedContinuation<Void, Never>?.none, left == 0 ? abandoned.onLast : nil)
            }
            if !items.isEmpty { state.items.append(items) }
            let waiter = state.waiter
            state.waiter = nil
            return (waiter, nil)
        }
        waiter?.resume()
        onLast?()
    }

    /// Records that the consumer is gone. Results are counted and discarded from now on.
    ///
    /// - Parameters:
    ///   - count: the number of results that have not been taken.
    ///   - onLast: called once all of them have arrived.
    func abandon(expecting count: Int, onLast: @escaping @Sendable () -> Void) {
        let isLast = self.state.withLock { state in
            let left = count - state.items.reduce(0) { $0 + $1.count }
            state.items = []
            state.abandoned = (left, onLast)
            return left == 0
        }
        if isLast { onLast() }
    }

    /// Adds the result of the call's checkout. Leased streams that would not be used immediately return to the pool.
    func completeCheckout(_ result: consuming Checkout) {
        var result: Checkout? = result
        let waiter = self.state.withLock { state in
            let isUnused = result?.isLeased == true && (state.refusesCheckouts || state.isConsumerBusy)
            state.checkout = isUnused ? .returned : result.take()
            return state.waiter.take()
        }
        waiter?.resume()
    }

    /// Records that the consumer asks for the next outcome.
    func consumerWaits() {
        self.state.withLock { $0.isConsumerBusy = false }
    }

    /// Records that the consumer has an outcome. Until it asks for the next one, every leased stream returns to the pool,
    /// because the consumer may take any amount of time, and may need one of the streams itself.
    func consumerIsBusy() {
        self.state.withLock { state in
            state.isConsumerBusy = true
            if state.checkout?.isLeased == true { state.checkout = .returned }
        }
    }

    func takeCheckout() -> Checkout? {
        self.state.withLock { $0.checkout.take() }
    }

    /// Returns the streams of a checkout that has arrived, and of any later one. Nobody waits for a checkout any more.
    func refuseCheckouts() {
        self.state.withLock { state in
            state.refusesCheckouts = true
            state.checkout = nil
        }
    }

    /// Wakes the waiting task even though no result arrived.
    func signal() {
        let waiter = self.state.withLock { state in
            state.isSignalled = true
            return state.waiter.take()
        }
        waiter?.resume()
    }

    /// Takes the delivered results, oldest first, up to about one portion.
    func take() -> [[Item]] {
        self.state.withLock { state in
            state.isSignalled = false
            var (taken, arrays) = (0, 0)
            while arrays < state.items.count, taken < Self.portion {
                taken += state.items[arrays].count
                arrays += 1
            }
            if arrays == state.items.count {
                let all = state.items
                state.items = []
                return all
            }
            let portion = Array(state.items[..<arrays])
            state.items.removeFirst(arrays)
            return portion
        }
    }

    /// Waits until there is something to take, or for a signal. Only one task may wait at a time.
    func wait() async {
        await withCheckedContinuation { continuation in
            let isReady = self.state.withLock { state in
                if !state.items.isEmpty || state.isSignalled || state.checkout != nil { return true }
                state.waiter = continuation
                return false
            }
            if isReady { continuation.resume() }
        }
    }
}
