import APNSModel
import Logging
import NIOCore
import NIOPosix
import SupervisedPool

/// Runs, drains and stops a client. Owns the parts that survive a restart of the supervision tree.
final class ClientRuntime: Sendable {
    let configuration: APNSClientConfiguration
    let live: LiveSettings
    let lifecycle: ClientLifecycle
    let group: any EventLoopGroup
    /// The credential sessions. Each one has its own pool and connections.
    let credentials: CredentialManager
    let sending: SendContext
    let monitor: ClientMonitor
    let replacements: SharedTokenBucket
    let workers: WorkerTally

    /// The pauses of a tree after an escalation.
    private static let pauses = Backoff(.doubling(), minimum: .seconds(30), maximum: .seconds(300))
    /// A tree that has run for so long begins with the first pause again.
    private static let provenTime = Duration.seconds(600)

    var clock: any MonotonicClock { self.configuration.clock }
    var logger: Logger { self.configuration.logger }
    /// The active credential's pool.
    var pool: Pool<ConnectionActor> { self.credentials.latest.pool }

    init(_ configuration: APNSClientConfiguration) throws(APNSConfigurationError) {
        try configuration.validate()
        let version = SendRouteVersion()
        self.configuration = configuration
        self.live = LiveSettings(configuration)
        self.lifecycle = ClientLifecycle(version: version)
        self.group = configuration.eventLoopGroup ?? MultiThreadedEventLoopGroup.singleton
        self.monitor = ClientMonitor(configuration)
        self.replacements = SharedTokenBucket.replacements(burst: configuration.pool.size)
        self.workers = WorkerTally(limit: configuration.pool.workerCount, onChange: configuration.onWorkerTally ?? {})
        self.credentials = try CredentialManager(
            CredentialSessionFactory(
                configuration,
                monitor: self.monitor,
                replacements: self.replacements,
                version: version
            ),
            live: self.live,
            version: version
        )
        self.sending = SendContext(
            configuration,
            live: self.live,
            lifecycle: self.lifecycle,
            credentials: self.credentials,
            version: version,
            monitor: self.monitor
        )
    }

    // MARK: Run

    /// Runs the tree until a drain has finished or the task is cancelled.
    func run() async throws(APNSConfigurationError) {
        guard self.lifecycle.beginRun() else {
            throw .alreadyRunning("run", "client")
        }
        let metrics = self.makeMetricExporter()
        self.monitor.tracing.findTracer()
        self.logger.info("the client runs", metadata: LibraryVersion.metadata)
        await self.runUntilEnd(metrics)
        // The lines below fail the waiters of pools that were never run. They would otherwise wait until their
        // deadlines.
        self.credentials.finish()
        // If the run was cancelled early, the tree of a session may never have started.
        for session in self.credentials.all { session.ended.open() }
        for session in self.credentials.all + [self.credentials.latest] {
            await session.failWaiters()
        }
        // In a new task, because this wait must not be cut short by a cancellation that ended the run.
        _ = await Task { await self.lifecycle.quiet.wait() }.value
        if let metrics {
            await self.export(metrics)
            metrics.finish()
        }
        self.lifecycle.finish()
        self.monitor.finish()
    }

    private func runUntilEnd(_ metrics: MetricExporter?) async {
        // Each task returns whether its end ends the run.
        await withTaskGroup(of: Bool.self) { group in
            self.credentials.start()
            // The authentication was revoked before the run, so there is no pool start to wait for.
            if self.credentials.isRevoked { self.lifecycle.serving.open() }
            group.addTask {
                await self.runSessions()
                return true
            }
            group.addTask {
                await self.stopAfterDrain()
                return true
            }
            group.addTask {
                await self.monitor.run(credential: { self.sending.credentialName }, health: { await self.health() })
                return false
            }
            if let metrics {
                group.addTask {
                    await self.exportMetrics(metrics)
                    return false
                }
            }
            // The trees end by cancellation or because the drain stopped them. In the second case the task of the drain
            // ends first, and the second loop waits for the trees.
            defer { group.cancelAll() }
            while await group.next() == false {}
            guard self.lifecycle.current == .draining else { return }
            while await group.next() == false {}
        }
    }

