import HTTP2Wire
import SupervisedPool
import Synchronization

/// Where connections put the results of one bulk call, in arrays, and the pool its response; and where the call's task
/// waits for either.
final class BulkCollector: Sendable {
    struct Item: Sendable {
        /// What the bulk call calls the push.
        var index: Int
        var result: StreamResult
    }

    /// What became of the call's one checkout.
    enum Checkout {
        case leased(UnownedLease<ConnectionActor>)
        case failed(PoolError)
        /// Streams came while the consumer was busy, and went back to the pool.
        case returned
    }

    /// About how many results the call's task takes at once. If everything is answered in one burst, the caller gets its
    /// first outcome before all of them are processed.
    static let portion = 512

    private struct State {
        /// As they were delivered: neither copied nor in one array that grows.
        var items: [[Item]] = []
        var checkout: Checkout?
        /// Whether a response would find nobody.
        var refusesCheckouts = false
        /// Whether the consumer has control: nobody knows when it asks for the next outcome.
        var isConsumerAway = false
        var isSignalled = false
        var waiter: CheckedContinuation<Void, Never>?
        /// The consumer is gone: how many results are still to come, and what to call after the last.
        var abandoned: (left: Int, onLast: @Sendable () -> Void)?
    }

    private let state = Mutex(State())

    /// Called on a connection's loop, once a tick.
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

    /// The consumer has gone: results are counted and dropped from now on.
    ///
    /// - Parameters:
    ///   - count: how many results have not been taken.
    ///   - onLast: called once they are all here.
    func abandon(expecting count: Int, onLast: @escaping @Sendable () -> Void) {
        let isLast = self.state.withLock { state in
            let left = count - state.items.reduce(0) { $0 + $1.count }
            state.items = []
            state.abandoned = (left, onLast)
            return left == 0
        }
        if isLast { onLast() }
    }

    /// The pool's answer to the checkout of this call. Streams that nobody would use at once go back.
    func completeCheckout(_ result: Result<UnownedLease<ConnectionActor>, PoolError>, from pool: Pool<ConnectionActor>)
    {
        let (unused, waiter) = self.state.withLock { state in
            var unused: UnownedLease<ConnectionActor>?
            switch result {
            case .success(let lease) where state.refusesCheckouts || state.isConsumerAway:
                unused = lease
                state.checkout = .returned
            case .success(let lease): state.checkout = .leased(lease)
            case .failure(let error): state.checkout = .failed(error)
            }
            return (unused, state.waiter.take())
        }
        waiter?.resume()
        if let unused { pool.checkin(unused.origin, count: unused.count) }
    }

    /// The consumer asks for the next outcome.
    func consumerWaits() {
        self.state.withLock { $0.isConsumerAway = false }
    }

    /// The consumer has an outcome. Streams that are here, or come until it asks for the next, go back: it may take
    /// any time, and may need one of them itself.
    func consumerLeaves(_ pool: Pool<ConnectionActor>?) {
        let unused = self.state.withLock { state -> UnownedLease<ConnectionActor>? in
            state.isConsumerAway = true
            guard case .leased(let lease) = state.checkout else { return nil }
            state.checkout = .returned
            return lease
        }
        if let unused, let pool { pool.checkin(unused.origin, count: unused.count) }
    }

    func takeCheckout() -> Checkout? {
        self.state.withLock { $0.checkout.take() }
    }

    /// Nobody waits for a response any more.
    func refuseCheckouts(from pool: Pool<ConnectionActor>) {
        let late = self.state.withLock { state in
            state.refusesCheckouts = true
            return state.checkout.take()
        }
        if case .leased(let lease) = late { pool.checkin(lease.origin, count: lease.count) }
    }

    /// Wakes the waiting task although no result came.
    func signal() {
        let waiter = self.state.withLock { state in
            state.isSignalled = true
            return state.waiter.take()
        }
        waiter?.resume()
    }

    /// Takes what has come, oldest first, or as much of it as makes a portion.
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

    /// Returns when there is something to take, or after a signal. One task at a time.
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
