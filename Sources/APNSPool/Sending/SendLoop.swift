// This folder: the steps of one push, from the call to its outcome. It evaluates attempts, decides whether another one
// follows, and enforces the limits that protect APNs and the caller. Bulk calls are in Bulk, broadcasts and channel
// calls in Broadcast. Connections and the life of a stream are in Connection.

import APNSModel
import APNSTransport
import NIOCore
import SupervisedPool

/// What a `SendLoop` sends: a push, a broadcast, a call about channels, or the probe of a credential.
protocol SendRequest {
    /// The plural noun for the requests, for messages.
    static var noun: String { get }
    /// The host that the requests go to.
    static var destination: SendRoute.Destination { get }

    /// The bytes that count towards the pool's queue while the request waits.
    var bytes: Int { get }
    var lane: PoolLane { get }

    /// Returns the route of the next attempt, which may be unsigned.
    ///
    /// - Throws: the reason why nothing is sent now.
    mutating func nextRoute(_ router: SendRouter, now: MonotonicInstant) throws(AttemptEnd) -> SendRoute

    /// Returns the reason why the request has expired; nil if it may be sent.
    func expiry(_ context: SendContext) -> AttemptEnd?

    /// Encodes the request.
    ///
    /// - Parameter authorization: the field with the provider token; nil if there is none.
    mutating func encode(id: APNSID, authorization: HeaderBlock?, _ context: SendContext) -> HTTP2Request

    /// Determines how an attempt ended.
    mutating func evaluate(
        _ result: StreamResult,
        of route: SendRoute?,
        _ history: inout PushHistory,
        _ context: SendContext
    ) -> AttemptEnd

    /// Called once, with the outcome.
    func finish(_ outcome: PushOutcome, _ span: CallSpan?, _ context: SendContext)
}

extension SendRequest {
    static var destination: SendRoute.Destination { .pushes }
    var lane: PoolLane { .interactive }

    func nextRoute(_ router: SendRouter, now: MonotonicInstant) throws(AttemptEnd) -> SendRoute {
        try router.next(to: Self.destination, now: now)
    }

    func expiry(_ context: SendContext) -> AttemptEnd? { nil }

    func evaluate(
        _ result: StreamResult,
        of route: SendRoute?,
        _ history: inout PushHistory,
        _ context: SendContext
    ) -> AttemptEnd {
        context.evaluate(result, of: route, &history)
    }

    func finish(_ outcome: PushOutcome, _ span: CallSpan?, _ context: SendContext) { span?.end(outcome) }
}

/// Sends one request, in as many attempts as it needs, until it has an outcome. Never throws, and ends by its deadline.
///
/// Each attempt takes a route, checks out a stream, sends the request and evaluates the response. Another attempt
/// follows where that is safe.
///
/// The state is in an object because the locals of a suspended function stay in its task's memory. Two kilobytes for
/// each of hundreds of tasks exceed a core's cache and would cost more than all the computation. The steps are not
/// inlined for the same reason.
final class SendLoop<Request: SendRequest> {
    private enum Step {
        case checkout
        /// A provider token must be signed first.
        case sign
        /// The attempt has already ended.
        case over
    }

    private let context: SendContext
    private let span: CallSpan?
    // Unchecked, here and below: one task owns the object, and no access begins during another one.
    @exclusivity(unchecked) private(set) var request: Request
    @exclusivity(unchecked) private(set) var history: PushHistory
    /// The time of the call, until an attempt or a wait begins. The first attempt uses it, because reading the clock takes
    /// as long as ten atomic operations.
    @exclusivity(unchecked) private var calledAt: MonotonicInstant?
    /// The route of the current attempt, until it has a result.
    @exclusivity(unchecked) private var route: SendRoute?
    /// When the attempt requested a stream; nil unless queue times are measured.
    @exclusivity(unchecked) private var askedAt: MonotonicInstant?
    /// How the last attempt ended.
    @exclusivity(unchecked) private var end: AttemptEnd?
    /// The version of the client's state when the attempt asked for its route.
    @exclusivity(unchecked) private var version = 0
    /// The version of the client's state in which bad weather held the attempt; nil if it did not.
    @exclusivity(unchecked) private var heldVersion: Int?
    /// The outcome, as soon as it is final.
    @exclusivity(unchecked) private var outcome: PushOutcome?

    /// - Parameter deadline: the longest time from now to the outcome; nil for the client's default.
    @inline(never)
    init(
        _ request: Request,
        _ context: SendContext,
        id: APNSID,
        deadline: Duration?,
        kind: PushHistory.Kind = .push,
        _ span: CallSpan?
    ) {
        let now = context.clock.now
        self.request = request
        self.context = context
        self.history = PushHistory(id: id, deadline: context.deadline(deadline, from: now), kind: kind)
        self.span = span
        self.calledAt = now
    }

    /// Sends the request until it has an outcome.
    func run() async -> PushOutcome {
        guard self.enter() else { return self.takeOutcome() }
        var isOver = self.context.lifecycle.current == .notStarted ? await self.waitUntilRunning() : false
        while !isOver {
            var step = self.beginAttempt()
            if step == .sign { step = await self.sign() }
            if step == .checkout { await self.checkOutAndSend() }
            isOver = if let delay = self.conclude() { await self.pause(delay) } else { true }
        }
        self.context.lifecycle.leave()
        return self.takeOutcome()
    }

    // MARK: Before the first attempt and after the last

    /// - Returns: whether the client has accepted the request. Otherwise, there is an outcome.
    @inline(never)
    private func enter() -> Bool {
        if self.context.lifecycle.enter() { return true }
        self.fail(.shuttingDown, "the client is shutting down and takes no further \(Request.noun)")
        return false
    }