    /// Runs one tree for each credential session; see `ClientTree`.
    private func runSessions() async {
        defer { self.lifecycle.end() }
        await withDiscardingTaskGroup { group in
            for await job in self.credentials.jobs {
                self.monitor.signal()
                switch job {
                case .run(let session):
                    self.applySettings(to: session)
                    group.addTask { await self.startMissingWorkers(session) }
                    group.addTask {
                        defer {
                            // Breaks the reference cycle of runtime, session, supervisor and runtime.
                            session.supervisor.clear()
                            self.credentials.forget(session)
                            session.ended.open()
                            session.resizer.finish()
                            session.resizer.supervisor.clear()
                        }
                        await self.runTrees(session)
                        // If the session was stopped before its tree ran, nothing else fails the waiters of its pool.
                        await session.failWaiters()
                    }
                    // A read of a file may take minutes. The end of the session does not wait for it.
                    group.addTask { await session.ended.cancelling { await self.watch(session) } }
                case .retire(let session):
                    group.addTask { await self.retire(session) }
                }
            }
        }
    }

    private func runTrees(_ session: CredentialSession) async {
        var pauses = Self.pauses
        while true {
            let began = self.clock.now
            let supervisor = ClientTree.make(self, session)
            session.supervisor.set(supervisor)
            if session.isStopped || session.isRetired { return }
            if self.lifecycle.current == .draining && self.lifecycle.idle.isOpen { return }
            do {
                try await supervisor.run()
                return
            } catch {
                if Task.isCancelled || self.lifecycle.current != .running || session.isRetired { return }
                if began.duration(to: self.clock.now) > Self.provenTime { pauses.reset() }
                let pause = pauses.next()
                self.monitor.reportEscalation(error, pause: pause)
                // The failure of a candidate credential must not stop the active one.
                if self.credentials.giveUp(session, .undecided("an internal fault: \(error)")) { return }
                let until = self.clock.now.advanced(by: pause)
                self.sending.router.pause(session, until: until)
                self.monitor.signal()
                await self.pause(until: until, session)
                self.sending.router.pause(session, until: nil)
                self.monitor.signal()
                if Task.isCancelled || self.lifecycle.current != .running || session.isStopped { return }
            }
        }
    }

    /// Waits until the instant, or until the client drains or the session is stopped.
    private func pause(until instant: MonotonicInstant, _ session: CredentialSession) async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { _ = await self.lifecycle.drainRequested.wait(until: instant, clock: self.clock) }
            group.addTask { await session.stopping.wait() }
            await group.next()
            group.cancelAll()
        }
    }

    private func stopAfterDrain() async {
        guard await self.lifecycle.drainRequested.wait(), !Task.isCancelled else {
            self.logger.notice(
                "the run was cancelled: pushes in flight are not waited for",
                metadata: ["in-flight": "\(self.lifecycle.pushesInFlight)"]
            )
            return
        }
        self.monitor.signal()
        let time = self.lifecycle.drainTime ?? self.live.settings.timeouts.drain
        let began = self.clock.now
        self.logger.info(
            "draining",
            metadata: ["in-flight": "\(self.lifecycle.pushesInFlight)", "within": "\(time)"]
        )
        let isIdle = await self.lifecycle.idle.wait(until: self.clock.now.advanced(by: time), clock: self.clock)
        if isIdle {
            self.logger.info("drained", metadata: ["took": "\(began.duration(to: self.clock.now))"])
        } else {
            self.logger.warning(
                "the time for the drain is over: pushes that were not written end as not sent, the others as unknown",
                metadata: ["in-flight": "\(self.lifecycle.pushesInFlight)", "within": "\(time)"]
            )
            // Queued pushes are not sent. Pushes on the wire end with their connections.
            for session in self.credentials.all {
                await session.pool.failWaiters()
                await session.management.pool.failWaiters()
            }
        }
        self.credentials.finish()
        for session in self.credentials.all { session.stop() }
    }
}
