// This folder: the steps of one push, from the call to its outcome. It evaluates attempts, decides whether another one
// follows, and enforces the limits that protect APNs and the caller. Bulk calls are in Bulk, broadcasts and channel
// calls in Broadcast. Connections and the life of a stream are in Connection.

import APNSModel
import HTTP2Wire
import NIOCore
import SupervisedPool

/// Sends one request, in as many attempts as it needs, until it has an outcome. Never throws, and ends by its deadline.
///
/// The request first waits for its turn. Each attempt then takes a route, checks out a stream, sends the request and
/// evaluates the response. Another attempt follows where that is safe.
///
/// The subclasses `PushSend`, `BroadcastSend` and `ChannelCall` define the request. They conform to `RequestLoop`, which
/// requires its encoding.
///
/// The state is in an object because the locals of a suspended function stay in its task's memory. Two kilobytes for
/// each of hundreds of tasks exceed a core's cache and would cost more than all the computation. The steps are not
/// inlined for the same reason.
class SendLoop {
    fileprivate enum Step {
        case checkout
        /// A provider token must be signed first.
        case sign
        /// The attempt has already ended.
        case over
    }

    /// The parameters of a checkout.
    struct CheckoutRequest {
        var bytes = 0
        var lane = PoolLane.interactive
        var atFront: Bool
    }

    final let context: SendContext
    private let destination: SendRoute.Destination
    final let span: CallSpan?
    // Unchecked: one task owns the object, and no access begins during another one.
    @exclusivity(unchecked) final var history: PushHistory
    /// The time of the call, until an attempt or a wait begins. The first attempt uses it, because reading the clock takes
    /// as long as ten atomic operations.
    @exclusivity(unchecked) private var calledAt: MonotonicInstant?
    /// The route of the current attempt, until it has a result.
    @exclusivity(unchecked) fileprivate var route: SendRoute?
    /// When the attempt requested a stream; nil unless queue times are measured.
    @exclusivity(unchecked) private var askedAt: MonotonicInstant?
    /// The deadline for the checkout of the current attempt.
    @exclusivity(unchecked) fileprivate var checkoutDeadline = MonotonicInstant(nanoseconds: 0)
    /// How the last attempt ended.
    @exclusivity(unchecked) fileprivate var end: AttemptEnd?
    /// The version of the client's state when the attempt asked for its route.
    @exclusivity(unchecked) private var version = 0
    /// The version of the client's state in which bad weather held the attempt; nil if it did not.
    @exclusivity(unchecked) private var heldVersion: Int?
    /// The outcome, as soon as it is final.
    @exclusivity(unchecked) fileprivate var outcome: PushOutcome?

    /// - Parameter deadline: the longest time from now to the outcome; nil for the client's default.
    init(
        _ context: SendContext,
        to destination: SendRoute.Destination = .pushes,
        id: APNSID,
        deadline: Duration?,
        kind: PushHistory.Kind = .push,
        _ span: CallSpan?
    ) {
        let now = context.clock.now
        self.context = context
        self.destination = destination
        self.history = PushHistory(id: id, deadline: context.deadline(deadline, from: now), kind: kind)
        self.span = span
        self.calledAt = now
    }

    // MARK: Overridden by subclasses

    /// The plural noun for the requests, for messages.
    var noun: String { "requests" }

    /// Whether `prepare` must be called before the first attempt.
    var mustPrepare: Bool { self.context.lifecycle.current == .notStarted }

    /// Waits for the conditions of the first attempt.
    ///
    /// - Returns: the outcome if there must be no attempt; otherwise nil.
    func prepare() async -> PushOutcome? { await self.waitUntilRunning() }

    /// Returns the route of the next attempt, which may be unsigned.
    ///
    /// - Throws: the reason why nothing is sent now.
    func nextRoute(now: MonotonicInstant) throws(AttemptEnd) -> SendRoute {
        try self.context.router.next(to: self.destination, now: now)
    }

    /// The parameters of the next checkout.
    var checkoutRequest: CheckoutRequest { CheckoutRequest(atFront: self.history.isResend) }

    /// Returns the reason why the request has expired; nil if it may be sent.
    func expiry() -> AttemptEnd? { nil }

    /// Called when a stream is available. Returns the reason not to write the request; nil if it may be written.
    func claimWrite() -> AttemptEnd? { nil }

    /// Whether the request leaves the last part of the connection's send window to other requests.
    var isBulk: Bool { false }

