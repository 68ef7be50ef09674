import APNSModel
import HTTP2Wire
import NIOCore
import SupervisedPool

/// One pass over the input of a bulk call. It lives in the consumer's task: `next()` pulls, encodes and hands arrays
/// of pushes to connections; their results come back in arrays through the collector.
///
/// Sending starts with the first `next()`. A run that is dropped pulls no more; what is in flight finishes. It knows
/// elements by a number only: generic code costs a user, whose module cannot specialise it, more than the sending.
@usableFromInline
final class BulkEngine {
    /// What the input gives for the element that is to be called by this number; and how many elements there is room
    /// for, this one included.
    typealias Pull = (_ index: Int, _ room: Int) -> BulkPull

    struct Flight {
        var push: PreparedPush
        var token: DeviceToken
        var history: PushHistory
        /// What it was sent with: its place in `credentials`; -1: it was not.
        var credential: Int32 = -1
        /// How many elements were pulled before it.
        var sequence: UInt64
        /// For a retry: not before this instant.
        var notBefore = MonotonicInstant(nanoseconds: 0)
    }

    /// Elements pulled at once.
    private static let batchSize = BulkGroups.groupSize
    /// Pushes under way until a first one shows that environment and topic are right.
    private static let firstInFlight = 500

    let core: ClientCore
    let options: BulkOptions
    let collector = BulkCollector()
    private let pull: Pull
    /// Told that no further element will be asked for, but those that were pulled for us.
    private let closeInput: () -> Void
    private let deadlineNanoseconds: Int64
    private var ids = IDSource.Generator()

    let flights = Slab<Flight>()
    // Unchecked, here and below: confined to the consumer's task, and nothing that an access calls comes back here.
    /// Pulled, without a stream yet; the next batch.
    @exclusivity(unchecked) var waiting: [Int] = []
    /// To be sent again when their time has come.
    private var resends: [Int] = []
    private var inFlight = 0
    /// What pushes were sent with; one more every 50 minutes, with the next provider token.
    private var credentials: [PushCredential] = []
    /// The pushes that try a new credential: they alone keep their claim.
    private var trials: [Int: PushCredential] = [:]
    /// The pool that has been asked for slots and has not answered: a call is one waiter at a time.
    private var asked: (pool: Pool<ConnectionActor>, ticket: PoolTicket, credential: PushCredential)?
    /// When that was, if somebody wants to know.
    private var askedAt: MonotonicInstant?
    /// The earliest deadline of a resent push that waits while the pool is asked.
    private var resendExpiry = MonotonicInstant.distantFuture
    private var wakeUp = NIODeadline.uptimeNanoseconds(0)
    private var isInputClosed = false
    private var isInputOver = false
    private var hasEntered = false
    private var hasHeardOfCancellation = false
    private var isOver = false

    @exclusivity(unchecked) private var ready: [(index: Int, sequence: UInt64, outcome: PushOutcome)] = []
    private var readyPosition = 0
    private var tally = AcceptedTally()
    /// Nil: nobody traces.
    private var span: BulkSpan?
    /// The fields of the last push, which the next one shares most often.
    private var lastHeaders: (push: PreparedPush, block: HeaderBlock)?

    private var breaker: MassRejectionBreaker
    private var limit: Int
    /// The breaker opened: how that ends which is not on the wire. At least one element says it.
    private var stopped: AttemptEnd?
    private var hasSaidWhy = false

    private let control: BulkControl
    private var ordersVersion = -1
    private var orders: BulkControl.Orders
    private var limiter: RateLimiter?
    @exclusivity(unchecked) private var progress = BulkProgress()
    @exclusivity(unchecked) private var prefix = CompletedPrefix()
    /// The element whose outcome the consumer has, until it asks for the next.
    private var handedOut: UInt64?

    init(
        core: ClientCore,
        options: BulkOptions,
        control: BulkControl,
        pull: @escaping Pull,
        closeInput: @escaping () -> Void
    ) {
        self.core = core
        self.options = options
        self.control = control
        self.orders = control.orders
        self.pull = pull
        self.closeInput = closeInput
        self.breaker = MassRejectionBreaker(limits: options.breaker ?? core.configuration.massRejection)
        self.limit = min(options.maxInFlight, Self.firstInFlight)
        self.deadlineNanoseconds =
            options.deadline.map { TimeAmount($0).nanoseconds } ?? core.live.deadlineNanoseconds
    }

