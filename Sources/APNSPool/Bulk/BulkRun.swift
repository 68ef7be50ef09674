import APNSModel
import APNSBasics
import HTTP2Wire
import NIOCore
import ServiceLifecycle
import SupervisedPool

/// One run of a bulk call: performs what ``BulkMachine`` decides. It lives in the consumer's task: `next()` pulls,
/// encodes and hands arrays of pushes to connections; their results come back in arrays through the collector.
///
/// Sending starts with the first `next()`. A run that is dropped pulls no more; what is in flight finishes. It knows
/// elements by an index only: generic code that a user's module cannot specialise would cost more than the sending.
final class BulkRun: BulkEngine {
    private struct Attempt {
        var push: PreparedPush
        var token: DeviceToken
        var history: PushHistory
        /// The route it was sent by: an index into `routes`; -1: none yet.
        var route: Int32 = -1
        /// How many elements were pulled before it.
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
    private var random = SplitMix64(seed: nil)

    // Unchecked, here and below: confined to the consumer's task, and nothing that an access calls comes back here.
    @exclusivity(unchecked) private var machine: BulkMachine
    private let attempts = Slab<Attempt>()
    /// The routes that pushes were sent by; one more every 50 minutes, with the next provider token.
    private var routes: [SendRoute] = []
    /// The pushes that probe a candidate credential: they alone keep their probe.
    private var probes: [Int: SendRoute] = [:]
    /// The pool that has been asked for streams and has not answered: a call is one waiter at a time.
    private var asked: (route: SendRoute, ticket: PoolTicket)?
    /// When that was; nil unless queue times are measured.
    private var askedAt: MonotonicInstant?
    private var timer: (instant: MonotonicInstant, task: Task<Void, Never>)?
    private var hasEntered = false
    private var hasHeardOfCancellation = false
    /// Whether the consumer's service group is shutting down gracefully.
    private var hasHeardOfShutdown = false
    private var isOver = false

    @exclusivity(unchecked) private var ready: [(index: Int, sequence: UInt64, outcome: PushOutcome)] = []
    private var readyPosition = 0
    @exclusivity(unchecked) private var tally = AcceptedTally()
    /// Nil: nobody traces.
    private var span: BulkSpan?
    /// The fields of the last push, which the next one shares most often.
    private var lastHeaders: (push: PreparedPush, block: HeaderBlock)?

    private var breaker: MassRejectionBreaker
    private var hasTrippedBreaker = false
    private let control: BulkControl
    /// The control's number of this run; 0: it has not begun.
    private var run = 0
    private var ordersVersion = -1
    @exclusivity(unchecked) private var progress = BulkProgress()
    private let given = GivenOutcomes()
    @exclusivity(unchecked) private var prefix = CompletedPrefix()
    /// The element whose outcome the consumer has, until it asks for the next.
    private var handedOut: UInt64?

    init(_ context: SendContext, _ source: BulkSource, _ options: BulkOptions, _ control: BulkControl) {
        self.context = context
        self.options = options
        self.control = control
        self.source = source
        self.breaker = MassRejectionBreaker(limits: options.massRejection ?? context.configuration.massRejection)
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
        guard self.hasEntered, !self.isOver else { return }
        // A drain waits for what is in flight.
        self.collector.abandon(expecting: self.machine.inFlight) { [context] in context.lifecycle.leave(.bulk) }
    }

    // MARK: The consumer

    /// An outcome that is there already, and the index of its element, which may be another's from the next call on.
    func takeReady() -> (index: Int, outcome: PushOutcome)? {
        if let done = self.handedOut {
            self.handedOut = nil
            self.prefix.complete(done)
        }
        guard self.readyPosition < self.ready.count else { return nil }
        let delivery = self.ready[self.readyPosition]
        self.readyPosition += 1
        self.handedOut = delivery.sequence
        self.attempts.release(delivery.index)
        self.given.count(delivery.outcome)
        return (delivery.index, delivery.outcome)
    }

