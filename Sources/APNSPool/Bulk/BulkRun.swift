import APNSModel
import APNSTransport
import NIOCore
import ServiceLifecycle
import SupervisedPool

/// One run of a bulk call: performs what ``BulkMachine`` decides.
///
/// It runs in the consumer's task. `next()` pulls elements, encodes them and hands arrays of pushes to connections. The
/// results come back in arrays through the collector.
///
/// Sending starts with the first call of `next()`. A run that is dropped stops pulling; pushes in flight finish. The
/// run is not generic: it knows only the indices of the elements. A user's module could not specialise its code, and
/// unspecialised code would cost more than the sending.
final class BulkRun: BulkEngine {
    private struct PendingPush {
        var push: PreparedPush
        var token: DeviceToken
        var history: PushHistory
        /// The route that the push was sent by, as a key of `routes`; -1: not sent yet.
        var route: Int32 = -1
        /// The number of elements pulled before this one.
        var sequence: UInt64
    }

    private static let expired = AttemptEnd.notSent(
        .deadlineExceeded,
        "the deadline came before it was sent",
        isFinal: true
    )

    let collector = BulkCollector()
    private let context: SendContext
    private let options: BulkOptions
    private let source: BulkSource
    private let deadlineNanoseconds: Int64

    // Unchecked, here and below: confined to the consumer's task, and no access begins during another one.
    @exclusivity(unchecked) private var machine: BulkMachine
    private let pushes = Slab<PendingPush>()
    /// The routes that pushes were sent by. With a provider token, the router makes a new one a few times a minute.
    private var routes = RecentRoutes<SendRoute>()
    /// The checkout that waits in the pool. A call has at most one checkout at a time.
    private var pendingCheckout: (route: SendRoute, task: Task<Void, Never>)?
    /// When the checkout was requested; nil unless queue times are measured.
    private var checkoutBegan: MonotonicInstant?
    private var timer: (instant: MonotonicInstant, task: Task<Void, Never>)?
    /// The version of the client's state when streams were last requested.
    private var version = 0
    /// Whether the caller has entered the client's lifecycle for this call.
    private let isHeld: Bool
    private var hasEntered = false
    private var isCancellationHandled = false
    /// Whether the call has seen that the consumer's service group is shutting down gracefully.
    private var isShutdownHandled = false
    private var isOver = false

    @exclusivity(unchecked) private var tally = AcceptedTally()
    /// Nil if tracing is off.
    private var span: BulkSpan?
    /// The header block of the last push. The next push usually has the same one.
    private var lastHeaders: (push: PreparedPush, block: HeaderBlock)?

    private let massRejection: MassRejectionDetector
    private var suspectsMisconfiguration = false
    private let control: BulkControl
    private var ordersVersion = -1
    @exclusivity(unchecked) private var consumer: BulkConsumer

    /// - Parameter isHeld: whether the caller has entered the client's lifecycle for this call; the run leaves it.
    init(
        _ context: SendContext,
        _ source: BulkSource,
        _ options: BulkOptions,
        _ control: BulkControl,
        isHeld: Bool = false
    ) {
        self.context = context
        self.isHeld = isHeld
        self.options = options
        self.control = control
        self.consumer = BulkConsumer(control)
        self.source = source
        self.massRejection = MassRejectionDetector(limits: options.massRejection ?? context.configuration.massRejection)
        self.machine = BulkMachine(maxInFlight: options.maxInFlight)
        self.deadlineNanoseconds =
            options.deadline.map { TimeAmount($0).nanoseconds } ?? context.live.deadlineNanoseconds
    }

    deinit {
        self.giveUpCheckout()
        self.timer?.task.cancel()
        self.source.close()
        self.control.listeners.remove(ObjectIdentifier(self.collector))
        self.context.lifecycle.listeners.remove(ObjectIdentifier(self.collector))
        self.reportProgress()
        self.span?.end(.left)
        guard self.hasEntered || self.isHeld, !self.isOver else { return }
        // A drain waits for the pushes in flight.
        self.collector.abandon(expecting: self.machine.inFlight) { [context] in context.lifecycle.leave(.bulk) }
    }

