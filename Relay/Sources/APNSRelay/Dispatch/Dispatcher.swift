import APNSModel
import Logging
import PushQueue
import ServiceLifecycle

/// Takes due pushes from the queue and sends them. Each route is independent of the others.
///
/// It also settles overdue pushes, ends expired leases, and prunes the queue.
actor Dispatcher: Service {
    /// Returns the sender of a route; nil if the settings have no such app or environment.
    typealias SenderOfRoute = @Sendable (Route) -> (any PushSender)?

    /// How often the queue is read without a signal. A request that stores pushes signals at once.
    private static let interval = Duration.seconds(1)

    private nonisolated let context: DispatchContext
    private nonisolated let wakeup = Wakeup()
    private let sender: SenderOfRoute
    private let topic: @Sendable (Route) -> String?
    private let retention: Retention
    private let stopSending: @Sendable () -> Void

    private var sending: [Route: RouteSend] = [:]
    private var pauses: [Route: RoutePause] = [:]
    /// Routes of paused apps that have queued pushes.
    private var held: Set<Route> = []
    /// Routes with a due push.
    private var due: Set<Route> = []
    /// Routes that are not in the settings, whose pushes are being parked, and those of batches that are being cancelled.
    private var parking: Set<Route> = []
    /// Whether there may be parked pushes whose app was missing from the settings and is there now.
    private var hasNewApps = true
    private var lastExpiry: QueueTime?
    private var lastPrune: QueueTime?
    private var lastClockCheck: QueueTime?
    private var lastBatchCheck: QueueTime?

    /// - Parameters:
    ///   - context: the objects that all routes share.
    ///   - retention: the retention of outcomes, keys and parked pushes.
    ///   - stopSending: makes the senders end all their pushes. Called if a shutdown takes too long.
    ///   - topic: the bundle ID of a route's app; nil to send pushes whatever their topic is.
    ///   - sender: the sender of a route.
    init(
        context: DispatchContext,
        retention: Retention,
        stopSending: @escaping @Sendable () -> Void,
        topic: @escaping @Sendable (Route) -> String? = { _ in nil },
        sender: @escaping SenderOfRoute
    ) {
        self.context = context
        self.retention = retention
        self.stopSending = stopSending
        self.topic = topic
        self.sender = sender
    }

    /// Tells the dispatcher that there are new pushes.
    nonisolated func signal() { self.wakeup.signal() }

    /// The state of each route that has sent pushes since the start, and of each route of a paused app.
    func routes() -> [RouteStatus] {
        let lease = self.context.clock.lease
        let now = self.context.clock.now
        return Set(self.sending.keys).union(self.pauses.keys).union(self.held).map { route in
            if let reason = self.context.pausedApps.reason(route.app) {
                return RouteStatus(route: route, state: .paused, reason: reason)
            }
            let pause = self.sending[route]?.pause ?? self.pauses[route] ?? RoutePause()
            let isPaused = pause.isPaused(at: lease)
            let isSending = self.sending[route] != nil
            // The pushes that test whether the error is gone are not yet the end of the pause.
            let isTesting = pause.isProbing && (isSending || self.due.contains(route))
            return RouteStatus(
                route: route,
                state: isPaused || isTesting ? .paused : (isSending ? .sending : .idle),
                reason: pause.reason,
                pausedUntil: isPaused ? pause.until.map { now.advanced(by: lease.duration(to: $0)) } : nil
            )
        }
    }

    /// Lets the routes of some apps begin again, because the settings of these apps have changed. Their pauses end.
    func restart(_ apps: Set<String>) {
        guard !apps.isEmpty else { return }
        self.hasNewApps = true
        self.pauses = self.pauses.filter { !apps.contains($0.key.app) }
        for send in self.sending.values where apps.contains(send.route.app) { send.stopForNewSettings() }
        self.wakeup.signal()
    }

    /// Begins the shutdown. The dispatcher takes no more pushes from the queue.
    nonisolated func stop() {
        self.context.isStopping.set()
        self.wakeup.signal()
    }

    /// Runs until ``stop()``, graceful shutdown or cancellation.
    ///
    /// After that, it takes no more pushes. It returns when the outcomes of the pushes in flight are stored. In a
    /// graceful shutdown, it also waits until the service group shuts it down.
    func run() async {
        let context = self.context
        // Not a child task: cancellation would end it before the outcomes of the pushes in flight are stored.
        let storing = Task { await context.outbox.run() }
        await withGracefulShutdownHandler {
            let slow = await withDiscardingTaskGroup { sends in
                while !context.isStopping.isSet, !Task.isCancelled {
                    if self.hasNewApps {
                        self.hasNewApps = false
                        sends.addTask { await self.releaseParked() }
                    }
                    await self.startDueRoutes(&sends)
                    await self.maintain()
                    await self.waitForWork()
                }
                context.isStopping.set()
                self.signalAll()
                return Task { await self.stopSendingIfSlow() }
            }
            slow.cancel()
        } onGracefulShutdown: {
            self.stop()
        }
        context.outbox.close()
        // The pushes in flight have half of the shutdown's time, the clients' drain a third, and the outbox this sixth.
        let late = Task {
            try await Task.sleep(for: context.settings.shutdownTimeout / 6)
            storing.cancel()
        }
        await storing.value
        late.cancel()
        // A service that ends before its turn counts as failed in a service group.
        try? await gracefulShutdown()
    }

    // MARK: Routes

    private func startDueRoutes(_ sends: inout DiscardingTaskGroup) async {
        let queued: [QueuedRoute]
        do throws(QueueError) {
            queued = try await self.context.storage.observing { () throws(QueueError) in
                try await self.context.queue.queuedRoutes()
            }
            // Also those whose last pushes are being sent.
            let known = self.context.batches.unreadable
            try await self.context.batches.refresh(Array(Set(queued.map(\.route)).union(self.sending.keys)))
            for id in self.context.batches.unreadable.subtracting(known) {
                self.context.logger.error(
                    "A batch cannot be read: it is damaged, or a newer version wrote it. Its pushes wait until they are overdue",
                    metadata: ["batch": "\(id)"]
                )
            }
        } catch {
            self.context.metrics.storageFailed(error)
            self.context.logger.warning("The queue cannot be read; trying again", metadata: ["error": "\(error)"])
            return
        }
        for send in self.sending.values { send.checkWaiting() }
        // Batches come and go.
        let routes = Set(queued.map(\.route))
        self.pauses = self.pauses.filter { $0.key.batch == nil || routes.contains($0.key) }
        let now = self.context.clock.now
        let lease = self.context.clock.lease
        self.held = Set(
            queued.map(\.route)
                .filter { self.context.pausedApps.contains($0.app) || self.context.batches.mode(of: $0) == .hold }
        )
        self.due = Set(queued.filter { $0.due <= now }.map(\.route))
        for entry in queued where self.context.batches.mode(of: entry.route) == .cancel {
            self.startCancelling(entry.route, &sends)
        }
        for entry in queued where entry.due <= now && !self.held.contains(entry.route) {
            if let send = self.sending[entry.route] {
                send.signal()
            } else if !(self.pauses[entry.route]?.isPaused(at: lease) ?? false) {
                self.start(entry.route, &sends)
            }
        }
    }

    /// Cancels the queued and parked pushes of a batch.
    private func startCancelling(_ route: Route, _ sends: inout DiscardingTaskGroup) {
        guard self.parking.insert(route).inserted else { return }
        sends.addTask { await self.cancelAll(route) }
    }

    private func cancelAll(_ route: Route) async {
        await self.attempt("cancel the pushes of a batch") { () throws(QueueError) in
            while try await self.context.queue.cancelAll(route, limit: 500) == 500, !self.context.isStopping.isSet {}
        }
        self.endParking(route, isAppMissing: false)
    }

    private func start(_ route: Route, _ sends: inout DiscardingTaskGroup) {
        // Its pushes are being parked or cancelled. That ends soon.
        guard !self.parking.contains(route) else { return }
        let mode = self.context.batches.mode(of: route)
        guard mode != .cancel else { return }
        guard mode == .send, let sender = self.sender(route) else {
            self.parking.insert(route)
            let senderOfRoute = self.sender
            let unknown = UnknownRoute(
                route: route,
                context: self.context,
                isBatchMissing: mode == .unknown,
                isKnownAgain: { senderOfRoute(route) != nil }
            )
            sends.addTask {
                await unknown.parkAll()
                await self.endParking(route, isAppMissing: !unknown.isBatchMissing)
            }
            return
        }
        let send = RouteSend(
            route: route,
            sender: sender,
            context: self.context,
            pause: self.pauses[route] ?? RoutePause(),
            topic: self.topic(route)
        )
        self.sending[route] = send
        sends.addTask {
            await send.run()
            await self.end(send)
        }
    }

    /// Queues parked pushes again whose app was missing from the settings and is there now.
    private func releaseParked() async {
        var last: APNSID?
        while true {
            let after = last
            let parked = await self.context.persistently("list parked pushes") { () throws(QueueError) in
                try await self.context.queue.parked(after: after, limit: self.context.settings.batch)
            }
            guard let end = parked?.last, !self.context.isStopping.isSet else { return }
            last = end.id
            let known = (parked ?? []).filter { push in
                UnknownRoute.isReason(of: push) && self.sender(push.route) != nil
            }
            guard !known.isEmpty else { continue }
            let released = await self.context.persistently("queue parked pushes again") { () throws(QueueError) in
                try await self.context.queue.retryParked(known.map(\.id))
            }
            guard let released else { return }
            self.context.logger.notice(
                "Parked pushes are queued again, because the settings now have their app",
                metadata: ["pushes": "\(released.count { $0 })"]
            )
            self.wakeup.signal()
        }
    }

    private func endParking(_ route: Route, isAppMissing: Bool) {
        self.parking.remove(route)
        // Its last pushes may have been parked after the settings had their app again.
        if isAppMissing, self.sender(route) != nil { self.hasNewApps = true }
        self.wakeup.signal()
    }

    private func end(_ send: RouteSend) {
        self.sending[send.route] = nil
        // Without this condition, a due push that cannot be claimed yet would restart the route in a busy loop.
        if send.hasNews || send.isOutdated { self.wakeup.signal() }
        // The reason for a pause may be gone with the old settings.
        guard !send.isOutdated else {
            self.pauses[send.route] = nil
            return
        }
        let pause = send.pause
        if let reason = pause.reason, self.pauses[send.route]?.reason != reason {
            self.context.logger.warning(
                "A route is paused",
                metadata: ["route": "\(send.route)", "reason": "\(reason)"]
            )
        }
        self.pauses[send.route] = pause
    }

    private func signalAll() {
        for send in self.sending.values { send.signal() }
        self.context.window.wakeAll()
    }

    private func waitForWork() async {
        let wakeup = self.wakeup
        let timer = Task {
            try await Task.sleep(for: Self.interval)
            wakeup.signal()
        }
        await wakeup.wait()
        timer.cancel()
    }

    // MARK: Shutdown

    /// Ends the pushes in flight after half of the shutdown's time, so that their outcomes can still be stored.
    private func stopSendingIfSlow() async {
        guard (try? await Task.sleep(for: self.context.settings.shutdownTimeout / 2)) != nil else { return }
        self.stopSending()
    }

    // MARK: Maintenance

    private func maintain() async {
        await self.checkClock()
        let lease = self.context.clock.lease
        let queue = self.context.queue
        await self.attempt("settle overdue pushes") { () throws(QueueError) in
            let overdue = try await queue.settleOverdue(limit: 1_000)
            if overdue == 1_000 { self.wakeup.signal() }
        }
        // Leases must not expire while outcomes wait for the disk: their pushes would end as unknown.
        if Self.isDue(self.lastExpiry, every: .seconds(10), at: lease), !self.context.outbox.isBehind {
            await self.attempt("end expired leases") { () throws(QueueError) in
                let expired = try await queue.expireLeases()
                self.lastExpiry = lease
                self.log(expired)
            }
        }
        if Self.isDue(self.lastBatchCheck, every: .seconds(60), at: lease) {
            self.lastBatchCheck = lease
            let keeper = BatchKeeper(queue: queue, clock: self.context.clock, retention: self.retention.outcomes)
            await self.attempt("read the batches") { () throws(QueueError) in try await keeper.tend() }
        }
        if Self.isDue(self.lastPrune, every: .seconds(60), at: lease) {
            let retention = self.retention
            await self.attempt("delete rows whose retention is over") { () throws(QueueError) in
                let pruned = try await queue.prune(retention, limit: 5_000)
                // If more rows may remain, the next pass begins at once.
                if pruned < 5_000 { self.lastPrune = lease } else { self.wakeup.signal() }
            }
        }
    }

    /// Stores the time, so that the next process can compare its clock with it. Logs an implausible clock every minute.
    private func checkClock() async {
        guard let clock = self.context.guardedClock else { return }
        let lease = self.context.clock.lease
        guard Self.isDue(self.lastClockCheck, every: .seconds(60), at: lease) else { return }
        self.lastClockCheck = lease
        guard let jump = clock.jump else {
            let queue = self.context.queue
            return await self.attempt("store the time") { () throws(QueueError) in try await clock.store(in: queue) }
        }
        self.context.logger.critical(
            "The clock has jumped ahead. Until it is corrected, no push expires and nothing is deleted. If it is right, confirm it: POST /v1/clock/confirm",
            metadata: ["ahead": "\(jump)"]
        )
    }

    private func attempt(_ purpose: String, _ call: () async throws(QueueError) -> Void) async {
        do throws(QueueError) {
            try await call()
        } catch {
            self.context.metrics.storageFailed(error)
            self.context.logger.warning("The queue cannot \(purpose); trying again", metadata: ["error": "\(error)"])
        }
    }

    private static func isDue(_ last: QueueTime?, every interval: Duration, at now: QueueTime) -> Bool {
        last.map { $0.advanced(by: interval) <= now } ?? true
    }

    private func log(_ expired: ExpiredLeases) {
        guard expired != ExpiredLeases() else { return }
        self.context.metrics.recovered(expired)
        self.context.logger.warning(
            "Claims ended, because their leases had expired",
            metadata: [
                "queued": "\(expired.queued)", "unknown": "\(expired.unknown)", "resent": "\(expired.resent)",
            ]
        )
    }
}

