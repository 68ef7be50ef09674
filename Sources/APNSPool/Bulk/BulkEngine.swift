import APNSModel
import HTTP2Wire
import NIOCore
import SupervisedPool

/// One pass over the input of a bulk call. It lives in the consumer's task: `next()` pulls, encodes and hands arrays
/// of pushes to connections; their results come back in arrays through the collector.
///
/// Sending starts with the first `next()`. A run that is dropped pulls no more; what is in flight finishes. It knows
/// elements by a number only: generic code costs a user, whose module cannot specialise it, more than the sending.
final class BulkEngine {
    /// What the input gave for the element that is to be called by this number, or why it is no push; nil at the end.
    typealias Pull = (Int) -> Result<(PreparedPush, DeviceToken), PushError>?

    private struct Flight {
        var push: PreparedPush
        var token: DeviceToken
        var history: PushHistory
        var credential: PushCredential?
        /// For a retry: not before this instant.
        var notBefore: MonotonicInstant
    }

    /// Pushes handed to a connection at once.
    private static let batchSize = 64
    /// Pushes under way until a first one shows that environment and topic are right.
    private static let firstInFlight = 500

    private let core: ClientCore
    private let options: BulkOptions
    private let collector = BulkCollector()
    private let pull: Pull
    private let deadlineNanoseconds: Int64
    private var ids = IDSource.Generator()

    private var flights: [Flight?] = []
    /// Numbers that no element has; one is given back when the element's outcome is handed out.
    private var freeFlights: [Int] = []
    /// Pulled, without a stream yet; the next batch.
    private var waiting: [Int] = []
    /// To be sent again when their time has come.
    private var resends: [Int] = []
    private var inFlight = 0
    /// The pool that has been asked for slots and has not answered: a call is one waiter at a time.
    private var asked: (pool: Pool<ConnectionActor>, ticket: PoolTicket, credential: PushCredential)?
    /// The earliest deadline of a resent push that waits while the pool is asked.
    private var resendExpiry = MonotonicInstant.distantFuture
    private var wakeUp = NIODeadline.uptimeNanoseconds(0)
    private var isInputOver = false
    private var hasEntered = false
    private var isOver = false

    private var ready: [(index: Int, outcome: PushOutcome)] = []
    private var readyPosition = 0
    private var items: [BulkCollector.Item] = []
    private var block: (PreparedPush, HeaderBlock)?

    private var breaker: MassRejectionBreaker
    private var limit: Int
    /// The breaker opened: how that ends which is not on the wire. At least one element says it.
    private var stopped: AttemptEnd?
    private var hasSaidWhy = false

    init(core: ClientCore, options: BulkOptions, pull: @escaping Pull) {
        self.core = core
        self.options = options
        self.pull = pull
        self.breaker = MassRejectionBreaker(limits: options.breaker ?? core.configuration.massRejection)
        self.limit = min(options.maxInFlight, Self.firstInFlight)
        self.deadlineNanoseconds = TimeAmount(options.deadline ?? core.configuration.timeouts.deadline).nanoseconds
    }

    deinit {
        self.giveUpCheckout()
        guard self.hasEntered, !self.isOver else { return }
        // A drain waits for what is in flight.
        self.collector.abandon(expecting: self.inFlight) { [core] in core.lifecycle.leave(.bulk) }
    }

    /// The next outcome, and the number of its element, which may be another's from the next call on.
    func next() async -> (index: Int, outcome: PushOutcome)? {
        while true {
            if self.readyPosition < self.ready.count {
                let delivery = self.ready[self.readyPosition]
                self.readyPosition += 1
                self.freeFlights.append(delivery.index)
                return delivery
            }
            self.ready.removeAll(keepingCapacity: true)
            self.readyPosition = 0
            if self.isOver { return nil }
            if !self.hasEntered {
                self.enter()
                if self.isOver { return nil }
            }

            self.takeResults()
            if await self.fill() { continue }
            if !self.ready.isEmpty { continue }
            if self.isInputOver, self.inFlight == 0, self.waiting.isEmpty, self.resends.isEmpty {
                self.isOver = true
                self.giveUpCheckout()
                self.core.lifecycle.leave(.bulk)
                return nil
            }
            if self.asked == nil || self.waiting.isEmpty {
                await self.collector.wait()
            } else {
                // What is in flight ends by itself; what waits for the pool must hear of a cancellation.
                await withTaskCancellationHandler {
                    await self.collector.wait()
                } onCancel: { [collector] in
                    collector.poke()
                }
            }
        }
    }

    // MARK: Out