    /// The next outcome; nil at the end.
    func next() async -> (index: Int, outcome: PushOutcome)? {
        self.collector.consumerWaits()
        while true {
            if let delivery = self.takeReady() {
                // Whatever the consumer does with it, this call holds no streams meanwhile.
                self.collector.consumerLeaves(self.asked?.route.pool)
                // The consumer may stay away for long: another push may probe the candidate credential meanwhile.
                self.asked?.route.probe?.end()
                return delivery
            }
            self.ready.removeAll(keepingCapacity: true)
            self.readyPosition = 0
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
        if self.context.lifecycle.enter(.bulk) {
            self.run = self.control.begin(self.given)
            self.span = self.context.monitor.tracing.bulk()
            self.control.listeners.add(self.collector) { [collector] in collector.signal() }
            self.context.lifecycle.listeners.add(self.collector) { [collector] in collector.signal() }
        } else {
            // The client is shutting down: nothing was pulled, so no outcome is due.
            self.isOver = true
            self.source.close()
        }
    }

    private func reportProgress() {
        self.progress.unfinished = self.machine.unfinished
        self.progress.outcomes = self.given.summary
        self.progress.completedPrefix = Int(clamping: self.prefix.count)
        self.progress.hold = self.machine.hold?.error
        self.control.report(self.progress, of: self.run)
        self.span?.note(self.progress)
        self.tally.flush(to: self.context.monitor.pushes)
    }

    // MARK: A round

    /// Takes what has come, and performs the machine's steps until it has nothing to do or asked the pool.
    private func performRound() async {
        self.takeResults()
        self.readOrders()
        self.noteInterruptions()
        if self.asked != nil, let checkout = self.collector.takeCheckout() { self.use(checkout) }
        self.machine.beginRound()
        while true {
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
                // Outcomes are handed over first.
                if self.ready.isEmpty { await self.wait(until: instant) }
                return
            case .finish:
                if self.ready.isEmpty { self.finish() }
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
        if self.hasTrippedBreaker { return .suspectedMisconfiguration }
        if Task.isCancelled { return .cancelled }
        return self.control.isStopped || self.hasHeardOfShutdown ? .stopped : .finished
    }

    private func readOrders() {
        let version = self.control.currentVersion
        let isShutdownNew = !self.hasHeardOfShutdown && Task.isShuttingDownGracefully
        guard version != self.ordersVersion || isShutdownNew else { return }
        self.ordersVersion = version
        if isShutdownNew { self.hasHeardOfShutdown = true }
        var orders = self.control.orders
        // A service that is asked to end pulls no more, and ends when what is in flight has its outcome.
        if self.hasHeardOfShutdown { orders.isStopped = true }
        self.machine.set(orders, now: self.context.clock.now)
    }

    private func noteInterruptions() {
        // A cancelled consumer gets what is in flight, and the end.
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
        // A cancellation and a graceful shutdown must wake the call. Once one of them is known, its handler is not installed
        // again: it would run at once, and the call would spin.
        if Task.isCancelled {
            if self.hasHeardOfCancellation { await self.collector.wait() }
            self.hasHeardOfCancellation = true
            return
        }
        await withTaskCancellationHandler {
            if self.hasHeardOfShutdown { return await self.collector.wait() }
            await withGracefulShutdownHandler {
                await self.collector.wait()
            } onGracefulShutdown: { [collector] in
                collector.signal()
            }
        } onCancel: { [collector] in
            collector.signal()
        }
    }

    /// Wakes the consumer's task at `instant` or before.
    private func arm(_ instant: MonotonicInstant) {
        let clock = self.context.clock
        if let timer, clock.now < timer.instant {
            if timer.instant <= instant { return }
            timer.task.cancel()
        }
        self.timer = nil
        guard instant < .distantFuture else { return }
        let task = Task { @concurrent [collector] in
            // Cancelled: an earlier one took over, or the run has ended.
            if (try? await clock.sleep(until: instant)) != nil { collector.signal() }
        }
        self.timer = (instant, task)
    }

    // MARK: Streams

    /// Asks the pool. Its answer may come later, together with results.
    private func checkOut(_ count: Int, _ deadline: MonotonicInstant) async {
        if self.context.lifecycle.current == .notStarted, await !self.context.waitUntilRunning(deadline) {
            return self.checkoutFailed(
                .notSent(.notRunning, "nobody runs the client: call run() or start()", isFinal: true)
            )
        }
        do throws(AttemptEnd) {
            await self.checkOut(count, deadline, by: try await self.context.router.signed(until: deadline))
        } catch {
            self.checkoutFailed(error)
        }
    }

    private func checkOut(_ count: Int, _ deadline: MonotonicInstant, by route: SendRoute) async {
        self.askedAt = self.context.monitor.queueTimes.begin(self.context.clock)
        let pool = route.pool
        let start = await pool.startCheckout(
            wanted: route.limit(count),
            deadline: route.waitDeadline(deadline, now: self.context.clock.now),
            lane: PoolLane(self.options.lane)
        ) { [collector] result in
            collector.completeCheckout(result, from: pool)
        }
        switch start {
        case .leased(let lease): self.submit(lease, by: route)
        case .failed(let error): self.checkoutFailed(route.end(error))
        case .waiting(let ticket): self.asked = (route, ticket)
        }
    }

    private func checkoutFailed(_ end: AttemptEnd) {
        self.machine.checkoutFailed(end, now: self.context.clock.now, using: &self.random)
    }

    private func use(_ checkout: BulkCollector.Checkout) {
        guard let (route, _) = self.asked else { return }
        self.asked = nil
        switch checkout {
        case .returned:
            self.machine.checkoutWithdrawn()
        case .failed(let error):
            self.checkoutFailed(route.end(error))
        case .leased(let lease):
            guard let renewed = self.context.router.renewed(route, now: self.context.clock.now) else {
                // The token ran out meanwhile: no stream is held while one is signed.
                route.pool.checkin(lease.origin, count: lease.count)
                return self.machine.checkoutWithdrawn()
            }
            self.submit(lease, by: renewed)
        }
    }

    /// Hands the first waiting pushes to the connection, as many as there are streams; those that are not to be sent any
    /// more end here.
    private func submit(_ lease: UnownedLease<ConnectionActor>, by route: SendRoute) {
        self.context.monitor.queueTimes.end(self.askedAt, self.context.clock)
        // While the credential is refused what was admitted is a probe: one push.
        let room = self.machine.granted(route.limit(lease.count))
        let now = self.context.clock.now
        let routeIndex = self.remember(route)
        var batches = BatchBuilder(
            lease,
            collector: self.collector,
            route: route,
            isBulk: self.options.lane == .bulk,
            room: room
        )
        while batches.count < room, let waiting = self.machine.popWaiting() {
            let index = waiting.index
            guard let push = self.attempts[index]?.push, self.mayBeSent(waiting, push, now),
                let token = self.attempts[index]?.token, let id = self.attempts[index]?.history.id
            else { continue }
            self.attempts[index]?.route = routeIndex
            if route.isProbe { self.probes[index] = route }
            batches.add(
                index,
                push,
                self.headerBlock(push),
                to: token,
                id: id,
                deadline: self.context.attemptDeadline(waiting.deadline, now: now)
            )
        }
        batches.finish()
        self.machine.submitted(batches.count)
        route.pool.checkin(lease.origin, count: lease.count - batches.count)
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

    private func remember(_ route: SendRoute) -> Int32 {
        if route.isProbe { return -1 }
        if self.routes.last !== route { self.routes.append(route) }
        return Int32(truncatingIfNeeded: self.routes.count - 1)
    }

    /// The route that the push with this result was sent by.
    private func takeRoute(_ index: Int) -> SendRoute? {
        if !self.probes.isEmpty, let probe = self.probes.removeValue(forKey: index) { return probe }
        guard let place = self.attempts[index]?.route, place >= 0 else { return nil }
        return self.routes[Int(place)]
    }

    /// The call has ended; streams that still come go back.
    private func giveUpCheckout() {
        guard let asked else { return }
        self.asked = nil
        self.collector.refuseCheckouts(from: asked.route.pool)
        asked.route.pool.withdraw(asked.ticket)
    }

    /// The shared fields. The block of the push before is used again if the fields match; the badge may differ.
    private func headerBlock(_ push: PreparedPush) -> HeaderBlock {
        if let lastHeaders, lastHeaders.push.sharesHeaders(with: push) { return lastHeaders.block }
        let block = self.context.encoder.block(for: push)
        self.lastHeaders = (push, block)
        self.span?.sees(topic: push.topic)
        return block
    }

    // MARK: The input

    private func pullElements(_ count: Int) {
        var left = count
        while left > 0 {
            guard self.pullOne(room: left) else { return }
            left -= 1
            // An input may take its time.
            if !self.context.lifecycle.current.takesPushes || Task.isCancelled { return self.noteInterruptions() }
        }
    }

    /// Whether an element was there.
    private func pullOne(room: Int) -> Bool {
        let index = self.attempts.number()
        let sequence = UInt64(self.progress.pulled)
        switch self.source.pull(index, room) {
        case .later:
            self.attempts.release(index)
            self.machine.inputIsEmpty()
            return false
        case .end:
            self.attempts.release(index)
            self.machine.inputIsOver()
            return false
        case .invalid(let error):
            self.context.monitor.pushes.count(.failed(error), PushCounters.otherType)
            self.ready.append((index, sequence, .failed(error)))
            self.machine.pulledInvalid()
        case .push(let push, let token, let id):
            // An input that blocks takes its own time; the deadline starts when it has given the element.
            let deadline = self.context.deadline(after: self.deadlineNanoseconds)
            self.attempts[index] = Attempt(
                push: push,
                token: token,
                history: PushHistory(id: id ?? self.context.ids.next(), deadline: deadline),
                sequence: sequence
            )
            self.machine.pulled(index, deadline: deadline)
        }
        self.progress.pulled += 1
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
                guard var history = self.attempts[item.index]?.history else { continue }
                let end = self.context.evaluate(item.result, of: self.takeRoute(item.index), &history)
                self.attempts[item.index]?.history = history
                self.learn(from: end, item.index)
                self.end(item.index, end)
            }
            self.machine.landed(items.count)
        }
    }

    private func accept(_ item: BulkCollector.Item) {
        if !self.probes.isEmpty { self.probes[item.index] = nil }
        guard let attempt = self.attempts[item.index].take() else { return }
        self.tally.add(attempt.push.pushType, to: self.context.monitor.pushes)
        self.machine.receivedResponse()
        self.tokenWorks(attempt.token)
        let receipt = item.result.receipt(id: attempt.history.id, attempts: attempt.history.attempts + 1)
        self.ready.append((item.index, attempt.sequence, .accepted(receipt)))
    }

    private func learn(from end: AttemptEnd, _ index: Int) {
        switch end {
        case .rejected(let rejection, _):
            // A refused credential says nothing of the pushes to come.
            if rejection.status != 403 { self.machine.receivedResponse() }
            self.watch(rejection, index)
        case .unknown(let code, _) where code == .connectionLost || code == .deadlineExceeded:
            self.machine.receivedNoResponse()
        case .accepted, .notSent, .notProcessed, .unknown:
            break
        }
    }

    private func watch(_ rejection: Rejection, _ index: Int) {
        guard let attempt = self.attempts[index] else { return }
        if rejection.status == 410 { self.tokenWorks(attempt.token) }
        guard MassRejectionBreaker.counts(rejection) else { return }
        self.breaker.widen(to: self.machine.inFlight)
        guard self.breaker.rejected(attempt.token) else { return }
        if self.context.massRejection.raise(self.breaker) {
            self.context.monitor.reportMassRejection(
                rejection,
                topic: attempt.push.topic,
                credential: self.context.credentialName
            )
        }
        self.hasTrippedBreaker = true
        self.machine.stop(
            self.context.suspectedMisconfiguration(rejection, topic: attempt.push.topic, breaker: self.breaker),
            mustBeTold: true
        )
    }

    private func tokenWorks(_ token: DeviceToken) {
        self.machine.tokenWorks()
        if self.breaker.isAttentive { _ = self.breaker.recordResponse(token) }
        self.context.tokenWorks(token)
    }

    /// An attempt has ended: the push is done, or waits for its next attempt.
    private func end(_ index: Int, _ end: AttemptEnd) {
        guard var attempt = self.attempts[index] else { return }
        switch self.context.decide(end, &attempt.history) {
        case .finish(let outcome):
            self.context.monitor.reportOutcome(outcome, attempt.push, attempt.token)
            self.attempts[index] = nil
            self.ready.append((index, attempt.sequence, outcome))
        case .retry(let delay):
            self.attempts[index] = attempt
            self.machine.resend(
                index,
                deadline: attempt.history.deadline,
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