    deinit {
        self.giveUpCheckout()
        self.closeInput()
        self.control.forget(ObjectIdentifier(self.collector))
        self.tellProgress()
        self.span?.end(.left)
        guard self.hasEntered, !self.isOver else { return }
        // A drain waits for what is in flight.
        self.collector.abandon(expecting: self.inFlight) { [core] in core.lifecycle.leave(.bulk) }
    }

    // MARK: The consumer

    /// An outcome that is there already, and the number of its element, which may be another's from the next call on.
    @usableFromInline
    func takeReady() -> (index: Int, outcome: PushOutcome)? {
        if let done = self.handedOut {
            self.handedOut = nil
            self.prefix.complete(done)
        }
        guard self.readyPosition < self.ready.count else { return nil }
        let delivery = self.ready[self.readyPosition]
        self.readyPosition += 1
        self.handedOut = delivery.sequence
        self.flights.release(delivery.index)
        self.progress.outcomes.count(delivery.outcome.certainty)
        return (delivery.index, delivery.outcome)
    }

    /// The next outcome; nil at the end.
    @usableFromInline
    func next() async -> (index: Int, outcome: PushOutcome)? {
        while true {
            if let delivery = self.takeReady() { return delivery }
            self.ready.removeAll(keepingCapacity: true)
            self.readyPosition = 0
            if self.isOver { return nil }
            if !self.hasEntered {
                self.enter()
                if self.isOver { return nil }
            }
            self.takeResults()
            let hasChanged = await self.fill()
            self.tellProgress()
            if hasChanged || !self.ready.isEmpty { continue }
            if self.isInputOver, self.inFlight == 0, self.waiting.isEmpty, self.resends.isEmpty {
                self.isOver = true
                self.giveUpCheckout()
                self.span?.end(self.spanEnd)
                self.core.lifecycle.leave(.bulk)
                return nil
            }
            // What is in flight ends by itself; what waits for the pool, the input or the rate must hear of a
            // cancellation. Once: a handler in a task that is cancelled runs at once, and the call would take its thread
            // from those that it waits for.
            if Task.isCancelled {
                if self.hasHeardOfCancellation { await self.collector.wait() }
                self.hasHeardOfCancellation = true
                continue
            }
            await withTaskCancellationHandler {
                await self.collector.wait()
            } onCancel: { [collector] in
                collector.poke()
            }
        }
    }

    private func tellProgress() {
        self.progress.unfinished = self.waiting.count + self.inFlight + self.resends.count
        self.progress.completedPrefix = Int(clamping: self.prefix.count)
        self.control.report(self.progress)
        self.span?.note(self.progress)
        self.tally.flush(to: self.core.observer.pushes)
    }

    private func enter() {
        self.hasEntered = true
        if self.core.lifecycle.enter(.bulk) {
            self.span = self.core.tracing.bulk()
            self.control.listen(self.collector) { [collector] in collector.poke() }
        } else {
            // The client is shutting down: nothing was pulled, so there is nothing to say an outcome of.
            self.isOver = true
            self.closeInput()
        }
    }

    // MARK: Out

    /// Pulls, and hands one batch to a connection. True if something was done that may have changed the picture.
    private func fill() async -> Bool {
        self.admitResends()
        self.pullElements()
        if self.asked != nil, let answer = self.collector.takeAnswer() {
            return self.use(answer)
        }
        guard !self.waiting.isEmpty else { return false }
        if self.core.lifecycle.current == .notStarted { await self.waitForRun() }
        if let end = self.interruption() {
            self.endWaiting(end)
            return true
        }
        if self.asked != nil {
            if self.core.clock.now >= self.resendExpiry {
                self.expireWaiting()
                self.resendExpiry = .distantFuture
                self.watchDeadlines(of: self.waiting)
            }
            return !self.ready.isEmpty
        }
        guard let first = self.waiting.first else { return true }
        let deadline = self.flights[first]?.history.deadline ?? self.core.clock.now
        switch await self.core.credential(until: deadline) {
        case .failure(let failure):
            self.endWaiting(failure.end)
            return true
        case .success(let credential):
            return await self.checkOut(credential, deadline: deadline)
        }
    }