    /// Determines how the attempt ended.
    func evaluate(_ result: StreamResult, of route: SendRoute?) -> AttemptEnd {
        self.context.evaluate(result, of: route, &self.history)
    }

    /// The outcome of a request that the client did not accept because it is shutting down.
    func refused() -> PushOutcome {
        self.fail(.shuttingDown, "the client is shutting down and takes no further \(self.noun)")
    }

    /// Called once, with the outcome.
    func finish(_ outcome: PushOutcome) { self.span?.end(outcome) }

    /// Called last, after the outcome is final.
    func leave() { self.context.lifecycle.leave() }

    // MARK: Before the first attempt and after the last

    /// - Returns: whether `leave` must be called. Otherwise, there is an outcome.
    @inline(never)
    fileprivate func enter() -> Bool {
        if self.context.lifecycle.enter() { return true }
        self.outcome = self.refused()
        return false
    }

    /// - Returns: whether there is an outcome.
    @inline(never)
    fileprivate func prepareFirstAttempt() async -> Bool {
        self.calledAt = nil
        self.outcome = await self.prepare()
        return self.outcome != nil
    }

    @inline(never)
    fileprivate func takeOutcome() -> PushOutcome {
        self.outcome.take() ?? self.fail(.internalFault, "the request ended without an outcome")
    }

    // MARK: An attempt

    /// Prepares the attempt before the checkout, because a slow signer must not hold a stream.
    @inline(never)
    fileprivate func beginAttempt() -> Step {
        if let end = self.expiry() { return self.over(end) }
        let now = self.calledAt.take() ?? self.context.clock.now
        // Read first, so that no change is missed.
        self.version = self.context.router.currentVersion
        do throws(AttemptEnd) {
            let route = try self.nextRoute(now: now)
            if !route.isUnsigned { return self.take(route, now) }
            self.route = route
            return .sign
        } catch {
            return self.over(error)
        }
    }

    /// Waits for a provider token.
    @inline(never)
    fileprivate func sign() async -> Step {
        guard let route = self.route else { return .over }
        do throws(AttemptEnd) {
            let signed = try await self.context.router.sign(route, until: self.history.deadline)
            return self.take(signed, self.context.clock.now)
        } catch {
            return self.over(error)
        }
    }

    private func take(_ route: SendRoute, _ now: MonotonicInstant) -> Step {
        if self.destination == .pushes { self.askedAt = self.context.monitor.queueTimes.begin(at: now) }
        self.checkoutDeadline = route.waitDeadline(self.history.deadline, now: now)
        self.route = route
        return .checkout
    }

    private func over(_ end: AttemptEnd) -> Step {
        self.end = end
        if case .held = end { self.heldVersion = self.version }
        return .over
    }

    /// Called with a stream checked out: renews the route, and claims the write.
    ///
    /// - Returns: whether the request should still be sent.
    @inline(never)
    fileprivate func prepareToWrite() -> Bool {
        self.context.monitor.queueTimes.end(self.askedAt, at: self.context.clock.now)
        // Whether the task is cancelled was checked by the checkout, and is checked by `ConnectionActor.send`.
        guard let end = self.expiry() ?? self.renewRoute() ?? self.claimWrite() else { return true }
        _ = self.over(end)
        return false
    }

    /// Updates the route with the current provider token if the token changed while the attempt waited.
    ///
    /// - Returns: nil if the request can be sent; otherwise the end of the attempt.
    private func renewRoute() -> AttemptEnd? {
        // Compares the version first, because retaining the route costs more.
        if let version = self.route?.version, self.context.router.isCurrent(version) { return nil }
        guard let route else { return nil }
        let now = self.context.clock.now
        self.version = self.context.router.currentVersion
        if let end = route.admitLate(now: now) { return end }
        self.route = self.context.router.renewed(route, now: now)
        // No stream is held while a token is signed.
        return self.route == nil
            ? .notSent(.connectionLost, "its provider token was replaced before it was sent", isFinal: false) : nil
    }

    @inline(never)
    fileprivate func record(_ result: StreamResult) {
        // Taken: a copy would retain it.
        self.end = self.evaluate(result, of: self.route.take())
    }

