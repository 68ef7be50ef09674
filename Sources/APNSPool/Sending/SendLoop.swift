// This folder: the way of one push, from the call to its outcome. What an attempt proves, whether another one follows,
// and the limits that protect APNs and the caller. Bulk calls are in Bulk, broadcasts and channel calls in Broadcast;
// connections and what they do with a stream in Connection.

import APNSModel
import HTTP2Wire
import SupervisedPool

/// Sends one request until its outcome is certain: wait for its turn, take a route, check out a stream, send, evaluate
/// the response, and again where that is safe. Never throws, and ends by its deadline.
///
/// The subclasses `PushSend`, `BroadcastSend` and `ChannelCall` say what is sent.
///
/// The state is in an object because the locals of a suspended function stay in its task's memory. Two kilobytes for each
/// of hundreds of tasks are more than a core's cache holds, and cost more than all that is computed. For the same reason the
/// steps are not inlined.
class SendLoop {
    private enum Step {
        case checkout
        /// A provider token has to be signed first.
        case sign
        /// The attempt has ended already.
        case over
    }

    /// How a checkout is asked for.
    struct CheckoutRequest {
        var bytes = 0
        var lane = PoolLane.interactive
        var atFront: Bool
    }

    final let context: SendContext
    private let destination: SendRoute.Destination
    final let span: CallSpan?
    // Unchecked: one task has the object, and nothing that an access calls comes back to it.
    @exclusivity(unchecked) final var history: PushHistory
    /// Of the attempt that is under way.
    @exclusivity(unchecked) private var route: SendRoute?
    /// When the attempt asked for a stream, if somebody measures that.
    @exclusivity(unchecked) private var askedAt: MonotonicInstant?
    /// Until when the attempt waits for a stream.
    @exclusivity(unchecked) private var checkoutDeadline = MonotonicInstant(nanoseconds: 0)
    /// How the last attempt ended.
    @exclusivity(unchecked) private var end: AttemptEnd?

    init(
        _ context: SendContext,
        to destination: SendRoute.Destination = .pushes,
        _ history: PushHistory,
        _ span: CallSpan?
    ) {
        self.context = context
        self.destination = destination
        self.history = history
        self.span = span
    }

    final func run() async -> PushOutcome {
        guard self.context.lifecycle.enter() else { return self.refused() }
        defer { self.leave() }
        if self.mustPrepare, let outcome = await self.prepare() { return outcome }
        while true {
            var step = self.beginAttempt()
            if step == .sign { step = await self.sign() }
            if step == .checkout { await self.attempt() }
            switch self.conclude() {
            case .finish(let outcome):
                return outcome
            case .retry(let delay):
                if delay > .zero { await self.pause(delay) }
                if Task.isCancelled { return self.cancelled() }
            }
        }
    }

    // MARK: What subclasses say (each may override any of these)

    /// What is sent, in the plural, for messages.
    var noun: String { "requests" }

    /// Whether something is waited for before the first attempt.
    var mustPrepare: Bool { self.context.lifecycle.current == .notStarted }

    /// Waits for what comes before the first attempt.
    ///
    /// - Returns: the outcome if there is to be no attempt.
    func prepare() async -> PushOutcome? { await self.waitUntilRunning() }

    /// The route of the next attempt, perhaps unsigned.
    ///
    /// - Throws: why nothing is sent now.
    func nextRoute(now: MonotonicInstant) throws(AttemptEnd) -> SendRoute {
        try self.context.router.next(to: self.destination, now: now)
    }

    /// What is asked of the pool.
    var checkoutRequest: CheckoutRequest { CheckoutRequest(atFront: self.history.isResend) }

    /// Why the request is no longer sent; nil if it may be.
    func expiry() -> AttemptEnd? { nil }

    /// A stream is there. Returns why the request is not written all the same; nil if it is.
    func claimWrite() -> AttemptEnd? { nil }

    /// Whether the request leaves the last of the connection's send window to others.
    var isBulk: Bool { false }

    /// The request as the wire needs it. Every subclass overrides it.
    func request(authorization: HeaderBlock?) -> HTTP2Request {
        HTTP2Request(shared: HeaderBlock([]), credential: nil, values: [], valueLengths: SIMD8(), body: [])
    }

    /// Says how the attempt ended.
    func evaluate(_ result: StreamResult, of route: SendRoute?) -> AttemptEnd {
        self.context.evaluate(result, of: route, &self.history)
    }

    /// The outcome of a request that comes when the client takes none any more.
    func refused() -> PushOutcome {
        self.fail(.shuttingDown, "the client is shutting down and takes no further \(self.noun)")
    }