    /// Asks the pool. Its answer may come later, together with results.
    private func checkOut(_ credential: PushCredential, deadline: MonotonicInstant) async -> Bool {
        if let end = self.core.credentialFault(credential) {
            self.endWaiting(end)
            return true
        }
        let pool = credential.scope.pool
        self.askedAt = self.core.observer.queueTimes.begin(self.core.clock)
        let start = await pool.startCheckout(
            wanted: credential.limit(self.waiting.count),
            deadline: credential.slotDeadline(deadline, now: self.core.clock.now),
            lane: PoolLane(self.options.lane)
        ) { [collector] answer in
            collector.answer(answer, from: pool)
        }
        switch start {
        case .granted(let grant):
            self.core.observer.queueTimes.end(self.askedAt, self.core.clock)
            self.submit(grant, credential, pool)
        case .failed(let error):
            self.endWaiting(credential.end(error))
        case .waiting(let ticket):
            self.asked = (pool, ticket, credential)
            self.resendExpiry = .distantFuture
        }
        return true
    }

    private func use(_ answer: BulkCollector.Answer) -> Bool {
        guard let (pool, _, credential) = self.asked else { return true }
        self.asked = nil
        switch answer {
        case .failure(let error):
            self.endWaiting(credential.end(error))
        case .success(let grant):
            self.core.observer.queueTimes.end(self.askedAt, self.core.clock)
            guard let credential = credential.renewed(now: self.core.clock.now) else {
                // The token ran out meanwhile: no slot is held while one is signed.
                pool.checkin(grant.grant, count: grant.count)
                return true
            }
            self.submit(grant, credential, pool)
        }
        return true
    }

    /// Hands the first waiting pushes to the connection, as many as there are slots; those that are not to be sent any
    /// more end here.
    private func submit(
        _ grant: PoolGrant<ConnectionActor>,
        _ credential: PushCredential,
        _ pool: Pool<ConnectionActor>
    ) {
        // While the credential is refused what was admitted is a probe: one push.
        let slots = credential.limit(grant.count)
        let now = self.core.clock.now
        let loopNow = NIODeadline.now()
        let credentialIndex = self.remember(credential)
        var batches = BatchBuilder(
            grant,
            collector: self.collector,
            authorization: credential.authorization,
            isBulk: self.options.lane == .bulk,
            room: min(self.waiting.count, slots)
        )
        var taken = 0
        while taken < self.waiting.count, batches.count < slots {
            let index = self.waiting[taken]
            taken += 1
            guard let push = self.flights[index]?.push, self.mayBeSent(index, push, now),
                let token = self.flights[index]?.token, let id = self.flights[index]?.history.id,
                let deadline = self.flights[index]?.history.deadline
            else { continue }
            self.flights[index]?.credential = credentialIndex
            if credential.isTrial { self.trials[index] = credential }
            batches.add(
                index,
                push,
                self.headerBlock(push),
                to: token,
                id: id,
                deadline: self.core.loopDeadline(deadline, now: now, loopNow: loopNow)
            )
        }
        batches.finish()
        self.waiting.removeFirst(taken)
        self.inFlight += batches.count
        pool.checkin(grant.grant, count: grant.count - batches.count)
    }

    private func mayBeSent(_ index: Int, _ push: PreparedPush, _ now: MonotonicInstant) -> Bool {
        if let refusal = self.core.refusal(push) {
            self.end(index, refusal)
            return false
        }
        if let deadline = self.flights[index]?.history.deadline, deadline <= now {
            self.end(index, .notSent(.deadlineExceeded, "the deadline came before it was sent", isFinal: true))
            return false
        }
        return true
    }

    private func remember(_ credential: PushCredential) -> Int32 {
        if credential.isTrial { return -1 }
        if self.credentials.last?.isIdentical(to: credential) != true { self.credentials.append(credential) }
        return Int32(truncatingIfNeeded: self.credentials.count - 1)
    }

    /// What the push was sent with, whose result is here.
    private func takeCredential(_ index: Int) -> PushCredential? {
        if !self.trials.isEmpty, let trial = self.trials.removeValue(forKey: index) { return trial }
        guard let place = self.flights[index]?.credential, place >= 0 else { return nil }
        return self.credentials[Int(place)]
    }

    /// The call has ended; slots that still come go back.
    private func giveUpCheckout() {
        guard let asked else { return }
        self.asked = nil
        self.collector.refuseAnswers(from: asked.pool)
        asked.pool.withdraw(asked.ticket)
    }

    /// The shared fields; a push that goes to many has the last one's, with its own badge as well.
    private func headerBlock(_ push: PreparedPush) -> HeaderBlock {
        if let lastHeaders, lastHeaders.push.sharesHeaders(with: push) { return lastHeaders.block }
        let block = self.core.encoder.block(for: push)
        self.lastHeaders = (push, block)
        self.span?.sees(topic: push.topic)
        return block
    }

    // MARK: The input

