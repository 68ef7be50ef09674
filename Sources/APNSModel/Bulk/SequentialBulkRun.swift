import APNSBasics
import Synchronization

/// Runs a bulk call for a sender without its own engine: one push at a time, in the order of the input.
///
/// Each push is sent by the sender's `deliver`. When one ends because the sender is shutting down, no further element is
/// pulled. Confined to the consumer's task.
package final class SequentialBulkRun: BulkEngine {
    private let sender: any PushSender
    private let source: BulkSource
    private let options: BulkOptions
    private let control: BulkControl
    private let bell = Bell()
    private var consumer: BulkConsumer
    private var isInputClosed = false
    private var isSenderShuttingDown = false
    /// When the last push began.
    private var lastBegin: ContinuousClock.Instant?

    package init(sender: any PushSender, _ source: BulkSource, _ options: BulkOptions, _ control: BulkControl) {
        self.sender = sender
        self.source = source
        self.options = options
        self.control = control
        self.consumer = BulkConsumer(control)
    }

    deinit {
        self.control.listeners.remove(ObjectIdentifier(self.bell))
        self.source.close()
        self.consumer.report()
    }

    package var wake: @Sendable () -> Void { { [bell] in bell.ring() } }

    package func takeReady() -> (index: Int, outcome: PushOutcome)? { self.consumer.take() }

    package func next() async -> (index: Int, outcome: PushOutcome)? {
        if !self.consumer.hasBegun {
            self.consumer.begin()
            self.control.listeners.add(self.bell) { [bell] in bell.ring() }
        }
        while true {
            if let delivery = self.takeReady() { return delivery }
            self.consumer.report()
            let orders = self.control.orders
            if orders.isStopped || Task.isCancelled || self.isSenderShuttingDown, !self.isInputClosed {
                self.isInputClosed = true
                self.source.close()
            }
            // Elements that the input had read before it was closed are still pulled.
            if !self.isInputClosed {
                let begin = orders.rate.flatMap { rate in self.lastBegin?.advanced(by: .seconds(1 / rate.perSecond)) }
                if orders.isPaused || begin.map({ $0 > .now }) == true {
                    await self.wait(until: orders.isPaused ? nil : begin)
                    continue
                }
            }
            switch self.source.pull(0, 1) {
            case .later: await self.wait(until: nil)
            case .end: return nil
            case .invalid(let error): self.add(.failed(error))
            case .push(let push, let token, let id): self.add(await self.send(push, token, id))
            }
        }
    }

    package func finish(_ end: BulkEnd) -> BulkSummary { self.consumer.finish(end) }

    private func add(_ outcome: PushOutcome) {
        // There is only one element at a time, so its index is always the same.
        self.consumer.add(0, UInt64(self.consumer.progress.pulled), outcome)
        self.consumer.progress.pulled += 1
        if outcome.error?.code == .shuttingDown { self.isSenderShuttingDown = true }
    }

    private func send(_ push: PreparedPush, _ token: DeviceToken, _ id: APNSID?) async -> PushOutcome {
        if Task.isCancelled {
            let message = "the sending task was cancelled"
            return .failed(PushError(code: .cancelled, certainty: .notSent, apnsID: id, message: message))
        }
        self.lastBegin = .now
        let options = DeliveryOptions(deadline: self.options.deadline, apnsID: id, lane: self.options.lane)
        // A task of its own: a push in flight ends with its outcome even if the loop is cancelled.
        return await Task { @concurrent [sender] in await sender.deliver(push, to: token, options: options) }.value
    }

    /// Returns after an order of the control, a wake-up of the input, a cancellation, or at the given time.
    private func wait(until instant: ContinuousClock.Instant?) async {
        let timer = instant.map { instant in
            Task { @concurrent [bell] in
                // A cancelled sleep means that another event came first.
                if (try? await Task.sleep(until: instant, clock: .continuous)) != nil { bell.ring() }
            }
        }
        defer { timer?.cancel() }
        // In a cancelled task a cancellation handler runs immediately. Installing another one would make the call spin.
        if self.isInputClosed { return await self.bell.wait() }
        await withTaskCancellationHandler {
            await self.bell.wait()
        } onCancel: { [bell] in
            bell.ring()
        }
    }

    /// Wakes the one task that waits for it. A ring without a waiter is kept.
    private final class Bell: Sendable {
        private struct State {
            var hasRung = false
            var waiter: OneShot<Void>?
        }

        private let state = Mutex(State())

        func ring() {
            let waiter = self.state.withLock { state in
                state.hasRung = state.waiter == nil
                return state.waiter.take()
            }
            waiter?.give(())
        }

        func wait() async {
            let waiter = OneShot<Void>()
            let hasRung = self.state.withLock { state in
                if !state.hasRung { state.waiter = waiter }
                defer { state.hasRung = false }
                return state.hasRung
            }
            if !hasRung { await waiter.wait() }
        }
    }
}
