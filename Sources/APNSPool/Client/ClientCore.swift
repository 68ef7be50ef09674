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
    let settings: ConnectionSettings
    /// Nil: no provider token is sent.
    let signer: ProviderTokenSigner?
    let tokens: ProviderTokenCache
    let tokenActor = ChildRef<TokenActor>()
    let group: any EventLoopGroup
    let counters = ClientCounters()
    let invalidTokens = EventHub<InvalidToken>()
    let massRejection: MassRejectionAlarm
    let pools: PoolHolder
    /// Where channels are managed.
    let management: ManagementEndpoint
    let pacer = BroadcastPacer()

    /// Until when the tree rests after an escalation.
    let pausedUntil = Mutex<MonotonicInstant?>(nil)
    private static let firstPause = Duration.seconds(30)
    private let hasWarned = Atomic<Bool>(false)

    /// The answer time-out; whole durations cost 128-bit arithmetic a push.
    private let answerNanoseconds: Int64

    var clock: any MonotonicClock { self.configuration.clock }
    var logger: Logger { self.configuration.logger }

    init(_ configuration: APNSClientConfiguration) throws(APNSConfigurationError) {
        try configuration.validate()
        self.configuration = configuration
        self.answerNanoseconds = TimeAmount(configuration.timeouts.answer).nanoseconds
        self.signer = try configuration.authentication.resolve()
        self.tokens = ProviderTokenCache(policy: try configuration.authentication.tokenPolicy())
        self.encoder = RequestEncoder(authority: configuration.environment.authority)
        self.group = configuration.eventLoopGroup ?? MultiThreadedEventLoopGroup.singleton

        var tls = TLSConfiguration()
        tls.caFile = configuration.trust.caFile
        tls.caPEM = configuration.trust.caPEM
        let context: TLSContext
        do {
            context = try TLSContext(.client, configuration: tls)
        } catch {
            throw APNSConfigurationError(
                .trustRootsUnusable,
                setting: configuration.trust.caPEM == nil ? "trust.caFile" : "trust.caPEM",
                message: error.message
            )
        }
        var connection = Connection.Configuration(
            host: configuration.environment.host,
            port: configuration.environment.port,
            tls: context,
            variableNames: RequestEncoder.variableNames
        )
        connection.proxy = configuration.proxy?.endpoint
        connection.connectTimeout = TimeAmount(configuration.timeouts.connect)
        configuration.adjustConnection?(&connection)
        self.settings = ConnectionSettings(
            connection: connection,
            streamCap: configuration.pool.maxConcurrentStreams,
            backoffMinimum: .milliseconds(100),
            backoffMaximum: .seconds(30),
            replacements: ReplacementBudget(burst: configuration.pool.size),
            retries: RetryBudget(percent: configuration.retry.budgetPercent),
            silence: configuration.silence
        )
        self.massRejection = MassRejectionAlarm(limits: configuration.massRejection)
        let pool = configuration.pool
        var poolConfiguration = PoolConfiguration()
        poolConfiguration.size = pool.size
        poolConfiguration.maxOverflow = pool.maxOverflow
        poolConfiguration.strategy = pool.strategy.kind
        poolConfiguration.maxWaiters = pool.maxQueued
        poolConfiguration.maxQueuedBytes = pool.maxQueuedBytes
        poolConfiguration.idleTimeout = pool.idleTimeout
        poolConfiguration.connectSpacing = pool.connectSpacing
        poolConfiguration.unavailableAfter = pool.unavailableAfter
        poolConfiguration.maxQueueAge = pool.maxQueueAge
        poolConfiguration.maximumLifetime = pool.maximumLifetime
        poolConfiguration.whenUnavailable = pool.whenUnavailable == .wait ? .wait : .fail
        self.pools = PoolHolder(poolConfiguration, clock: configuration.clock, logger: configuration.logger)
        self.management = ManagementEndpoint(configuration, connection: connection, pool: poolConfiguration)
    }

    var pool: Pool<ConnectionActor> { self.pools.current }

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
        let result: Result<Void, any Error>
        do {
            try await self.runUntilEnd()
            result = .success(())
        } catch {
            result = .failure(error)
        }
        // A pool that was never run would let its waiters wait for their deadlines.
        for pool in [self.pool, self.management.pool] {
            await pool.drain()
            await pool.failWaiters()
        }
        // In a task of its own: the cancellation that may have brought us here must not cut this short.
        _ = await Task { await self.lifecycle.quiet.wait() }.value
        self.lifecycle.finish()
        self.invalidTokens.finish()
        try result.get()
    }

    private func runUntilEnd() async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            let supervisor = ChildRef<Supervisor>()
            group.addTask { try await self.runTrees(supervisor) }
            group.addTask { await self.stopAfterDrain(supervisor) }
            group.addTask {
                for await event in self.settings.events.stream {
                    self.logger.log(event, credential: self.credentialName)
                }
                // Cancelled: the others say when the run is over, not this one.
            }
            group.addTask {
                for await event in self.management.settings.events.stream {
                    self.management.logger.log(event, credential: self.credentialName)
                }
            }
            // The tree ends by cancellation, by an escalation that is handed up, or because the drain stopped it.
            defer { group.cancelAll() }
            try await group.next()
            if self.lifecycle.current == .draining { try await group.next() }
        }
    }

    private func runTrees(_ current: ChildRef<Supervisor>) async throws {
        defer { self.lifecycle.end() }
        var pause = Self.firstPause
        while true {
            let began = self.clock.now
            let supervisor = ClientTree.make(self)
            current.set(supervisor)
            if self.lifecycle.current == .draining, self.lifecycle.idle.isOpen { return }
            do {
                try await supervisor.run()
                return
            } catch {
                if Task.isCancelled || self.lifecycle.current != .running { return }
                if began.duration(to: self.clock.now) > .seconds(600) { pause = Self.firstPause }
                self.counters.escalations.wrappingAdd(1, ordering: .relaxed)
                self.logger.critical(
                    "the supervision tree gave up; this is a bug in the library",
                    metadata: ["error": "\(error)", "next-start-in": "\(pause)"]
                )
                if self.configuration.onEscalation == .throw { throw error }
                let until = self.clock.now.advanced(by: pause)
                self.pausedUntil.withLock { $0 = until }
                _ = await self.lifecycle.drainRequested.wait(until: until, clock: self.clock)
                if Task.isCancelled || self.lifecycle.current != .running { return }
                self.pausedUntil.withLock { $0 = nil }
                pause = min(pause * 2, .seconds(300))
            }
        }
    }

    private func stopAfterDrain(_ supervisor: ChildRef<Supervisor>) async {
        guard await self.lifecycle.drainRequested.wait(), !Task.isCancelled else { return }
        let time = self.lifecycle.drainTime ?? self.configuration.timeouts.drain
        self.logger.info(
            "draining",
            metadata: ["in-flight": "\(self.lifecycle.pushesInFlight)", "within": "\(time)"]
        )
        let isIdle = await self.lifecycle.idle.wait(until: self.clock.now.advanced(by: time), clock: self.clock)
        if !isIdle {
            // What waits is not sent; what is on the wire ends with its connection.
            await self.pool.failWaiters()
            await self.management.pool.failWaiters()
        }
        supervisor.current?.shutdown()
    }

    // MARK: Helpers of the dispatch

    func deadline(_ own: Duration?) -> MonotonicInstant {
        self.clock.now.advanced(by: own ?? self.configuration.timeouts.deadline)
    }

    /// The same instant on the loops' clock, or the answer time-out if that comes first.
    func loopDeadline(_ deadline: MonotonicInstant) -> LoopDeadline {
        self.loopDeadline(deadline, now: self.clock.now, loopNow: NIODeadline.now())
    }

    func loopDeadline(_ deadline: MonotonicInstant, now: MonotonicInstant, loopNow: LoopDeadline) -> LoopDeadline {
        loopNow + .nanoseconds(min(deadline.nanoseconds &- now.nanoseconds, self.answerNanoseconds))
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
    /// Whether the log has been told that this machine's clock is wrong.
    let isClockSkewTold = Atomic<Bool>(false)
    /// Whether it has been told that APNs calls fresh tokens expired.
    let isClockSuspectTold = Atomic<Bool>(false)
}