    private func pullElements() {
        guard !self.isInputOver else { return }
        let unfinished = self.inFlight + self.resends.count
        var room = min(Self.batchSize, self.limit - unfinished) - self.waiting.count
        if self.stopped != nil {
            // Somebody must say why the run ends: what waits, or else one element more.
            let isSaid = self.hasSaidWhy || !self.waiting.isEmpty
            if isSaid { self.endInput() }
            room = isSaid ? Self.batchSize : 1
        }
        guard room > 0 else { return }
        self.readOrders()
        if self.orders.isStopped || !self.core.lifecycle.current.takesPushes || Task.isCancelled { self.endInput() }
        if self.orders.isPaused, !self.isInputClosed { return }
        let allowed = self.paced(room)
        var left = allowed
        while left > 0 {
            guard self.pullOne(room: left) else { break }
            left -= 1
            if !self.core.lifecycle.current.takesPushes || Task.isCancelled { self.endInput() }
        }
        if left > 0 { self.limiter?.giveBack(left) }
    }

    /// Whether an element was there.
    private func pullOne(room: Int) -> Bool {
        let index = self.flights.number()
        let sequence = UInt64(self.progress.pulled)
        switch self.pull(index, room) {
        case .later:
            self.flights.release(index)
            return false
        case .end:
            self.flights.release(index)
            self.isInputOver = true
            return false
        case .invalid(let error):
            self.core.observer.pushes.count(.failed(error), PushCounters.otherType)
            self.ready.append((index, sequence, .failed(error)))
        case .push(let push, let token, let id):
            // An input that blocks takes its own time; the deadline starts when it has given the element.
            let deadline = self.core.clock.now.nanoseconds.addingReportingOverflow(self.deadlineNanoseconds)
            self.flights[index] = Flight(
                push: push,
                token: token,
                history: PushHistory(
                    id: id ?? APNSID.random(using: &self.ids),
                    deadline: MonotonicInstant(nanoseconds: deadline.overflow ? .max : deadline.partialValue)
                ),
                sequence: sequence
            )
            self.waiting.append(index)
        }
        self.progress.pulled += 1
        return true
    }

    /// No further element is asked for. One that an input of its own task has pulled already is still a push.
    private func endInput() {
        guard !self.isInputClosed else { return }
        self.isInputClosed = true
        self.closeInput()
    }

    private func readOrders() {
        let version = self.control.currentVersion
        guard version != self.ordersVersion else { return }
        self.ordersVersion = version
        self.orders = self.control.orders
        if self.limiter?.rate != self.orders.rate {
            self.limiter = self.orders.rate.map { RateLimiter($0, now: self.core.clock.now) }
        }
    }

    /// How many of `room` elements the rate allows now; with none it arms a wake-up.
    private func paced(_ room: Int) -> Int {
        guard self.limiter != nil, !self.isInputClosed else { return room }
        let now = self.core.clock.now
        let allowed = self.limiter?.take(upTo: room, now: now) ?? room
        if allowed < room, let next = self.limiter?.next(now: now) { self.wake(in: TimeAmount(now.duration(to: next))) }
        return allowed
    }

    private func waitForRun() async {
        let deadline = self.waiting.first.flatMap { self.flights[$0]?.history.deadline }
        if await !self.core.waitUntilRunning(deadline ?? self.core.clock.now) {
            self.endWaiting(.notSent(.notRunning, "nobody runs the client: call run() or start()", isFinal: true))
        }
    }

    // MARK: In

    private func takeResults() {
        for items in self.collector.take() {
            for item in items {
                if item.result.isAccepted {
                    self.accept(item)
                    continue
                }
                guard var history = self.flights[item.index]?.history else { continue }
                let credential = self.takeCredential(item.index)
                let end = self.core.read(item.result, credential: credential, history: &history)
                self.flights[item.index]?.history = history
                if case .rejected(let rejection, _) = end { self.watch(rejection, item.index) }
                self.end(item.index, end)
            }
            self.inFlight -= items.count
        }
    }

    private func accept(_ item: BulkCollector.Item) {
        if !self.trials.isEmpty { self.trials[item.index] = nil }
        guard let flight = self.flights[item.index].take() else { return }
        self.tally.add(flight.push.pushType, to: self.core.observer.pushes)
        self.tokenWorks(flight.token)
        let receipt = item.result.receipt(id: flight.history.id, attempts: flight.history.attempts + 1)
        self.ready.append((item.index, flight.sequence, .accepted(receipt)))
    }

