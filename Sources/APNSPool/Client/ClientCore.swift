import APNSModel
import HTTP2Wire
import Logging
import NIOCore
import NIOPosix
import SupervisedPool
import Synchronization

/// What stands behind a client: the parts that outlive every restart of the tree.
final class ClientCore: Sendable {
    let configuration: APNSClientConfiguration
    let lifecycle = ClientLifecycle()
    let encoder: RequestEncoder
    let ids = IDSource()
    /// With what pushes are sent; each credential has its own pool and connections.
    let keeper: CredentialKeeper
    let group: any EventLoopGroup
    let retries: RetryBudget
    let events: ClientEvents
    private let managementEvents: ClientEvents
    private let contexts: TLSContexts
    let replacements: ReplacementBudget
    let counters = ClientCounters()
    let observer = ClientObserver()
    let tracing: ClientTracing
    let invalidTokens = EventHub<InvalidToken>()
    let massRejection: MassRejectionAlarm
    let pacer = BroadcastPacer()
    let supersedeTurns = SupersedeTurns()

    /// The provider tokens of the keys in use, and of the last ones before.
    private let tokenCaches: Mutex<TokenCaches>
    let drainBooks = Mutex(DrainBooks())
    /// What became of the pushes; nil while the client runs.
    let finalReport = Mutex<DrainReport?>(nil)

    /// Until when the tree rests after an escalation.
    let pausedUntil = Mutex<MonotonicInstant?>(nil)
    private static let firstPause = Duration.seconds(30)
    private let hasWarned = Atomic<Bool>(false)

    let live: LiveSettings

    var clock: any MonotonicClock { self.configuration.clock }
    var logger: Logger { self.configuration.logger }

    init(_ configuration: APNSClientConfiguration) throws(APNSConfigurationError) {
        try configuration.validate()
        self.configuration = configuration
        self.tracing = ClientTracing(configuration)
        self.live = LiveSettings(configuration)
        self.encoder = RequestEncoder(authority: configuration.environment.authority)
        self.group = configuration.eventLoopGroup ?? MultiThreadedEventLoopGroup.singleton
        self.massRejection = MassRejectionAlarm(limits: configuration.massRejection)
        self.retries = RetryBudget(percent: configuration.retry.budgetPercent)
        self.events = ClientEvents()
        self.managementEvents = ClientEvents()
        self.replacements = ReplacementBudget(burst: configuration.pool.size)
        self.contexts = configuration.tlsContexts ?? TLSContexts(trust: configuration.trust)
        let resolved = try configuration.authentication.resolve(wallNow: configuration.wallClock())
        let credentials = CredentialGuard(onEvent: { [events] in events.write(.credential($0)) })
        var tokenCaches = TokenCaches()
        let tokens = tokenCaches.cache(of: resolved)
        self.tokenCaches = Mutex(tokenCaches)
        self.keeper = CredentialKeeper(
            Self.makeScope(
                number: 1,
                resolved,
                configuration,
                self.observer,
                ConnectionSettings(
                    connection: Self.connection(configuration, try self.contexts.context(for: resolved.certificate)),
                    streamCap: configuration.pool.maxConcurrentStreams,
                    backoffMinimum: .milliseconds(100),
                    backoffMaximum: .seconds(30),
                    replacements: self.replacements,
                    retries: self.retries,
                    seed: configuration.connectionSeed,
                    events: self.events,
                    credentials: credentials
                ),
                tokens,
                management: self.managementEvents
            )
        )
    }

    private static func connection(
        _ configuration: APNSClientConfiguration,
        _ tls: TLSContext
    ) -> Connection.Configuration {
        var connection = Connection.Configuration(
            host: configuration.environment.host,
            port: configuration.environment.port,
            tls: tls,
            variableNames: RequestEncoder.variableNames
        )
        connection.answerFilter = RequestEncoder.answerFilter
        connection.proxy = configuration.proxy?.endpoint
        connection.connectTimeout = TimeAmount(configuration.timeouts.connect)
        configuration.adjustConnection?(&connection)
        return connection
    }

    private static func makeScope(
        number: CredentialSwitch.Number,
        _ resolved: ResolvedAuthentication,
        _ configuration: APNSClientConfiguration,
        _ observer: ClientObserver,
        _ settings: ConnectionSettings,
        _ tokens: ProviderTokenCache,
        management: ClientEvents,
        trial: TrialEvents = TrialEvents()
    ) -> CredentialScope {
        let pool = configuration.poolConfiguration
        return CredentialScope(
            number: number,
            resolved: resolved,
            settings: settings,
            tokens: tokens,
            trial: trial,
            pools: PoolHolder(
                pool,
                clock: configuration.clock,
                logger: configuration.logger,
                watch: PoolWatch(observer, clock: configuration.clock)
            ),
            management: ManagementEndpoint(
                configuration,
                connection: settings.connection,
                pool: pool,
                events: management
            )
        )
    }