    private func enter() {
        self.hasEntered = true
        if self.core.lifecycle.enter(.bulk) { return }
        // The client is shutting down: nothing was pulled, so there is nothing to say an outcome of.
        self.isOver = true
    }

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
        let start = await pool.startCheckout(
            wanted: credential.limit(self.waiting.count),
            deadline: credential.slotDeadline(deadline, now: self.core.clock.now),
            lane: PoolLane(self.options.lane)
        ) { [collector] answer in
            collector.answer(answer, from: pool)
        }
        switch start {
        case .granted(let grant):
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
            guard let credential = credential.renewed(now: self.core.clock.now) else {
                // The token ran out meanwhile: no slot is held while one is signed.
                pool.checkin(grant.grant, count: grant.count)
                return true
            }
            self.submit(grant, credential, pool)
        }
        return true
    }

    private func submit(
        _ grant: PoolGrant<ConnectionActor>,
        _ credential: PushCredential,
        _ pool: Pool<ConnectionActor>
    ) {
        // While the credential is refused what was admitted is a probe: one push.
        let count = credential.limit(grant.count)
        let batch = self.batch(count: count, credential: credential, grant: grant.grant)
        pool.checkin(grant.grant, count: grant.count - batch.count)
        guard !batch.isEmpty else { return }
        self.inFlight += batch.count
        grant.worker.send(batch)
    }

    /// The call has ended; slots that still come go back.
    private func giveUpCheckout() {
        guard let asked else { return }
        self.asked = nil
        self.collector.refuseAnswers(from: asked.pool)
        asked.pool.withdraw(asked.ticket)
    }

    /// The requests of the first `count` waiting pushes; those that are not to be sent any more end here.
    private func batch(count: Int, credential: PushCredential, grant: SlotGrant) -> [PushSubmission] {
        var batch: [PushSubmission] = []
        batch.reserveCapacity(count)
        var taken = 0
        let now = self.core.clock.now
        let loopNow = NIODeadline.now()
        while taken < self.waiting.count, batch.count < count {
            let index = self.waiting[taken]
            taken += 1
            guard let flight = self.flights[index] else { continue }
            if let refusal = self.core.refusal(flight.push) {
                self.end(index, refusal)
                continue
            }
            if flight.history.deadline <= now {
                self.end(index, .notSent(.deadlineExceeded, "the deadline came before it was sent", isFinal: true))
                continue
            }
            self.flights[index]?.credential = credential
            let request = self.core.encoder.request(
                flight.push,
                block: self.headerBlock(flight.push),
                to: flight.token,
                id: flight.history.id,
                credential: credential.authorization
            )
            batch.append(
                PushSubmission(
                    request: request,
                    deadline: self.core.loopDeadline(flight.history.deadline, now: now, loopNow: loopNow),
                    ticket: 0,
                    receiver: .bulk(self.collector, index: index, grant),
                    isBulk: self.options.lane == .bulk
                )
            )
        }
        self.waiting.removeFirst(taken)
        return batch
    }

    /// The shared fields; a prepared push that goes to many has the last one's.
    private func headerBlock(_ push: PreparedPush) -> HeaderBlock {
        if let (last, block) = self.block, last.isIdentical(to: push) { return block }
        let block = self.core.encoder.block(for: push)
        self.block = (push, block)
        return block
    }

    private func pullElements() {
        guard !self.isInputOver else { return }
        let unfinished = self.inFlight + self.resends.count
        var room = min(Self.batchSize, self.limit - unfinished) - self.waiting.count
        if self.stopped != nil {
            // Somebody must say why the run ends: what waits, or else one element more.
            room = self.hasSaidWhy || !self.waiting.isEmpty ? 0 : 1
            if room == 0 { self.isInputOver = true }
        }
        while room > 0 {
            let index = self.number()
            guard self.core.lifecycle.current.takesPushes, !Task.isCancelled, let pulled = self.pull(index) else {
                self.freeFlights.append(index)
                self.isInputOver = true
                return
            }
            room -= 1
            switch pulled {
            case .failure(let error):
                self.ready.append((index, .failed(error)))
            case .success(let (push, token)):
                // An input that blocks takes its own time; the deadline starts when it has given the element.
                let deadline = self.core.clock.now.nanoseconds.addingReportingOverflow(self.deadlineNanoseconds)
                let history = PushHistory(
                    id: APNSID.random(using: &self.ids),
                    deadline: MonotonicInstant(nanoseconds: deadline.overflow ? .max : deadline.partialValue)
                )
                self.flights[index] = Flight(
                    push: push,
                    token: token,
                    history: history,
                    credential: nil,
                    notBefore: MonotonicInstant(nanoseconds: 0)
                )
                self.waiting.append(index)
            }
        }
    }

    private func waitForRun() async {
        let deadline = self.waiting.first.flatMap { self.flights[$0]?.history.deadline }
        if await !self.core.waitUntilRunning(deadline ?? self.core.clock.now) {
            self.endWaiting(.notSent(.notRunning, "nobody runs the client: call run() or start()", isFinal: true))
        }
    }

    // MARK: In

    private func takeResults() {
        self.collector.take(into: &self.items)
        guard !self.items.isEmpty else { return }
        for item in self.items {
            if item.result.isAccepted {
                self.accept(item)
                continue
            }
            guard var history = self.flights[item.index]?.history else { continue }
            let end = self.core.read(
                item.result,
                credential: self.flights[item.index]?.credential,
                history: &history
            )
            self.flights[item.index]?.history = history
            if case .rejected(let rejection, _) = end { self.watch(rejection, item.index) }
            self.end(item.index, end)
        }
        self.inFlight -= self.items.count
        self.items.removeAll(keepingCapacity: true)
    }

    private func accept(_ item: BulkCollector.Item) {
        guard let flight = self.flights[item.index].take() else { return }
        self.tokenWorks(flight.token)
        let receipt = item.result.receipt(id: flight.history.id, attempts: flight.history.attempts + 1)
        self.ready.append((item.index, .accepted(receipt)))
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
            self.finish(index, outcome)
        case .retry(let delay):
            flight.notBefore = self.core.clock.now.advanced(by: delay)
            self.flights[index] = flight
            self.resends.append(index)
        }
    }

    /// Why nothing more is sent. A cancelled consumer gets what is in flight, and the end.
    private func interruption() -> AttemptEnd? {
        if Task.isCancelled { return .notSent(.cancelled, "the sending task was cancelled", isFinal: true) }
        return self.stopped ?? self.core.interruption()
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
        guard self.flights[index] != nil else { return }
        self.flights[index] = nil
        self.ready.append((index, outcome))
    }

    private func number() -> Int {
        if let index = self.freeFlights.popLast() { return index }
        self.flights.append(nil)
        return self.flights.count - 1
    }
}

extension ClientLifecycle.State {
    var takesPushes: Bool { self == .running || self == .notStarted }
}
