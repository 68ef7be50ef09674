import APNSModel
import Logging
import PushQueue
import Synchronization

/// Sends the pushes of one route with one bulk call, until none is due and none is in flight.
///
/// Some pushes at a time are claimed, then marked as written, and only then given to the bulk call. The next ones are claimed
/// while these are being marked.
///
/// A bulk call that cannot send pulls no pushes from its input, so marked pushes could wait forever. Therefore the call
/// is stopped when the route pauses, or when a push has waited for ``longestWait``. Pushes that the call has not pulled
/// were provably not sent. They return to the queue.
final class RouteSend: Sendable {
    private struct State {
        var pending: [APNSID: PendingPush] = [:]
        /// The number of places that the route's pushes hold in the window: claimed, marked, or waiting in the outbox.
        var held = 0
        var pause: RoutePause
        /// Whether the bulk call has ended.
        var isOver = false
        /// Whether the settings of the app have changed.
        var isOutdated = false
        /// Whether pushes may have arrived after the last claim.
        var hasNews = false
    }

    /// How long a marked push may wait until the bulk call pulls it.
    static let longestWait = Duration.seconds(5)

    let route: Route
    private let sender: any PushSender
    private let context: DispatchContext
    private let control = BulkControl()
    private let wakeup = Wakeup()
    /// The app's bundle ID; nil to send pushes whatever their topic is.
    private let topic: String?
    private let state: Mutex<State>

    init(
        route: Route,
        sender: any PushSender,
        context: DispatchContext,
        pause: RoutePause,
        topic: String? = nil
    ) {
        self.route = route
        self.sender = sender
        self.context = context
        self.topic = topic
        self.state = Mutex(State(pause: pause))
    }

    var pause: RoutePause { self.state.withLock { $0.pause } }

    /// Signals that there may be new pushes, or that the relay is stopping.
    func signal() {
        self.state.withLock { $0.hasNews = true }
        self.wakeup.signal()
    }

    /// Whether there was a signal after the last claim.
    var hasNews: Bool { self.state.withLock { $0.hasNews } }

    /// Stops the bulk call if the app or the batch is paused, or if a push has waited too long for the bulk call to pull it.
    func checkWaiting() {
        if !self.maySend { return self.stop() }
        let limit = self.context.clock.lease.advanced(by: .zero - Self.longestWait)
        let isStuck = self.state.withLock { state in
            state.pending.values.contains { !$0.isPulled && $0.markedAt < limit }
        }
        if isStuck { self.stop() }
    }

    /// Whether the app and the batch are not paused.
    private var maySend: Bool {
        !self.context.pausedApps.contains(self.route.app) && self.context.batches.mode(of: self.route) == .send
    }