    /// A pool and its belongings for another credential, which is to be tried; the keeper hears of its first answers.
    func makeScope(_ resolved: ResolvedAuthentication) throws(APNSConfigurationError) -> CredentialScope {
        let context = try self.contexts.context(for: resolved.certificate)
        let configuration = self.currentConfiguration
        let number = self.keeper.nextNumber()
        let events = self.events
        let credentials = CredentialGuard(isOnTrial: true) { [weak keeper] event in
            switch event {
            case .proven, .refusedOnTrial: keeper?.judged(number, event)
            case .declared, .ended: events.write(.credential(event))
            }
        }
        let current = self.keeper.latest.resolved.signer?.key
        return Self.makeScope(
            number: number,
            resolved,
            configuration,
            self.observer,
            ConnectionSettings(
                connection: Self.connection(configuration, context),
                streamCap: configuration.pool.maxConcurrentStreams,
                backoffMinimum: .milliseconds(100),
                backoffMaximum: .seconds(30),
                replacements: self.replacements,
                retries: self.retries,
                seed: configuration.connectionSeed,
                events: events,
                credentials: credentials
            ),
            self.tokenCaches.withLock { $0.cache(of: resolved, keeping: current) },
            management: self.managementEvents
        )
    }

    /// The current credential's pool.
    var pool: Pool<ConnectionActor> { self.keeper.latest.pool }
    /// The current credential's.
    var settings: ConnectionSettings { self.keeper.latest.settings }

    // MARK: Run

    /// Runs the tree until a drain has ended or the task is cancelled.
    func run() async throws {
        guard self.lifecycle.beginRun() else {
            throw APNSConfigurationError(
                .alreadyRunning,
                setting: "run",
                message: "this client runs already, or has ended: a client runs once"
            )
        }
        let metrics = self.makeMetricExporter()
        self.tracing.look()
        let result: Result<Void, any Error>
        do {
            try await self.runUntilEnd(metrics)
            result = .success(())
        } catch {
            result = .failure(error)
        }
        // A pool that was never run would let its waiters wait for their deadlines.
        self.keeper.finish()
        // Of those too whose tree was never started because the run was cancelled or has failed.
        for scope in self.keeper.all { scope.ended.open() }
        for scope in self.keeper.all + [self.keeper.latest] {
            for pool in [scope.pool, scope.management.pool] {
                await pool.drain()
                await pool.failWaiters()
            }
        }
        // In a task of its own: the cancellation that may have brought us here must not cut this short.
        _ = await Task { await self.lifecycle.quiet.wait() }.value
        if let metrics {
            await self.export(metrics)
            metrics.finish()
        }
        self.tellDrained()
        self.tracing.finish()
        self.lifecycle.finish()
        self.invalidTokens.finish()
        self.observer.finish()
        try result.get()
    }

