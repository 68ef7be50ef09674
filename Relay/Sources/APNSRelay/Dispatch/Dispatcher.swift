import APNSModel
import Logging
import PushQueue
import ServiceLifecycle

/// Takes due pushes from the queue and sends them, route by route; settles overdue pushes, ends expired leases and
/// deletes what the retention no longer covers.
actor Dispatcher: Service {
    /// Returns the sender of a route; nil if the settings have no such app or environment.
    typealias SenderOfRoute = @Sendable (Route) -> (any PushSender)?

    /// The time between two looks at the queue. New pushes of this process are sent at once.
    private static let interval = Duration.seconds(1)

    private nonisolated let context: DispatchContext
    private nonisolated let metrics: RelayMetrics
    private nonisolated let wakeup = Wakeup()
    private let sender: SenderOfRoute
    private let retention: Retention
    private let stopSending: @Sendable () -> Void

    private var sending: [Route: RouteSend] = [:]
    private var pauses: [Route: RoutePause] = [:]
    private var lastExpiry: QueueTime?
    private var lastPrune: QueueTime?

    /// - Parameters:
    ///   - context: what all routes share.
    ///   - metrics: counts what the dispatcher does.
    ///   - retention: how long to keep what.
    ///   - stopSending: makes the senders end all pushes that they still have, when a shutdown takes too long.
    ///   - sender: the sender of a route.
    init(
        context: DispatchContext,
        metrics: RelayMetrics,
        retention: Retention,
        stopSending: @escaping @Sendable () -> Void,
        sender: @escaping SenderOfRoute
    ) {
        self.context = context
        self.metrics = metrics
        self.retention = retention
        self.stopSending = stopSending
        self.sender = sender
    }

    /// Tells the dispatcher that there are new pushes.
    nonisolated func signal() { self.wakeup.signal() }

    /// The state of each route that has been sent to since the start.
    func routes() -> [RouteStatus] {
        let lease = self.context.clock.lease
        let now = self.context.clock.now
        return Set(self.sending.keys).union(self.pauses.keys).map { route in
            let pause = self.sending[route]?.pause ?? self.pauses[route] ?? RoutePause()
            let isPaused = pause.isPaused(at: lease)
            return RouteStatus(
                route: route,
                state: isPaused ? .paused : (self.sending[route] == nil ? .idle : .sending),
                reason: pause.reason,
                pausedUntil: isPaused ? pause.until.map { now.advanced(by: lease.duration(to: $0)) } : nil
            )
        }
    }

    /// Runs until graceful shutdown: then takes no more pushes, and returns once those in flight have their outcomes.
    func run() async {
        let context = self.context
        await withGracefulShutdownHandler {
            await withTaskGroup(of: Void.self) { group in
                group.addTask { await context.outbox.run() }
                await withTaskGroup(of: Void.self) { sends in
                    while !context.isStopping.isSet, !Task.isCancelled {
                        await self.startDueRoutes(&sends)
                        await self.maintain()
                        await self.waitForWork()
                    }
                    context.isStopping.set()
                    self.signalAll()
                    sends.addTask { await self.stopSendingIfSlow() }
                    await self.waitForSends()
                    sends.cancelAll()
                }
                context.outbox.close()
            }
        } onGracefulShutdown: {
            context.isStopping.set()
            self.wakeup.signal()
        }
    }

    // MARK: Routes

    private func startDueRoutes(_ sends: inout TaskGroup<Void>) async {
        let queued: [QueuedRoute]
        do throws(QueueError) {
            queued = try await self.context.queue.queuedRoutes()
        } catch {
            self.context.logger.warning("The queue cannot be read; trying again", metadata: ["error": "\(error)"])
            return
        }
        let now = self.context.clock.now
        let lease = self.context.clock.lease
        for entry in queued where entry.due <= now {
            if let send = self.sending[entry.route] {
                send.signal()
            } else if !(self.pauses[entry.route]?.isPaused(at: lease) ?? false) {
                self.start(entry.route, &sends)
            }
        }
    }

    private func start(_ route: Route, _ sends: inout TaskGroup<Void>) {
        guard let sender = self.sender(route) else {
            let context = self.context
            sends.addTask { await UnknownRoute(route: route, context: context).parkAll() }
            return
        }
        let send = RouteSend(
            route: route,
            sender: sender,
            context: self.context,
            pause: self.pauses[route] ?? RoutePause()
        )
        self.sending[route] = send
        sends.addTask {
            await send.run()
            await self.end(send)
        }
    }

    private func end(_ send: RouteSend) {
        self.sending[send.route] = nil
        let pause = send.pause
        if let reason = pause.reason, self.pauses[send.route]?.reason != reason {
            self.context.logger.warning(
                "A route is paused",
                metadata: ["route": "\(send.route)", "reason": "\(reason)"]
            )
        }
        self.pauses[send.route] = pause
        // Only then: a due push that cannot be claimed yet would otherwise be tried again without end.
        if send.isSignalled || self.context.isStopping.isSet { self.wakeup.signal() }
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

    private func waitForSends() async {
        while !self.sending.isEmpty { await self.waitForWork() }
    }

    /// Ends the pushes in flight after most of the time for a shutdown, so that their outcomes can still be stored.
    private func stopSendingIfSlow() async {
        guard (try? await Task.sleep(for: self.context.settings.shutdownTimeout / 2)) != nil else { return }
        self.stopSending()
    }

    // MARK: Maintenance

    private func maintain() async {
        let lease = self.context.clock.lease
        do throws(QueueError) {
            let overdue = try await self.context.queue.settleOverdue(limit: 1_000)
            if overdue == 1_000 { self.wakeup.signal() }
            if Self.isDue(self.lastExpiry, every: .seconds(10), at: lease) {
                self.lastExpiry = lease
                self.log(try await self.context.queue.expireLeases())
            }
            if Self.isDue(self.lastPrune, every: .seconds(60), at: lease) {
                let pruned = try await self.context.queue.prune(self.retention, limit: 5_000)
                // The next look goes on if there may be more.
                if pruned < 5_000 { self.lastPrune = lease } else { self.wakeup.signal() }
            }
        } catch {
            self.context.logger.warning("The queue's maintenance failed; trying again", metadata: ["error": "\(error)"])
        }
    }

    private static func isDue(_ last: QueueTime?, every interval: Duration, at now: QueueTime) -> Bool {
        last.map { $0.advanced(by: interval) <= now } ?? true
    }

    private func log(_ expired: ExpiredLeases) {
        guard expired != ExpiredLeases() else { return }
        self.metrics.recovered(expired)
        self.context.logger.warning(
            "Leases expired",
            metadata: [
                "queued": "\(expired.queued)", "unknown": "\(expired.unknown)", "resent": "\(expired.resent)",
            ]
        )
    }
}

/// Parks the pushes of a route that the settings do not have.
struct UnknownRoute {
    let route: Route
    let context: DispatchContext

    func parkAll() async {
        while !self.context.isStopping.isSet {
            do throws(QueueError) {
                let claimed = try await self.context.queue.claim(
                    self.route,
                    limit: self.context.settings.batch,
                    worker: self.context.worker,
                    lease: DispatchContext.claimLease
                )
                guard !claimed.isEmpty else { return }
                try await self.context.queue.park(
                    claimed.map { push in Settlement(claim: push.claim, outcome: .failed(self.error(of: push))) }
                )
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
            message: "the settings have no app \(self.route.app) with the environment \(self.route.environment)"
        )
    }
}
