import APNSBasics
import Synchronization

/// Runs a bulk call for a sender without its own engine.
///
/// Each push is sent by the sender's `deliver`, at most `maxInFlight` at a time. When a push ends because the sender is
/// shutting down, no further element is pulled. Confined to the consumer's task.
package final class PlainBulkRun: BulkEngine {
    /// How much unused time of the rate may be caught up in a burst.
    private static let burstTime = Duration.milliseconds(10)

    private let sender: any PushSender
    private let source: BulkSource
    private let options: BulkOptions
    private let control: BulkControl
    private let results = Results()
    /// Indices of elements that may be reused.
    private var freeIndices: [Int] = []
    private var indexCount = 0
    private var inFlight = 0
    private var isInputClosed = false
    private var isInputOver = false
    private var isCancellationHandled = false
    /// The earliest time at which the rate allows the next push to start.
    private var nextBegin = ContinuousClock.now
    private var rate: PushRate?
    private var isSenderShuttingDown = false
    /// How many outcomes in a row were failures that meet every push. While there are any, one push at a time is sent, after
    /// growing pauses.
    private var failures = 0
    private var heldUntil = ContinuousClock.now
    private var hold: PushError?
    private var consumer: BulkConsumer

    private struct Delivery: Sendable {
        var index: Int
        /// The number of elements pulled before this one.
        var sequence: UInt64
        var outcome: PushOutcome
    }

    package init(sender: any PushSender, _ source: BulkSource, _ options: BulkOptions, _ control: BulkControl) {
        self.sender = sender
        self.source = source
        self.options = options
        self.control = control
        self.consumer = BulkConsumer(control)
    }

    deinit {
        self.control.listeners.remove(ObjectIdentifier(self.results))
        self.source.close()
        self.report()
    }

    package var wake: @Sendable () -> Void {
        { [results] in results.signal() }
    }

    package func takeReady() -> (index: Int, outcome: PushOutcome)? {
        guard let delivery = self.consumer.take() else { return nil }
        self.freeIndices.append(delivery.index)
        return delivery
    }

    package func next() async -> (index: Int, outcome: PushOutcome)? {
        if !self.consumer.hasBegun {
            self.consumer.begin()
            self.control.listeners.add(self.results) { [results] in results.signal() }
        }
        while true {
            if let delivery = self.takeReady() { return delivery }
            self.takeResults()
            let wakeUp = self.pullElements()
            self.report()
            guard self.consumer.isEmpty else { continue }
            if self.isInputOver, self.inFlight == 0 { return nil }
            await self.wait(until: wakeUp)
        }
    }

    package func finish(_ end: BulkEnd) -> BulkSummary { self.consumer.finish(end) }

    private func report() {
        self.consumer.progress.unfinished = self.inFlight
        self.consumer.progress.hold = self.hold
        self.consumer.report()
    }

    private func takeResults() {
        let deliveries = self.results.take()
        self.inFlight -= deliveries.count
        for delivery in deliveries {
            self.consumer.add(delivery.index, delivery.sequence, delivery.outcome)
            self.watch(delivery.outcome)
        }
        if deliveries.contains(where: { $0.outcome.error?.code == .shuttingDown }) { self.isSenderShuttingDown = true }
    }

    private func watch(_ outcome: PushOutcome) {
        guard let error = outcome.error, error.isWeather else {
            self.failures = 0
            self.hold = nil
            return
        }
        self.failures += 1
        self.hold = error
        // 50 ms, doubled with each failure, up to five seconds.
        self.heldUntil = .now + min(.milliseconds(50 << min(self.failures - 1, 7)), .seconds(5))
    }

    /// Pulls as many elements as there is room for.
    ///
    /// - Returns: the time at which the rate allows the next push to start, if the rate is what delays the call.
    private func pullElements() -> ContinuousClock.Instant? {
        while true {
            // An input may take a while: apply any changed order to the next element.
            let orders = self.readOrders()
            let most = self.hold == nil ? self.options.maxInFlight : 1
            if self.isInputOver || self.inFlight + self.consumer.count >= most { return nil }
            // Elements that the input had read before it was closed are still pulled.
            if !self.isInputClosed {
                if orders.isPaused { return nil }
                if self.hold != nil, self.heldUntil > .now { return self.heldUntil }
                if orders.rate != nil, self.nextBegin > .now { return self.nextBegin }
            }
            guard self.pullOne() else { return nil }
            if let rate = orders.rate {
                self.nextBegin = max(self.nextBegin, .now - Self.burstTime) + .seconds(1 / rate.perSecond)
            }
        }
    }

    private func readOrders() -> BulkControl.Orders {
        let orders = self.control.orders
        self.isCancellationHandled = Task.isCancelled
        if orders.isStopped || self.isCancellationHandled || self.isSenderShuttingDown, !self.isInputClosed {
            self.isInputClosed = true
            self.source.close()
        }
        if orders.rate != self.rate {
            self.rate = orders.rate
            self.nextBegin = .now
        }
        return orders
    }

    /// Returns whether an element was available.
    private func pullOne() -> Bool {
        let index = self.freeIndices.popLast() ?? self.indexCount
        if index == self.indexCount { self.indexCount += 1 }
        let sequence = UInt64(self.consumer.progress.pulled)
        switch self.source.pull(index, 1) {
        case .later:
            self.freeIndices.append(index)
            return false
        case .end:
            self.freeIndices.append(index)
            self.isInputOver = true
            return false
        case .invalid(let error):
            self.consumer.add(index, sequence, .failed(error))
        case .push(_, _, let id) where self.isCancellationHandled:
            let error = PushError(
                code: .cancelled,
                certainty: .notSent,
                apnsID: id,
                message: "the sending task was cancelled"
            )
            self.consumer.add(index, sequence, .failed(error))
        case .push(let push, let token, let id):
            self.inFlight += 1
            let options = DeliveryOptions(deadline: self.options.deadline, apnsID: id, lane: self.options.lane)
            Task { @concurrent [sender, results] in
                let outcome = await sender.deliver(push, to: token, options: options)
                results.put(Delivery(index: index, sequence: sequence, outcome: outcome))
            }
        }
        self.consumer.progress.pulled += 1
        return true
    }

    private func wait(until instant: ContinuousClock.Instant?) async {
        let timer = instant.map { instant in
            Task { @concurrent [results] in
                // A cancelled sleep means that another event came first.
                if (try? await Task.sleep(until: instant, clock: .continuous)) != nil { results.signal() }
            }
        }
        defer { timer?.cancel() }
        // In a cancelled task a cancellation handler runs immediately. Installing another one would make the call spin.
        if self.isCancellationHandled { return await self.results.wait() }
        await withTaskCancellationHandler {
            await self.results.wait()
        } onCancel: { [results] in
            results.signal()
        }
    }

    /// Passes outcomes to the consumer's task, which waits here for them.
    private final class Results: Sendable {
        private struct State {
            var deliveries: [Delivery] = []
            var isSignalled = false
            var waiter: OneShot<Void>?
        }

        private let state = Mutex(State())

        func put(_ delivery: Delivery) { self.change { $0.deliveries.append(delivery) } }

        func signal() { self.change { _ in } }

        func take() -> [Delivery] {
            self.state.withLock { state in
                defer { state.deliveries = [] }
                return state.deliveries
            }
        }

        /// Returns once something has arrived since the last call of `wait()`.
        func wait() async {
            let waiter = OneShot<Void>()
            let isSignalled = self.state.withLock { state in
                if !state.isSignalled { state.waiter = waiter }
                defer { state.isSignalled = false }
                return state.isSignalled
            }
            if !isSignalled { await waiter.wait() }
        }

        private func change(_ body: (inout State) -> Void) {
            let waiter = self.state.withLock { state in
                body(&state)
                state.isSignalled = state.waiter == nil
                return state.waiter.take()
            }
            waiter?.give(())
        }
    }
}