    /// Decides what follows the attempt.
    ///
    /// - Returns: the delay of the next attempt; nil if there is an outcome.
    @inline(never)
    fileprivate func conclude() -> Duration? {
        // An attempt without a result still has its route, and perhaps the right to probe a candidate credential.
        self.route.take()?.returnAdmission()
        let end = self.end ?? .notSent(.internalFault, "the attempt ended without a result", isFinal: true)
        self.end = nil
        switch self.context.decide(end, &self.history, budget: self.budget) {
        case .finish(let outcome):
            self.outcome = outcome
            self.finish(outcome)
            return nil
        case .retry(let delay):
            if self.heldVersion == nil { self.span?.retry(after: end, attempts: self.history.attempts, in: delay) }
            return delay
        }
    }

    /// The retry budget of the management host; nil: the request goes to the host for pushes.
    private var budget: RetryBudget? {
        self.destination == .pushes ? nil : self.context.credentials.latest.management.settings.retries
    }

    /// Waits before the next attempt. A push that bad weather holds goes on as soon as the weather changes.
    ///
    /// - Returns: whether there is an outcome.
    @inline(never)
    fileprivate func pause(_ time: Duration) async -> Bool {
        let clock = self.context.clock
        if time > .zero {
            let until = clock.now.advanced(by: time)
            if let version = self.heldVersion.take() {
                await self.context.router.waitForChange(since: version, until: until)
            } else {
                _ = await self.context.lifecycle.ended.wait(until: until, clock: clock)
            }
        }
        if Task.isCancelled { self.outcome = self.cancelled() }
        return self.outcome != nil
    }

    // MARK: Without an attempt

    /// - Returns: the outcome if the client is not running by the deadline or the task is cancelled; otherwise nil.
    final func waitUntilRunning() async -> PushOutcome? {
        guard self.context.lifecycle.current == .notStarted,
            await !self.context.waitUntilRunning(self.history.deadline)
        else { return nil }
        if Task.isCancelled { return self.cancelled() }
        return self.fail(.notRunning, "the client is not running: call run(), start() or withAPNSClient")
    }

    /// Finishes with an outcome, without a further attempt.
    @inline(never)
    final func fail(_ code: PushError.Code, _ message: String, retryAfter: Duration? = nil) -> PushOutcome {
        let outcome = self.history.fail(code, message, retryAfter: retryAfter)
        self.finish(outcome)
        return outcome
    }

    fileprivate func cancelled() -> PushOutcome { self.fail(.cancelled, "the sending task was cancelled") }
}

/// A `SendLoop` that can run, because it defines its request.
protocol RequestLoop: SendLoop {
    /// The encoded request.
    ///
    /// - Parameter authorization: the field with the provider token; nil if there is none.
    func request(authorization: HeaderBlock?) -> HTTP2Request
}

extension RequestLoop {
    /// Sends the request until it has an outcome.
    func run() async -> PushOutcome {
        guard self.enter() else { return self.takeOutcome() }
        var isOver = self.mustPrepare ? await self.prepareFirstAttempt() : false
        while !isOver {
            var step = self.beginAttempt()
            if step == .sign { step = await self.sign() }
            if step == .checkout { await self.checkOutAndSend() }
            isOver = if let delay = self.conclude() { await self.pause(delay) } else { true }
        }
        self.leave()
        return self.takeOutcome()
    }

    private func checkOutAndSend() async {
        guard let pool = self.route?.pool else { return }
        let request = self.checkoutRequest
        let worker: ConnectionActor
        let attempt: PushAttempt?
        do {
            let lease = try await pool.checkout(
                deadline: self.checkoutDeadline,
                bytes: request.bytes,
                lane: request.lane,
                atFront: request.atFront
            )
            worker = lease.worker
            attempt = self.attempt(lease)
        } catch {
            self.fail(checkout: error)
            return
        }
        if let attempt { self.record(await worker.send(attempt)) }
    }

    @inline(never)
    private func fail(checkout error: PoolError) { self.end = self.route?.end(error) ?? AttemptEnd(error) }

    /// Encodes the attempt for the connection. The stream moves from the lease to the attempt.
    ///
    /// - Returns: nil if the attempt has ended.
    @inline(never)
    private func attempt(_ lease: consuming PoolLease<ConnectionActor>) -> PushAttempt? {
        guard self.prepareToWrite() else { return nil }
        let submission = StreamSubmission(
            request: self.request(authorization: self.route?.authorization),
            tag: 0,
            deadline: NIODeadline(self.history.deadline),
            responseLimit: self.context.live.responseLimit,
            isBulk: self.isBulk
        )
        _ = lease.take(1)
        return PushAttempt(submission, origin: lease.origin)
    }
}