    /// Sends pushes until none is due. Returns once the outbox has the result of every marked push.
    func run() async {
        let (rows, input) = AsyncStream.makeStream(of: ClaimedPush.self)
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                await self.feed(input)
                input.finish()
            }
            let deliveries = self.sender.deliveries(
                rows,
                options: BulkOptions(
                    // The window limits the pushes in flight, and its limit may change.
                    maxInFlight: 100_000,
                    deadline: self.context.settings.attemptDeadline,
                    lane: self.route.lane,
                    // Rejected device tokens of one caller must not stop the pushes of other callers.
                    massRejection: .off,
                    control: self.control
                ),
                apnsID: { $0.claim.id },
                push: { try self.pulled($0) }
            )
            for await delivery in deliveries { self.record(delivery.outcome, of: delivery.element) }
            self.state.withLock { $0.isOver = true }
            self.wakeup.signal()
            self.context.window.wakeAll()
            await group.waitForAll()
        }
        let left = self.state.withLock { state in
            defer { state.pending = [:] }
            return state.pending.values
        }
        for pending in left {
            if let outcome = pending.outcomeWithoutDelivery {
                self.store(outcome, of: pending.push)
            } else {
                self.takeBack(pending.push)
            }
        }
    }

    /// Whether the settings of the app have changed since the start.
    var isOutdated: Bool { self.state.withLock { $0.isOutdated } }

    /// Stops sending, so that the route can begin again with new settings.
    func stopForNewSettings() {
        self.state.withLock { $0.isOutdated = true }
        self.stop()
    }

    /// Stops the bulk call. Pushes that it has not pulled return to the queue.
    private func stop() {
        self.control.stop()
        self.wakeup.signal()
        self.context.window.wakeAll()
    }

    // MARK: The bulk call

    /// Called when the bulk call pulls a push.
    private func pulled(_ push: ClaimedPush) throws(OverdueError) -> (PreparedPush, DeviceToken) {
        self.state.withLock { $0.pending[push.claim.id]?.isPulled = true }
        if push.overdueOutcome(at: self.context.clock.now) != nil { throw OverdueError() }
        return (push.push, push.token)
    }

    /// The push became overdue between the mark and the moment at which the bulk call pulled it.
    private struct OverdueError: Error {}

    private func record(_ outcome: PushOutcome, of push: ClaimedPush) {
        // The bulk call reports the error that `pulled` throws as a validation error.
        let isOverdue = outcome.error?.code == .validation && push.overdueOutcome(at: self.context.clock.now) != nil
        let now = self.context.clock.lease
        let isPaused = self.state.withLock { state in
            state.pending[push.claim.id] = nil
            state.pause.record(outcome, at: now)
            return state.pause.isPaused(at: now)
        }
        if isPaused, !self.control.isStopped { self.stop() }
        if isOverdue { self.end(overdue: push) } else { self.store(outcome, of: push) }
    }

    /// Ends an overdue push. If it is overdue only by an implausible clock, returns it to the queue instead.
    private func end(overdue push: ClaimedPush) {
        if let outcome = push.overdueOutcome(at: self.context.clock.expiry) {
            self.store(outcome, of: push)
        } else {
            self.takeBack(push)
        }
    }

    private func store(_ outcome: PushOutcome, of push: ClaimedPush) {
        var decision = self.context.rules.decide(outcome, for: push, at: self.context.clock.expiry)
        if decision == .park, self.context.batches.mode(of: self.route) == .cancel { decision = .settle }
        self.add(push.claim, outcome, decision)
    }

    /// Returns a marked push to the queue, because it was not sent.
    private func takeBack(_ push: ClaimedPush) {
        self.add(push.claim, nil, .release(notBefore: self.context.clock.expiry, countsAttempt: false))
    }

    private func add(_ claim: Claim, _ outcome: PushOutcome?, _ decision: RetryRules.Decision) {
        self.context.outbox.add(Outbox.Entry(sender: self, claim: claim, outcome: outcome, decision: decision))
    }

    /// Gives back places in the window.
    func giveBack(_ places: Int) {
        let isIdle = self.state.withLock { state in
            state.held -= places
            return state.held == 0
        }
        self.context.window.release(places, of: self.route)
        if isIdle { self.wakeup.signal() }
    }

    // MARK: Feeding

    private func feed(_ input: AsyncStream<ClaimedPush>.Continuation) async {
        var next = await self.claim()
        while let claimed = next {
            if claimed.isEmpty {
                if self.state.withLock({ $0.held == 0 }) { return }
                await self.wakeup.wait()
                next = await self.claim()
            } else {
                async let following = self.claim()
                await self.mark(claimed, input)
                next = await following
            }
        }
    }

    /// Claims pushes, and reserves a place in the window for each.
    ///
    /// - Returns: the pushes; empty if none is due; nil if the route must stop sending.
    private func claim() async -> [ClaimedPush]? {
        while true {
            let generation = self.context.window.generation
            let now = self.context.clock.lease
            let (isOver, held, limit) = self.state.withLock { state in
                state.hasNews = false
                let isOver = state.isOver || state.pause.isPaused(at: now)
                return (isOver, state.held, state.pause.isProbing ? RoutePause.probes : Int.max)
            }
            if isOver || self.control.isStopped || self.context.isStopping.isSet || Task.isCancelled { return nil }
            if !self.maySend { return nil }
            let wanted = min(self.context.settings.batch, limit - min(held, limit))
            let allowed = self.context.allowance(self.route, wanted: wanted)
            if wanted > 0, allowed.count == 0 {
                try? await Task.sleep(for: min(allowed.wait, .milliseconds(200)))
                continue
            }
            let places = wanted > 0 ? self.context.window.reserve(allowed.count, held: held, of: self.route) : 0
            guard places > 0 else {
                self.context.giveBack(allowance: allowed.count, self.route)
                await self.context.window.waitForRelease(since: generation)
                continue
            }
            self.state.withLock { $0.held += places }
            let claimed = await self.context.persistently("claim pushes") { () throws(QueueError) in
                try await self.context.queue.claim(
                    self.route,
                    limit: places,
                    lease: DispatchContext.claimLease
                )
            }
            self.context.giveBack(allowance: allowed.count - (claimed?.count ?? 0), self.route)
            self.giveBack(places - (claimed?.count ?? 0))
            guard let claimed else {
                self.pauseForQueue()
                return nil
            }
            guard let filled = self.context.batches.fill(claimed, of: self.route) else {
                for push in claimed { self.takeBack(push) }
                return nil
            }
            for claim in filled.damaged {
                self.add(claim, .unreadable(claim.id), .settle)
            }
            // An empty result would end the route.
            if filled.pushes.isEmpty, !claimed.isEmpty { continue }
            return filled.pushes
        }
    }

    /// Pauses the route, because the queue cannot be used. Without a pause, the route would be started again at once.
    private func pauseForQueue() {
        let now = self.context.clock.lease
        self.state.withLock { $0.pause.fail(RouteFault("the queue cannot be used"), retryAfter: nil, at: now) }
    }

    /// Marks pushes as written, and gives the marked ones to the bulk call.
    private func mark(_ claimed: [ClaimedPush], _ input: AsyncStream<ClaimedPush>.Continuation) async {
        let now = self.context.clock.now
        var sendable: [ClaimedPush] = []
        for var push in claimed {
            let token = self.context.deviceToken(push.token, self.route)
            push.token = token ?? push.token
            if push.overdueOutcome(at: now) != nil {
                self.end(overdue: push)
            } else if self.control.isStopped {
                self.takeBack(push)
            } else if let topic, !RelayApp.covers(push.push.topic, bundleID: topic) {
                self.add(push.claim, .otherTopic(push, topic), .park)
            } else if token == nil {
                self.add(push.claim, .unreadableToken(push), .park)
            } else {
                sendable.append(push)
            }
        }
        guard !sendable.isEmpty else { return }
        let claims = sendable.map(\.claim)
        let marks = await self.context.persistently("mark pushes as written") { () throws(QueueError) in
            try await self.context.queue.markWritten(claims, lease: self.context.writtenLease)
        }
        guard let marks else {
            // The relay is stopping. The claims without a mark end with their lease, or when the queue is opened again.
            self.giveBack(sendable.count)
            return
        }
        let markedAt = self.context.clock.lease
        let marked = zip(sendable, marks).filter { $0.1 }.map(\.0)
        self.state.withLock { state in
            for push in marked { state.pending[push.claim.id] = PendingPush(push: push, markedAt: markedAt) }
        }
        for push in marked { input.yield(push) }
        self.giveBack(sendable.count - marked.count)
    }
}