    // MARK: The consumer

    /// Returns an outcome that is already available, with the index of its element. The next call of `next()` may reuse
    /// the index.
    func takeReady() -> (index: Int, outcome: PushOutcome)? {
        guard let delivery = self.consumer.take() else { return nil }
        self.pushes.release(delivery.index)
        return delivery
    }

    /// Returns the next outcome; nil at the end.
    func next() async -> (index: Int, outcome: PushOutcome)? {
        self.collector.consumerWaits()
        while true {
            if let delivery = self.takeReady() {
                // The call holds no streams while the consumer processes the outcome.
                self.collector.consumerIsBusy()
                return delivery
            }
            if self.isOver { return nil }
            if !self.hasEntered { self.enter() }
            if !self.isOver { await self.performRound() }
            self.reportProgress()
        }
    }

    var wake: @Sendable () -> Void {
        { [collector] in collector.signal() }
    }

    private func enter() {
        self.hasEntered = true
        if self.isHeld || self.context.lifecycle.enter(.bulk) {
            self.consumer.begin()
            self.span = self.context.monitor.tracing.bulk()
            self.control.listeners.add(self.collector) { [collector] in collector.signal() }
            self.context.lifecycle.listeners.add(self.collector) { [collector] in collector.signal() }
        } else {
            // The client is shutting down. Nothing was pulled, so no outcome is due.
            self.consumer.begin()
            self.isOver = true
            self.source.close()
        }
    }

    func finish(_ end: BulkEnd) -> BulkSummary { self.consumer.finish(end) }

    private func reportProgress() {
        self.consumer.progress.unfinished = self.machine.unfinished
        self.consumer.progress.hold = self.machine.hold?.error(now: self.context.clock.now)
        self.consumer.report()
        self.span?.note(self.consumer.progress)
        self.tally.flush(to: self.context.monitor.pushes)
    }

    // MARK: A round

    /// Takes the results that have arrived, and performs the machine's steps until there is nothing to do or a checkout
    /// is requested.
    private func performRound() async {
        self.takeResults()
        self.readOrders()
        self.noteInterruptions()
        if self.pendingCheckout != nil, let checkout = self.collector.takeCheckout() { self.use(checkout) }
        if self.machine.isHeldByWeather, !self.context.router.isCurrent(self.version) { self.machine.weatherChanged() }
        self.machine.beginRound()
        while true {
            self.machine.unread = self.consumer.count
            switch self.machine.next(self.context.clock.now) {
            case .pull(let count):
                self.pullElements(count)
            case .closeInput:
                self.source.close()
            case .end(let indices, let end):
                for index in indices { self.end(index, end) }
            case .checkOut(let count, let deadline):
                return await self.checkOut(count, deadline)
            case .wait(let instant):
                // Outcomes are delivered first.
                if self.consumer.isEmpty { await self.wait(until: instant) }
                return
            case .finish:
                if self.consumer.isEmpty { self.finish() }
                return
            }
        }
    }

    private func finish() {
        self.isOver = true
        self.giveUpCheckout()
        self.timer?.task.cancel()
        self.reportProgress()
        self.span?.end(self.spanEnd)
        self.context.lifecycle.listeners.remove(ObjectIdentifier(self.collector))
        self.context.lifecycle.leave(.bulk)
    }

    private var spanEnd: BulkSpan.End {
        if self.suspectsMisconfiguration { return .suspectedMisconfiguration }
        if Task.isCancelled { return .cancelled }
        if self.control.isStopped || self.isShutdownHandled { return .stopped }
        return self.machine.isCutOffByClient ? .clientStopped : .finished
    }

    private func readOrders() {
        let version = self.control.currentVersion
        let isShutdownNew = !self.isShutdownHandled && Task.isShuttingDownGracefully
        guard version != self.ordersVersion || isShutdownNew else { return }
        self.ordersVersion = version
        if isShutdownNew { self.isShutdownHandled = true }
        var orders = self.control.orders
        // A service that is shutting down pulls no more elements, and ends when the pushes in flight have their
        // outcomes.
        if self.isShutdownHandled { orders.isStopped = true }
        self.machine.set(orders, now: self.context.clock.now)
    }