    private func runUntilEnd(_ metrics: MetricExporter?) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            self.keeper.start()
            // Revoked before the run: there is nothing to wait for.
            if self.keeper.isRevoked { self.lifecycle.serving.open() }
            group.addTask { try await self.runScopes() }
            group.addTask { await self.stopAfterDrain() }
            group.addTask {
                for await event in self.events.stream {
                    self.logger.log(event, credential: self.credentialName)
                    self.observer.poke()
                }
                // Cancelled: the others say when the run is over, not this one.
            }
            group.addTask { await self.watchHealth() }
            group.addTask { await self.remindOfFaults() }
            if let metrics { group.addTask { await self.exportMetrics(metrics) } }
            group.addTask {
                let logger = ManagementEndpoint.logger(self.configuration)
                for await event in self.managementEvents.stream {
                    logger.log(event, credential: self.credentialName)
                }
            }
            // The tree ends by cancellation, by an escalation that is handed up, or because the drain stopped it.
            defer { group.cancelAll() }
            try await group.next()
            if self.lifecycle.current == .draining { try await group.next() }
        }
    }

    /// Runs the tree of each credential, one at a time but while one takes another's place.
    private func runScopes() async throws {
        defer { self.lifecycle.end() }
        try await withThrowingDiscardingTaskGroup { group in
            for await job in self.keeper.jobs {
                self.observer.poke()
                switch job {
                case .run(let scope):
                    self.applySettings(to: scope)
                    group.addTask { await self.keepWorkerCount(scope) }
                    group.addTask {
                        defer {
                            // The tree holds this core.
                            scope.supervisor.clear()
                            self.keeper.forget(scope)
                            scope.ended.open()
                            scope.workers.finish()
                            scope.workers.supervisor.clear()
                        }
                        do {
                            try await self.runTrees(scope)
                        } catch {
                            // A failed child cancels its siblings, not the loop above.
                            self.keeper.finish()
                            throw error
                        }
                    }
                    if scope.isWatched { group.addTask { await self.watch(scope) } }
                case .retire(let scope):
                    group.addTask { await self.retire(scope) }
                }
            }
        }
    }

    private func runTrees(_ scope: CredentialScope) async throws {
        var pause = Self.firstPause
        while true {
            let began = self.clock.now
            let supervisor = ClientTree.make(self, scope)
            scope.supervisor.set(supervisor)
            if scope.isStopped || scope.isRetired { return }
            if self.lifecycle.current == .draining && self.lifecycle.idle.isOpen { return }
            do {
                try await supervisor.run()
                return
            } catch {
                if Task.isCancelled || self.lifecycle.current != .running || scope.isRetired { return }
                if began.duration(to: self.clock.now) > .seconds(600) { pause = Self.firstPause }
                self.counters.escalations.wrappingAdd(1, ordering: .relaxed)
                self.logger.critical(
                    "the supervision tree gave up; this is a bug in the library",
                    metadata: ["error": "\(error)", "next-start-in": "\(pause)"]
                )
                // One on trial does not take the others with it.
                if self.keeper.giveUp(scope, because: .refused("an internal fault: \(error)")) { return }
                if self.configuration.onEscalation == .throw { throw error }
                let until = self.clock.now.advanced(by: pause)
                self.pausedUntil.withLock { $0 = until }
                self.observer.poke()
                _ = await self.lifecycle.drainRequested.wait(until: until, clock: self.clock)
                if Task.isCancelled || self.lifecycle.current != .running { return }
                self.pausedUntil.withLock { $0 = nil }
                self.observer.poke()
                pause = min(pause * 2, .seconds(300))
            }
        }
    }

    private func stopAfterDrain() async {
        guard await self.lifecycle.drainRequested.wait(), !Task.isCancelled else { return }
        self.observer.poke()
        let time = self.lifecycle.drainTime ?? self.live.settings.timeouts.drain
        self.beginDrainBooks(within: time)
        self.logger.info(
            "draining",
            metadata: ["in-flight": "\(self.lifecycle.pushesInFlight)", "within": "\(time)"]
        )
        let isIdle = await self.lifecycle.idle.wait(until: self.clock.now.advanced(by: time), clock: self.clock)
        if !isIdle {
            // What waits is not sent; what is on the wire ends with its connection.
            for scope in self.keeper.all {
                await scope.pool.failWaiters()
                await scope.management.pool.failWaiters()
            }
        }
        self.keeper.finish()
        for scope in self.keeper.all { scope.stop() }
    }

    // MARK: Helpers of the dispatch

    func deadline(_ own: Duration?) -> MonotonicInstant {
        if let own { return self.clock.now.advanced(by: own) }
        // Whole durations cost 128-bit arithmetic a push.
        let (sum, overflow) = self.clock.now.nanoseconds.addingReportingOverflow(self.live.deadlineNanoseconds)
        return MonotonicInstant(nanoseconds: overflow ? .max : sum)
    }

    /// When an attempt is given up: at the push's deadline, or after the response time-out if that ends first.
    func attemptDeadline(_ deadline: MonotonicInstant, now: MonotonicInstant? = nil) -> MonotonicInstant {
        let now = now ?? self.clock.now
        let (end, overflow) = now.nanoseconds.addingReportingOverflow(self.live.answerNanoseconds)
        return overflow ? deadline : min(deadline, MonotonicInstant(nanoseconds: end))
    }

    /// Whether the client runs, at the latest at `deadline`. Warns in the log when it takes longer than a second.
    func waitUntilRunning(_ deadline: MonotonicInstant) async -> Bool {
        let warning = min(self.clock.now.advanced(by: .seconds(1)), deadline)
        if await self.lifecycle.running.wait(until: warning, clock: self.clock) { return true }
        if Task.isCancelled { return false }
        if !self.hasWarned.exchange(true, ordering: .relaxed) {
            self.logger.warning("a push waits, but nobody runs the client: call run(), start() or withAPNSClient")
        }
        return await self.lifecycle.running.wait(until: deadline, clock: self.clock)
    }
}

/// Numbers for `APNSClient.status`.
final class ClientCounters: Sendable {
    let resends = Atomic<Int>(0)
    let restarts = Atomic<Int>(0)
    let escalations = Atomic<Int>(0)
    /// Pushes that came when the client took none any more.
    let refusals = Atomic<Int>(0)
    /// Whether the log has been told that this machine's clock is wrong.
    let isClockSkewTold = Atomic<Bool>(false)
    /// Whether it has been told that APNs calls fresh tokens expired.
    let isClockSuspectTold = Atomic<Bool>(false)
}