/// A push that is marked and has no outcome.
struct PendingPush: Sendable {
    var push: ClaimedPush
    var markedAt: QueueTime
    /// Whether the bulk call has pulled it. If so, it may have been sent.
    var isPulled = false

    /// The outcome if the bulk call ends without one for this push; nil if the push was provably not sent.
    var outcomeWithoutDelivery: PushOutcome? {
        guard self.isPulled else { return nil }
        return .unknown(
            PushError(
                code: .internalFault,
                certainty: .unknown,
                apnsID: self.push.claim.id,
                attempts: 1,
                message: "the bulk call ended without an outcome for this push"
            )
        )
    }
}

extension PushOutcome {
    /// The outcome of a push that was queued before the app's topic was changed. Without it, the push would pause the route.
    fileprivate static func otherTopic(_ push: ClaimedPush, _ topic: String) -> PushOutcome {
        self.notConfigured(
            push,
            "the push has the topic \(push.push.topic), and the app's topic in the settings is \(topic)"
        )
    }

    fileprivate static func unreadableToken(_ push: ClaimedPush) -> PushOutcome {
        self.notConfigured(
            push,
            "the device token cannot be decrypted: set webPush.oldKey to the key that encrypted it"
        )
    }

    private static func notConfigured(_ push: ClaimedPush, _ message: String) -> PushOutcome {
        .failed(
            PushError(
                code: .configuration,
                certainty: .notSent,
                apnsID: push.claim.id,
                attempts: push.attempts,
                message: message
            )
        )
    }
}

extension ClaimedPush {
    /// The outcome if the push's deadline or expiration has passed at this time; nil if it has not.
    func overdueOutcome(at now: QueueTime) -> PushOutcome? {
        guard self.deadline <= now || self.push.isExpired(at: now) else { return nil }
        return .overdue(
            self.claim.id,
            deadline: self.deadline,
            expiration: self.push.expiration,
            attempts: self.attempts
        )
    }
}