    private func noteInterruptions() {
        // A cancelled consumer still gets the outcomes of pushes in flight, and then the end.
        if Task.isCancelled {
            self.machine.stop(.notSent(.cancelled, "the sending task was cancelled", isFinal: true))
        }
        switch self.context.lifecycle.current {
        case .notStarted, .running: break
        case .draining: self.machine.drain()
        case .stopped:
            self.machine.clientEnded(.notSent(.shuttingDown, "the client was shut down", isFinal: true))
        }
    }

    private func wait(until instant: MonotonicInstant) async {
        self.arm(instant)
        // A cancellation and a graceful shutdown must wake the call. After one of them is known, its handler is not
        // installed again: it would run immediately, and the call would spin.
        if Task.isCancelled {
            if self.isCancellationHandled { await self.collector.wait() }
            self.isCancellationHandled = true
            return
        }
        await withTaskCancellationHandler {
            if self.isShutdownHandled { return await self.collector.wait() }
            await withGracefulShutdownHandler {
                await self.collector.wait()
            } onGracefulShutdown: { [collector] in
                collector.signal()
            }
        } onCancel: { [collector] in
            collector.signal()
        }
    }

    /// Schedules a signal to the consumer's task at `instant` or earlier, and in bad weather as soon as it changes.
    private func arm(_ instant: MonotonicInstant) {
        let clock = self.context.clock
        if self.machine.isHeldByWeather {
            self.timer?.task.cancel()
            let task = Task { @concurrent [collector, router = self.context.router, version] in
                await router.waitForChange(since: version, until: instant)
                if !Task.isCancelled { collector.signal() }
            }
            self.timer = (clock.now, task)
            return
        }
        if let timer, clock.now < timer.instant {
            if timer.instant <= instant { return }
            timer.task.cancel()
        }
        self.timer = nil
        guard instant < .distantFuture else { return }
        let task = Task { @concurrent [collector] in
            // Throws if cancelled: an earlier timer replaced this one, or the run has ended.
            if (try? await clock.sleep(until: instant)) != nil { collector.signal() }
        }
        self.timer = (instant, task)
    }

    // MARK: Streams

    /// Requests streams from the pool. The lease may arrive later, together with results.
    private func checkOut(_ count: Int, _ deadline: MonotonicInstant) async {
        if self.context.lifecycle.current == .notStarted, await !self.context.waitUntilRunning(deadline) {
            return self.checkoutFailed(
                .notSent(.notRunning, "the client is not running: call run() or start()", isFinal: true)
            )
        }
        // Read first, so that no change is missed.
        self.version = self.context.router.currentVersion
        do throws(AttemptEnd) {
            await self.checkOut(count, deadline, by: try await self.context.router.signed(until: deadline))
        } catch {
            self.checkoutFailed(error)
        }
    }

    private func checkOut(_ count: Int, _ deadline: MonotonicInstant, by route: SendRoute) async {
        self.checkoutBegan = self.context.monitor.queueTimes.begin(at: self.context.clock.now)
        let wanted = route.limit(count, isLeased: false)
        let lane = PoolLane(self.options.lane)
        do throws(PoolError) {
            self.submit(
                try await route.pool.checkout(wanted: wanted, deadline: deadline, block: false, lane: lane),
                by: route
            )
        } catch  where error.code == .full {
            let task = Task { @concurrent [collector, pool = route.pool] in
                do throws(PoolError) {
                    collector.completeCheckout(
                        .leased(try await pool.checkout(wanted: wanted, deadline: deadline, lane: lane))
                    )
                } catch {
                    collector.completeCheckout(.failed(error))
                }
            }
            self.pendingCheckout = (route, task)
        } catch {
            route.returnAdmission()
            self.checkoutFailed(route.end(error))
        }
    }

    private func checkoutFailed(_ end: AttemptEnd) {
        self.machine.checkoutFailed(end, now: self.context.clock.now)
    }