    /// - Returns: whether there is an outcome, because the client is not running by the deadline or the task is
    ///   cancelled.
    @inline(never)
    private func waitUntilRunning() async -> Bool {
        self.calledAt = nil
        if await self.context.waitUntilRunning(self.history.deadline) { return false }
        if Task.isCancelled {
            self.cancel()
        } else {
            self.fail(.notRunning, "the client is not running: call run(), start() or withAPNSClient")
        }
        return true
    }

    @inline(never)
    private func takeOutcome() -> PushOutcome {
        if let outcome = self.outcome.take() { return outcome }
        return self.history.fail(.internalFault, "the request ended without an outcome")
    }

    /// Finishes with an outcome, without a further attempt.
    private func fail(_ code: PushError.Code, _ message: String) {
        self.finish(self.history.fail(code, message))
    }

    private func cancel() { self.fail(.cancelled, "the sending task was cancelled") }

    private func finish(_ outcome: PushOutcome) {
        self.outcome = outcome
        self.request.finish(outcome, self.span, self.context)
    }

    // MARK: An attempt

    /// Prepares the attempt before the checkout, because a slow signer must not hold a stream.
    @inline(never)
    private func beginAttempt() -> Step {
        if let end = self.request.expiry(self.context) { return self.over(end) }
        let now = self.calledAt.take() ?? self.context.clock.now
        // Read first, so that no change is missed.
        self.version = self.context.router.currentVersion
        do throws(AttemptEnd) {
            let route = try self.request.nextRoute(self.context.router, now: now)
            if !route.isUnsigned { return self.take(route, now) }
            self.route = route
            return .sign
        } catch {
            return self.over(error)
        }
    }

    /// Waits for a provider token.
    @inline(never)
    private func sign() async -> Step {
        guard let route = self.route else { return .over }
        do throws(AttemptEnd) {
            let signed = try await self.context.router.sign(route, until: self.history.deadline)
            return self.take(signed, self.context.clock.now)
        } catch {
            return self.over(error)
        }
    }

    private func take(_ route: SendRoute, _ now: MonotonicInstant) -> Step {
        if Request.destination == .pushes { self.askedAt = self.context.monitor.queueTimes.begin(at: now) }
        self.route = route
        return .checkout
    }

    private func over(_ end: AttemptEnd) -> Step {
        self.end = end
        if case .held = end { self.heldVersion = self.version }
        return .over
    }

    private func checkOutAndSend() async {
        guard let pool = self.route?.pool else { return }
        let worker: ConnectionActor
        let attempt: PushAttempt?
        do {
            let lease = try await pool.checkout(
                deadline: self.history.deadline,
                bytes: self.request.bytes,
                lane: self.request.lane,
                atFront: self.history.isResend
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
            request: self.request.encode(
                id: self.history.id,
                authorization: self.route?.authorization,
                self.context
            ),
            tag: 0,
            deadline: NIODeadline(self.history.deadline),
            responseLimit: self.context.live.responseLimit,
            // Bulk leaves the last part of the connection's send window to other requests.
            isBulk: self.request.lane == .bulk
        )
        _ = lease.take(1)
        return PushAttempt(submission, origin: lease.origin)
    }

    /// Called with a stream checked out: renews the route.
    ///
    /// - Returns: whether the request should still be sent.
    @inline(never)
    private func prepareToWrite() -> Bool {
        self.context.monitor.queueTimes.end(self.askedAt, at: self.context.clock.now)
        // Whether the task is cancelled was checked by the checkout, and is checked by `ConnectionActor.send`.
        guard let end = self.request.expiry(self.context) ?? self.renewRoute() else { return true }
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
        let admitted: SendRoute
        do throws(AttemptEnd) {
            admitted = try route.admittedLate(now: now)
        } catch {
            return error
        }
        // Kept also if the attempt ends here, because its admission is then returned.
        self.route = admitted
        guard let renewed = self.context.router.renewed(admitted, now: now) else {
            // No stream is held while a token is signed.
            return .notSent(.connectionLost, "its provider token was replaced before it was sent", isFinal: false)
        }
        self.route = renewed
        return nil
    }

    @inline(never)
    private func record(_ result: StreamResult) {
        // Taken: a copy would retain it.
        self.end = self.request.evaluate(result, of: self.route.take(), &self.history, self.context)
    }

    // MARK: After an attempt

    /// Decides what follows the attempt.
    ///
    /// - Returns: the delay of the next attempt; nil if there is an outcome.
    @inline(never)
    private func conclude() -> Duration? {
        // An attempt without a result still has its route.
        self.route.take()?.returnAdmission()
        let end = self.end ?? .notSent(.internalFault, "the attempt ended without a result", isFinal: true)
        self.end = nil
        switch self.context.decide(end, &self.history, budget: self.budget) {
        case .finish(let outcome):
            self.finish(outcome)
            return nil
        case .retry(let delay):
            if self.heldVersion == nil { self.span?.retry(after: end, attempts: self.history.attempts, in: delay) }
            return delay
        }
    }

    /// The retry budget of the management host; nil: the request goes to the host for pushes.
    private var budget: SharedTokenBucket? {
        Request.destination == .pushes ? nil : self.context.credentials.latest.management.retries
    }

    /// Waits before the next attempt. A push that bad weather holds goes on as soon as the weather changes.
    ///
    /// - Returns: whether there is an outcome.
    @inline(never)
    private func pause(_ time: Duration) async -> Bool {
        let clock = self.context.clock
        if time > .zero {
            let until = clock.now.advanced(by: time)
            if let version = self.heldVersion.take() {
                await self.context.router.waitForChange(since: version, until: until)
            } else {
                _ = await self.context.lifecycle.ended.wait(until: until, clock: clock)
            }
        }
        if Task.isCancelled { self.cancel() }
        return self.outcome != nil
    }
}
