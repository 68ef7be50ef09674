import APNSModel
import Logging
import PushQueue
import Synchronization

/// Sends the pushes of one route with one bulk call, until none is due and none is in flight.
///
/// Each batch is claimed, marked as written and only then given to the bulk call. The next batch is claimed while the
/// current one is being marked.
final class RouteSend: Sendable {
    private struct State {
        /// Marked and given to the bulk call, without an outcome.
        var pending: [APNSID: ClaimedPush] = [:]
        /// Places of the window: claimed, marked, or waiting in the outbox.
        var held = 0
        var pause: RoutePause
        /// The bulk call has ended.
        var isOver = false
    }

    let route: Route
    private let sender: any PushSender
    private let context: DispatchContext
    private let wakeup = Wakeup()
    private let state: Mutex<State>

    init(route: Route, sender: any PushSender, context: DispatchContext, pause: RoutePause) {
        self.route = route
        self.sender = sender
        self.context = context
        self.state = Mutex(State(pause: pause))
    }

    var pause: RoutePause { self.state.withLock { $0.pause } }

    /// There may be new pushes, or the relay is stopping.
    func signal() { self.wakeup.signal() }

    /// Whether there was a signal after the last look at the queue.
    var isSignalled: Bool { self.wakeup.isSignalled }

    /// Returns once every push that was marked has an outcome that is durable or in the outbox.
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
                    maxInFlight: self.context.window.limit,
                    deadline: self.context.settings.attemptDeadline,
                    lane: self.route.lane
                ),
                apnsID: { $0.claim.id },
                push: { ($0.push, $0.token) }
            )
            for await delivery in deliveries { self.record(delivery.outcome, of: delivery.element) }
            self.state.withLock { $0.isOver = true }
            self.signal()
            self.context.window.wakeAll()
            await group.waitForAll()
        }
        // A call that stops early leaves rows that it has not pulled. Those were never sent.
        let left = self.state.withLock { state in
            defer { state.pending = [:] }
            return state.pending.values
        }
        for push in left {
            let error = PushError(
                code: .cancelled,
                certainty: .notSent,
                apnsID: push.claim.id,
                message: "the bulk call ended before it took the push"
            )
            self.store(.failed(error), of: push)
        }
    }

    // MARK: Outcomes

    private func record(_ outcome: PushOutcome, of push: ClaimedPush) {
        let now = self.context.clock.lease
        self.state.withLock { state in
            state.pending[push.claim.id] = nil
            if let error = outcome.error, let fault = RouteFault(error) {
                state.pause.fail(fault, retryAfter: error.retryAfter, at: now)
            } else if outcome.certainty == .accepted || outcome.certainty == .rejected {
                state.pause.succeed()
            }
        }
        self.store(outcome, of: push)
    }

    private func store(_ outcome: PushOutcome, of push: ClaimedPush) {
        let decision = self.context.rules.decide(outcome, for: push, at: self.context.clock.now)
        self.context.outbox.add(
            Outbox.Entry(route: self.route, claim: push.claim, outcome: outcome, decision: decision) {
                self.giveBack(1)
            }
        )
    }

    private func giveBack(_ places: Int) {
        let isIdle = self.state.withLock { state in
            state.held -= places
            return state.held == 0
        }
        self.context.window.release(places)
        if isIdle { self.signal() }
    }

    // MARK: Feeding

    private func feed(_ input: AsyncStream<ClaimedPush>.Continuation) async {
        var batch = await self.claim()
        while let claimed = batch {
            if claimed.isEmpty {
                if self.state.withLock({ $0.held == 0 }) { return }
                await self.wakeup.wait()
                batch = await self.claim()
            } else {
                async let next = self.claim()
                await self.mark(claimed, input)
                batch = await next
            }
        }
    }

    /// - Returns: pushes, which hold places of the window; none if none is due; nil if no more should be sent.
    private func claim() async -> [ClaimedPush]? {
        while true {
            let generation = self.context.window.generation
            let now = self.context.clock.lease
            let (isOver, held, limit) = self.state.withLock { state in
                let isOver = state.isOver || state.pause.isPaused(at: now)
                return (isOver, state.held, state.pause.isProbing ? RoutePause.probes : Int.max)
            }
            if isOver || self.context.isStopping.isSet || Task.isCancelled { return nil }
            let wanted = min(self.context.settings.batch, limit - min(held, limit))
            let places = wanted > 0 ? self.context.window.reserve(wanted, held: held) : 0
            guard places > 0 else {
                await self.context.window.waitForRelease(since: generation)
                continue
            }
            self.state.withLock { $0.held += places }
            let claimed = await self.context.persistently("claim pushes") { () throws(QueueError) in
                try await self.context.queue.claim(
                    self.route,
                    limit: places,
                    worker: self.context.worker,
                    lease: DispatchContext.claimLease
                )
            }
            self.giveBack(places - (claimed?.count ?? 0))
            return claimed
        }
    }

    /// Marks pushes as written and gives those that are marked to the bulk call.
    private func mark(_ claimed: [ClaimedPush], _ input: AsyncStream<ClaimedPush>.Continuation) async {
        let now = self.context.clock.now
        var sendable: [ClaimedPush] = []
        for push in claimed {
            if let error = push.overdueError(at: now) {
                self.store(.failed(error), of: push)
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
            // Stopping: unmarked claims end with their lease, or when the queue is opened again.
            self.giveBack(sendable.count)
            return
        }
        var lost = 0
        for (push, isMarked) in zip(sendable, marks) {
            guard isMarked else {
                lost += 1
                continue
            }
            self.state.withLock { $0.pending[push.claim.id] = push }
            input.yield(push)
        }
        self.giveBack(lost)
    }
}

extension ClaimedPush {
    /// The error of a push that is too late for another attempt; nil if it is not.
    func overdueError(at now: QueueTime) -> PushError? {
        if self.push.isExpired(at: now) {
            return PushError(
                code: .expired,
                certainty: .notSent,
                apnsID: self.claim.id,
                message: "the push expired while it was queued"
            )
        }
        guard self.deadline <= now else { return nil }
        return PushError(
            code: .deadlineExceeded,
            certainty: .notSent,
            apnsID: self.claim.id,
            message: "the deadline passed while the push was queued"
        )
    }
}