/// Parks the pushes of a route whose app or environment is not in the settings, or whose batch is not in the queue.
struct UnknownRoute {
    let route: Route
    let context: DispatchContext
    let isBatchMissing: Bool
    /// Whether the settings have the app and the environment again.
    let isKnownAgain: @Sendable () -> Bool

    func parkAll() async {
        while !self.context.isStopping.isSet, self.isBatchMissing || !self.isKnownAgain() {
            do throws(QueueError) {
                let claimed = try await self.context.queue.claim(
                    self.route,
                    limit: self.context.settings.batch,
                    lease: DispatchContext.claimLease
                )
                guard !claimed.isEmpty else { return }
                try await self.context.queue.park(
                    claimed.map { push in Settlement(claim: push.claim, outcome: .failed(self.error(of: push))) }
                )
                for _ in claimed { self.context.metrics.parked(self.route) }
            } catch {
                self.context.logger.warning(
                    "The pushes of an unknown route cannot be parked",
                    metadata: ["route": "\(self.route)", "error": "\(error)"]
                )
                return
            }
        }
    }

    private func error(of push: ClaimedPush) -> PushError {
        PushError(
            code: .configuration,
            certainty: .notSent,
            apnsID: push.claim.id,
            message: self.isBatchMissing ? "the queue has lost the batch" : Self.message(self.route)
        )
    }

    private static func message(_ route: Route) -> String {
        "the settings have no app \(route.app) with the environment \(route.environment)"
    }

    /// Whether a push was parked for this reason. Reads the message, because the code may be of an earlier attempt.
    static func isReason(of push: PushStatus) -> Bool {
        push.outcome?.ends(with: Self.message(push.route)) ?? false
    }
}