    /// Called once, with the outcome.
    func finish(_ outcome: PushOutcome) { self.span?.end(outcome) }

    /// Called last, when the outcome is on its way to the caller.
    func leave() { self.context.lifecycle.leave() }

    // MARK: An attempt

    /// What comes before the checkout: a slow signer must not hold a stream.
    @inline(never)
    private func beginAttempt() -> Step {
        if let end = self.expiry() { return self.over(end) }
        let now = self.context.clock.now
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
        if self.destination == .pushes { self.askedAt = self.context.monitor.queueTimes.begin(self.context.clock) }
        self.checkoutDeadline = route.waitDeadline(self.history.deadline, now: now)
        self.route = route
        return .checkout
    }

    private func over(_ end: AttemptEnd) -> Step {
        self.end = end
        return .over
    }

    private func attempt() async {
        guard let pool = self.route?.pool else { return }
        let request = self.checkoutRequest
        do {
            let lease = try await pool.checkout(
                deadline: self.checkoutDeadline,
                bytes: request.bytes,
                lane: request.lane,
                atFront: request.atFront
            )
            guard self.mayWrite() else { return }
            self.record(await lease.worker.send { self.submission($0, $1) })
        } catch {
            self.end = self.route?.end(error) ?? AttemptEnd(error)
        }
    }

    /// There is a stream. Whether the request is still to be sent.
    @inline(never)
    private func mayWrite() -> Bool {
        self.context.monitor.queueTimes.end(self.askedAt, self.context.clock)
        if let end = self.expiry() {
            self.end = end
        } else if Task.isCancelled {
            self.end = .notSent(.cancelled, "the sending task was cancelled before it was sent", isFinal: true)
        } else if let end = self.renewRoute() ?? self.claimWrite() {
            self.end = end
        } else {
            return true
        }
        return false
    }

    /// Takes the provider token that is current now, if there is another one since the attempt began to wait.
    ///
    /// - Returns: nil if the request can be sent.
    private func renewRoute() -> AttemptEnd? {
        let router = self.context.router
        guard let route, !router.isCurrent(route) else { return nil }
        self.route = router.renewed(route, now: self.context.clock.now)
        // No stream is held while a token is signed.
        return self.route == nil
            ? .notSent(.connectionLost, "its provider token was replaced before it was sent", isFinal: false) : nil
    }

    /// What the connection is given.
    @inline(never)
    private func submission(_ ticket: UInt64, _ continuation: StreamContinuation) -> PushSubmission {
        PushSubmission(
            request: self.request(authorization: self.route?.authorization),
            deadline: self.context.attemptDeadline(self.history.deadline),
            ticket: ticket,
            continuation: continuation,
            isBulk: self.isBulk
        )
    }

    @inline(never)
    private func record(_ result: StreamResult) {
        self.end = self.evaluate(result, of: self.route)
    }

    /// What follows from the attempt.
    @inline(never)
    private func conclude() -> PushHistory.Decision {
        // With it goes the right to probe a candidate credential.
        self.route = nil
        let end = self.end ?? .notSent(.internalFault, "the attempt had no end", isFinal: true)
        self.end = nil
        let decision = self.context.decide(end, &self.history, budget: self.budget)
        switch decision {
        case .finish(let outcome): self.finish(outcome)
        case .retry(let delay): self.span?.retry(after: end, attempts: self.history.attempts, in: delay)
        }
        return decision
    }

    /// Nil: the pushes'.
    private var budget: RetryBudget? {
        self.destination == .pushes ? nil : self.context.credentials.latest.management.settings.retries
    }

    @inline(never)
    private func pause(_ time: Duration) async {
        let clock = self.context.clock
        _ = await self.context.lifecycle.ended.wait(until: clock.now.advanced(by: time), clock: clock)
    }

    // MARK: Without an attempt

    /// - Returns: the outcome if nobody runs the client in time.
    final func waitUntilRunning() async -> PushOutcome? {
        guard self.context.lifecycle.current == .notStarted,
            await !self.context.waitUntilRunning(self.history.deadline)
        else { return nil }
        if Task.isCancelled { return self.cancelled() }
        return self.fail(.notRunning, "nobody runs the client: call run(), start() or withAPNSClient")
    }

    /// An outcome without a (further) attempt.
    @inline(never)
    final func fail(_ code: PushError.Code, _ message: String, retryAfter: Duration? = nil) -> PushOutcome {
        let outcome = self.history.fail(code, message, retryAfter: retryAfter)
        self.finish(outcome)
        return outcome
    }

    private func cancelled() -> PushOutcome { self.fail(.cancelled, "the sending task was cancelled") }
}