    private func use(_ checkout: consuming BulkCollector.Checkout) {
        guard let (route, _) = self.pendingCheckout else { return }
        self.pendingCheckout = nil
        switch consume checkout {
        case .returned:
            route.returnAdmission()
            self.machine.checkoutWithdrawn()
        case .failed(let error):
            route.returnAdmission()
            self.checkoutFailed(route.end(error))
        case .leased(let lease):
            guard let renewed = self.context.router.renewed(route, now: self.context.clock.now) else {
                // The token expired meanwhile. No stream is held while a new token is signed.
                lease.release()
                route.returnAdmission()
                return self.machine.checkoutWithdrawn()
            }
            self.submit(lease, by: renewed)
        }
    }

    /// Hands the first waiting pushes to the connection, as many as there are streams. Pushes that must not be sent any
    /// more end here.
    private func submit(_ lease: consuming PoolLease<ConnectionActor>, by waited: SendRoute) {
        let now = self.context.clock.now
        self.context.monitor.queueTimes.end(self.checkoutBegan, at: now)
        let route: SendRoute
        do throws(AttemptEnd) {
            route = try waited.admittedLate(now: now)
        } catch {
            lease.release()
            return self.checkoutFailed(error)
        }
        // While the credential is refused, the lease is for a single push, which tests it.
        let room = self.machine.leased(route.limit(lease.count))
        let routeKey = self.routes.insert(route) { self.pushes.map { $0.route } }
        var batches = BatchBuilder(
            lease.worker,
            lease.origin,
            collector: self.collector,
            route: route,
            responseLimit: self.context.live.responseLimit,
            isBulk: self.options.lane == .bulk,
            room: room
        )
        while batches.count < room, let waiting = self.machine.popWaiting() {
            let index = waiting.index
            guard let push = self.pushes[index]?.push, self.mayBeSent(waiting, push, now),
                let token = self.pushes[index]?.token, let id = self.pushes[index]?.history.id
            else { continue }
            self.pushes[index]?.route = routeKey
            batches.add(
                index,
                push,
                self.headerBlock(push),
                to: token,
                id: id,
                deadline: waiting.deadline
            )
        }
        batches.finish()
        if batches.count == 0 { route.returnAdmission() }
        self.machine.submitted(batches.count)
        // The worker returns these streams. The others return with the lease.
        _ = lease.take(batches.count)
    }

    private func mayBeSent(_ waiting: BulkMachine.Waiting, _ push: PreparedPush, _ now: MonotonicInstant) -> Bool {
        if let refusal = self.context.expiry(of: push) {
            self.end(waiting.index, refusal)
            return false
        }
        if waiting.deadline <= now {
            self.end(waiting.index, Self.expired)
            return false
        }
        return true
    }

    /// Gives up the pending checkout because the call has ended. Streams that are leased later are returned.
    private func giveUpCheckout() {
        guard let pendingCheckout else { return }
        self.pendingCheckout = nil
        self.collector.refuseCheckouts()
        pendingCheckout.task.cancel()
    }

    /// The header block of the push. Reuses the block of the previous push if the headers match. The payload may
    /// differ, for example in the badge.
    private func headerBlock(_ push: PreparedPush) -> HeaderBlock {
        if let lastHeaders, lastHeaders.push.sharesHeaders(with: push) { return lastHeaders.block }
        let block = self.context.router.block(for: push)
        self.lastHeaders = (push, block)
        self.span?.note(topic: push.topic)
        return block
    }

    // MARK: The input

    private func pullElements(_ count: Int) {
        var left = count
        while left > 0 {
            guard self.pullOne(room: left) else { return }
            left -= 1
            // An input may take a long time, so check for interruptions after each element.
            if !self.context.lifecycle.current.takesPushes || Task.isCancelled { return self.noteInterruptions() }
        }
    }