    private func watch(_ rejection: Rejection, _ index: Int) {
        guard let flight = self.flights[index] else { return }
        if rejection.status == 410 { self.tokenWorks(flight.token) }
        guard MassRejectionBreaker.counts(rejection) else { return }
        self.breaker.widen(to: self.inFlight)
        guard self.breaker.rejected(flight.token) else { return }
        if self.core.massRejection.raise(self.breaker) {
            self.core.tellMassRejection(rejection, topic: flight.push.topic)
        }
        self.stopped = self.core.suspectedMisconfiguration(
            rejection,
            topic: flight.push.topic,
            breaker: self.breaker
        )
    }

    private func tokenWorks(_ token: DeviceToken) {
        self.limit = self.options.maxInFlight
        if self.breaker.isAttentive { _ = self.breaker.answered(token) }
        self.core.tokenWorks(token)
    }

    /// A try has ended: the push is done, or waits for its next.
    private func end(_ index: Int, _ end: AttemptEnd) {
        guard var flight = self.flights[index] else { return }
        switch self.core.next(end, &flight.history) {
        case .finish(let outcome):
            self.core.tellInvalid(outcome, flight.push, flight.token)
            self.core.ended(outcome, flight.push, flight.token)
            self.finish(index, outcome)
        case .retry(let delay):
            flight.notBefore = self.core.clock.now.advanced(by: delay)
            self.flights[index] = flight
            self.resends.append(index)
            self.span?.countResend()
        }
    }

    /// Why nothing more is sent. A cancelled consumer gets what is in flight, and the end.
    private func interruption() -> AttemptEnd? {
        if Task.isCancelled { return .notSent(.cancelled, "the sending task was cancelled", isFinal: true) }
        return self.stopped ?? self.core.interruption()
    }

    private var spanEnd: BulkSpan.End {
        if self.stopped != nil { return .suspectedMisconfiguration }
        if Task.isCancelled { return .cancelled }
        return self.control.isStopped ? .stopped : .finished
    }

    private func endWaiting(_ end: AttemptEnd) {
        if case .notSent(.deadlineExceeded, _, _, _) = end {
            // The deadline of the first, which a resent push may have brought: each has its own.
            self.expireWaiting(end)
            return
        }
        if self.stopped != nil, !self.waiting.isEmpty { self.hasSaidWhy = true }
        let waiting = self.waiting
        self.waiting = []
        for index in waiting { self.end(index, end) }
    }

    private func expireWaiting(
        _ end: AttemptEnd = .notSent(.deadlineExceeded, "the deadline came before it was sent", isFinal: true)
    ) {
        let now = self.core.clock.now
        let expired = self.waiting.filter { (self.flights[$0]?.history.deadline ?? now) <= now }
        guard !expired.isEmpty else { return }
        self.waiting.removeAll { expired.contains($0) }
        for index in expired { self.end(index, end) }
    }

    /// Puts the retries whose time has come before all that waits, and arms a wake-up for the others.
    private func admitResends() {
        guard !self.resends.isEmpty else { return }
        let now = self.core.clock.now
        let isOver = self.interruption() != nil
        var later: [Int] = []
        var due: [Int] = []
        var next = MonotonicInstant.distantFuture
        for index in self.resends {
            guard let notBefore = self.flights[index]?.notBefore else { continue }
            if isOver || notBefore <= now {
                due.append(index)
            } else {
                later.append(index)
                next = min(next, notBefore)
            }
        }
        self.waiting.insert(contentsOf: due, at: 0)
        if self.asked != nil { self.watchDeadlines(of: due) }
        self.resends = later
        if !later.isEmpty { self.wake(in: TimeAmount(now.duration(to: next))) }
    }

    /// The pool knows only the deadline of the push that stood first when it was asked.
    private func watchDeadlines(of indices: [Int]) {
        guard !indices.isEmpty else { return }
        for index in indices {
            guard let deadline = self.flights[index]?.history.deadline else { continue }
            self.resendExpiry = min(self.resendExpiry, deadline)
        }
        self.wake(in: TimeAmount(max(.zero, self.core.clock.now.duration(to: self.resendExpiry))))
    }

    /// Wakes the consumer's task after `time`, unless it is to be woken before.
    private func wake(in time: TimeAmount) {
        let now = NIODeadline.now()
        guard self.wakeUp <= now || self.wakeUp > now + time else { return }
        self.wakeUp = now + time
        self.core.group.any().scheduleTask(deadline: self.wakeUp) { [collector] in collector.poke() }
    }

    private func finish(_ index: Int, _ outcome: PushOutcome) {
        guard let flight = self.flights[index].take() else { return }
        self.ready.append((index, flight.sequence, outcome))
    }
}