    /// Pulls one element. Returns false if there was none.
    private func pullOne(room: Int) -> Bool {
        let index = self.pushes.takeIndex()
        let sequence = UInt64(self.consumer.progress.pulled)
        switch self.source.pull(index, room) {
        case .later:
            self.pushes.release(index)
            self.machine.inputIsEmpty()
            return false
        case .end:
            self.pushes.release(index)
            self.machine.inputIsOver()
            return false
        case .invalid(let error):
            self.context.monitor.pushes.count(.failed(error), PushCounters.otherType)
            self.consumer.add(index, sequence, .failed(error))
            self.machine.pulledInvalid()
        case .push(let push, let token, let id):
            // The deadline starts after the input has returned the element, because an input may block.
            let deadline = self.context.deadline(after: self.deadlineNanoseconds, from: self.context.clock.now)
            self.pushes[index] = PendingPush(
                push: push,
                token: token,
                history: PushHistory(id: id ?? self.context.ids.next(), deadline: deadline, kind: .row),
                sequence: sequence
            )
            self.machine.pulled(index, deadline: deadline)
        }
        self.consumer.progress.pulled += 1
        return true
    }

    // MARK: Results

    private func takeResults() {
        for items in self.collector.take() {
            for item in items {
                if item.result.isAccepted {
                    self.accept(item)
                    continue
                }
                guard var history = self.pushes[item.index]?.history else { continue }
                let route = self.pushes[item.index].flatMap { self.routes[$0.route] }
                let end = self.context.evaluate(item.result, of: route, &history)
                self.pushes[item.index]?.history = history
                self.learn(from: end, item.index)
                self.end(item.index, end)
            }
            self.machine.received(items.count)
        }
    }

    private func accept(_ item: BulkCollector.Item) {
        guard let pending = self.pushes[item.index].take() else { return }
        self.tally.add(pending.push.pushType, to: self.context.monitor.pushes)
        self.machine.receivedVerdict()
        self.deviceTokenWorks(pending.token)
        let receipt = item.result.receipt(id: pending.history.id, attempts: pending.history.attempts + 1)
        self.consumer.add(item.index, pending.sequence, .accepted(receipt))
    }

    private func learn(from end: AttemptEnd, _ index: Int) {
        switch end {
        case .rejected(let rejection, _):
            if !rejection.isWeather { self.machine.receivedVerdict() }
            self.watch(rejection, index)
        case .accepted, .notSent, .held, .notProcessed, .unknown:
            break
        }
    }

    private func watch(_ rejection: Rejection, _ index: Int) {
        guard let pending = self.pushes[index] else { return }
        if rejection.status == 410 { self.deviceTokenWorks(pending.token) }
        guard MassRejectionDetector.counts(rejection) else { return }
        // A call that rejections do not stop counts for the client's alarm, as single pushes do.
        guard !self.massRejection.isOff else {
            return self.context.deviceTokenIsRejected(
                rejection,
                pending.token,
                topic: pending.push.topic,
                bulkInFlight: self.machine.inFlight
            )
        }
        guard let finding = self.massRejection.rejected(pending.token, inFlight: self.machine.inFlight) else { return }
        self.suspectsMisconfiguration = true
        self.machine.stop(
            self.context.massRejectionStops(rejection, topic: pending.push.topic, finding),
            mustBeReported: true
        )
    }

    private func deviceTokenWorks(_ token: DeviceToken) {
        self.machine.deviceTokenWorks()
        _ = self.massRejection.works(token)
        self.context.deviceTokenWorks(token)
    }

    /// Handles the end of an attempt: the push either finishes or waits for its next attempt.
    private func end(_ index: Int, _ end: AttemptEnd) {
        guard var pending = self.pushes[index] else { return }
        switch self.context.decide(end, &pending.history) {
        case .finish(let outcome):
            self.context.monitor.reportOutcome(outcome, pending.push, pending.token)
            self.pushes[index] = nil
            self.consumer.add(index, pending.sequence, outcome)
        case .retry(let delay):
            self.pushes[index] = pending
            self.machine.resend(
                index,
                deadline: pending.history.deadline,
                notBefore: self.context.clock.now.advanced(by: delay)
            )
            self.span?.countResend()
        }
    }
}

extension APNSClient: BulkEngineSender {
    package func makeBulkEngine(
        _ source: BulkSource,
        _ options: BulkOptions,
        _ control: BulkControl
    ) -> any BulkEngine {
        BulkRun(self.runtime.sending, source, options, control)
    }
}
