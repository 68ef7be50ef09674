package import APNSPool
import Hummingbird
package import Logging
import NIOCore
package import PostgresPushQueue
package import PushQueue
import ServiceLifecycle
import UnixSignals
import WebPushGateway

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A relay: takes pushes over HTTP, keeps them in a queue and sends them to APNs.
package struct Relay: Sendable {
    private let settings: RelaySettings
    private let reading: Reading?
    private let publish: (@Sendable (SQLIntake) async throws(QueueError) -> Void)?
    private let tokens: (any ProviderTokenSource)?
    private let queue: any PushQueue
    private let clock: any QueueClock
    private let news: AsyncStream<Void>?
    private let waitForFailure: (@Sendable () async -> QueueError?)?
    private let progress: ProgressFile?
    private let readStorage: (@Sendable () async throws(QueueError) -> StorageState)?
    private let prometheus: PrometheusMetrics
    private let metrics: RelayMetrics
    private let logger: Logger
    /// The settings as they were read, and how to read them again.
    package typealias Reading = (
        first: LoadedSettings, again: @Sendable () throws(RelaySettingsError) -> LoadedSettings
    )

    /// The clients of all apps. Exposed for tests.
    let group: APNSClientGroup
    /// The intervals of the fleet. Tests make them shorter.
    var fleetTiming = FleetMachine.Timing()

    /// - Parameters:
    ///   - settings: the operator's settings.
    ///   - reading: the settings as they were read, and how to read them again; nil if they never change.
    ///   - queue: an open queue. ``run(onListening:)`` closes it.
    ///   - clock: the queue's clock.
    ///   - tokens: the shared provider tokens; nil for those in the queue, if it is shared.
    ///   - news: an element for each hint that other programs have stored pushes; nil if there are none.
    ///   - waitForFailure: waits until the queue can no longer be used. The relay then ends.
    ///   - publish: tells programs that store pushes with SQL about changed apps.
    ///   - progress: where the progress of the queue is remembered; nil if it is not.
    ///   - readStorage: reads the state of the file or the database behind the queue, for metrics; nil if there is none.
    ///   - prometheus: the backend that `/metrics` exports. Also bootstrap swift-metrics' `MetricsSystem` with it.
    ///   - metrics: the relay's own metrics; nil to make new ones.
    ///   - logger: the logger for operators. It never gets device tokens or payloads.
    /// - Throws: `APNSConfigurationError` if the credential of an app or a limit of the group cannot be used.
    package init(
        settings: RelaySettings,
        reading: Reading? = nil,
        queue: any PushQueue,
        clock: any QueueClock = SystemQueueClock(),
        tokens: (any ProviderTokenSource)? = nil,
        news: AsyncStream<Void>? = nil,
        waitForFailure: (@Sendable () async -> QueueError?)? = nil,
        publish: (@Sendable (SQLIntake) async throws(QueueError) -> Void)? = nil,
        progress: ProgressFile? = nil,
        readStorage: (@Sendable () async throws(QueueError) -> StorageState)? = nil,
        prometheus: PrometheusMetrics,
        metrics: RelayMetrics? = nil,
        logger: Logger
    ) throws(APNSConfigurationError) {
        self.settings = settings
        self.reading = reading
        self.publish = publish
        self.queue = queue
        self.clock = clock
        self.news = news
        self.waitForFailure = waitForFailure
        self.progress = progress
        self.readStorage = readStorage
        self.prometheus = prometheus
        self.metrics = metrics ?? RelayMetrics(factory: prometheus)
        self.logger = logger
        self.tokens = tokens ?? (queue.isShared ? SharedTokenSource(queue, clock: SystemQueueClock()) : nil)
        self.group = try settings.makeGroup(tokens: self.tokens, logger: logger)
    }

    /// Runs the relay until SIGTERM or SIGINT, or until the task is cancelled.
    ///
    /// A signal shuts it down in this order: the API accepts no more requests; the dispatcher waits for the pushes in
    /// flight and stores their outcomes; the connections to APNs close; the queue closes.
    ///
    /// - Parameter onListening: called with the port once requests are accepted.
    /// - Throws: the error of a part that cannot continue, for example because the port is taken. If the queue can no
    ///   longer be used, it throws the queue's error. Then start the relay again. If the queue cannot be opened, that
    ///   error says what to do.
    package func run(onListening: @escaping @Sendable (Int) -> Void = { _ in }) async throws {
        let live = LiveSettings(self.settings)
        let tls = try TLSFiles(self.settings.http).map(ListenerTLS.init)
        var retry = WebhookMachine.Retry()
        // Outcomes that another relay stores cause no signal here, so the webhooks poll more often.
        if self.queue.isShared { retry.poll = .seconds(1) }
        let webhooks = Webhooks(
            self.settings.webhooks,
            queue: self.queue,
            metrics: self.metrics,
            clock: self.clock,
            logger: self.logger,
            retry: retry
        )
        let feedNews = FeedNews()
        let context = DispatchContext(
            queue: self.queue,
            clock: self.clock,
            settings: self.settings.dispatch,
            rules: RetryRules(
                maxAttempts: self.settings.dispatch.maxAttempts,
                retriesInternalServerError: self.settings.group.client.retry.retriesInternalServerError
            ),
            window: InFlightWindow(limit: self.settings.dispatch.maxInFlight),
            outbox: Outbox(queue: self.queue, metrics: self.metrics, logger: self.logger) {
                webhooks.signal()
                feedNews.signal()
            },
            metrics: self.metrics,
            logger: self.logger,
            pausedApps: PausedApps(nil),
            batches: ActiveBatches(queue: self.queue, clock: self.clock),
            appRates: AppRates(clock: self.clock),
            guardedClock: self.clock as? GuardedClock,
            deviceToken: { [keys = self.settings.webPush?.deviceTokenKeys] token, route in
                Gateway.deviceToken(token, of: route, keys)
            }
        )
        let group = self.group
        let dispatcher = Dispatcher(
            context: context,
            retention: self.settings.storage.retention,
            stopSending: { group.shutdown() },
            topic: { live.apps[$0.app]?.topic },
            sender: self.senders(live)
        )
        let fleet = Fleet(
            member: .current(version: Self.version, now: self.clock.now),
            queue: self.queue,
            // Not the queue's clock, which may be held back after a jump.
            clock: SystemQueueClock(),
            metrics: self.metrics,
            logger: self.logger,
            timing: self.fleetTiming,
            maxConnections: self.settings.fleet.maxConnections,
            apply: self.apply(context, dispatcher, webhooks)
        )
        context.batches.follow { fleet.members.count }
        context.appRates.follow { fleet.members.count }
        context.appRates.set(self.settings.apps)
        let limits = CallerLimits(self.settings, queue: self.queue, clock: self.clock) { fleet.members.count }
        // Applies the share of the connections before the first client starts.
        fleet.update()
        let metrics = self.metrics
        let delivery = DeliveryWatch(
            queue: self.queue,
            clock: self.clock,
            storage: context.storage,
            totals: { metrics.totals },
            failures: self.failures(live),
            webhooks: { await webhooks.statuses() },
            unreadableBatches: { context.batches.unreadable }
        )
        let status = RelayState(
            dispatcher: dispatcher,
            sendWebhooks: webhooks,
            fleet: fleet,
            metrics: self.metrics,
            probe: ReadyProbe(self.queue, logger: self.logger),
            queue: self.queue,
            guardedClock: context.guardedClock,
            isStopping: context.isStopping,
            delivery: delivery
        )
        let page = MetricsPage(
            prometheus: self.prometheus,
            metrics: self.metrics,
            queue: self.queue,
            status: status,
            clock: self.clock,
            limits: limits,
            certificateExpiry: { tls?.current.expiry },
            readStorage: self.readStorage,
            logger: self.logger
        )
        let reload = self.reading.map { reading in
            SettingsReload(
                reading.first,
                parts: SettingsReload.Parts(
                    live: live,
                    tls: tls,
                    group: group,
                    tokens: self.tokens,
                    webhooks: webhooks,
                    setLimits: { settings in
                        limits.set(callers: settings.callers, apps: settings.apps)
                        context.appRates.set(settings.apps)
                    },
                    publish: self.publish,
                    restart: { await dispatcher.restart($0) }
                ),
                metrics: self.metrics,
                logger: self.logger,
                read: reading.again
            )
        }
        let http = RelayAPI(
            live: live,
            tls: tls,
            queue: self.queue,
            clock: self.clock,
            status: status,
            news: feedNews,
            reload: reload,
            version: Self.version,
            metrics: { await page.text() },
            pages: PageFiles.all,
            limits: limits,
            factory: self.prometheus,
            logger: self.logger
        )
        let api = try http.makeApplication(onStart: onListening)
        // A graceful shutdown ends the services in reverse order, each after the one that follows it in the list.
        var parts: [any Service] = []
        // Last of all, so that probes are answered during the shutdown.
        if let probes = try http.makeProbes() {
            let address =
                "\(self.settings.http.probeHost ?? self.settings.http.host):\(self.settings.http.probePort ?? 0)"
            parts.append(ListeningService(service: probes, address: address, setting: "http.probePort"))
        }
        if let progress { parts.append(ProgressService(file: progress, queue: self.queue, logger: self.logger)) }
        parts += [delivery, fleet, WebhookService(webhooks: webhooks)]
        if let gateway = http.gateway { parts.append(GatewayService(gateway: gateway)) }
        if let reload { parts.append(SettingsWatch(reload: reload)) }
        if let waitForFailure { parts.append(QueueFailureService(waitForFailure: waitForFailure)) }
        if let news { parts.append(NewsService(news: news, dispatcher: dispatcher)) }
        parts += [
            ClientService(group: group), dispatcher,
            ListeningService(
                service: api,
                address: "\(self.settings.http.host):\(self.settings.http.port)",
                setting: "http.port",
                whenShuttingDown: { dispatcher.stop() }
            ),
        ]
        var services = ServiceGroupConfiguration(
            services: parts,
            gracefulShutdownSignals: [.sigterm, .sigint],
            logger: self.logger
        )
        services.maximumGracefulShutdownDuration = self.settings.dispatch.shutdownTimeout + .seconds(3)
        // The queue is closed after everything that uses it, even if a service fails.
        do {
            try await ServiceGroup(configuration: services).run()
        } catch {
            await self.queue.close()
            throw error
        }
        await self.queue.close()
    }

    /// The version of the relay.
    package static let version = "0.1.0"

    /// Applies the fleet's decisions for this relay.
    private func apply(
        _ context: DispatchContext,
        _ dispatcher: Dispatcher,
        _ webhooks: Webhooks
    ) -> @Sendable (FleetEffects) -> Void {
        let group = self.group
        let pool = self.settings.group.client.pool
        let maxInFlight = self.settings.dispatch.maxInFlight
        let logger = self.logger
        return { effects in
            do throws(APNSConfigurationError) {
                try group.update { settings in
                    // A client has at most 1,000 connections.
                    settings.pool.size = effects.poolSize.map { min($0, 1_000) } ?? pool.size
                    settings.pool.maxOverflow = effects.poolSize == nil ? pool.maxOverflow : 0
                }
            } catch {
                logger.error("The connections cannot be changed", metadata: ["error": "\(error)"])
            }
            context.window.setLimit(effects.maxInFlight ?? maxInFlight)
            if let apps = effects.pausedApps { context.pausedApps.set(apps) }
            webhooks.set(isPosting: effects.postsWebhooks)
            dispatcher.signal()
        }
    }

    /// Finds the apps and environments whose clients deliver nothing.
    private func failures(_ live: LiveSettings) -> DeliveryWatch.ReadFailures {
        let group = self.group
        return {
            var failures: [DeliveryProblem.AppEnvironment: DeliveryFailure] = [:]
            for (name, app) in live.apps {
                for environment in app.environments.keys {
                    guard let apns = app.environments[environment] else { continue }
                    let health = await group.sender(for: name, in: apns).health
                    failures[.init(app: name, environment: environment)] = DeliveryFailure(health)
                }
            }
            return failures
        }
    }

    /// The senders for the apps and environments in the settings.
    private func senders(_ live: LiveSettings) -> Dispatcher.SenderOfRoute {
        let group = self.group
        return { route in
            live.apps[route.app]?.environments[route.environment].map { group.sender(for: route.app, in: $0) }
        }
    }
}

/// Runs the clients of all apps. It does not end before its turn in a shutdown, because that counts as a failure in a
/// service group.
private struct ClientService: Service {
    let group: APNSClientGroup

    func run() async throws {
        try await self.group.run()
        try? await gracefulShutdown()
    }
}

/// Runs a listener, and names its setting if the port is in use.
private struct ListeningService: Service {
    let service: any Service
    let address: String
    /// The setting with the port.
    let setting: String
    /// Called as soon as a shutdown begins, so that a slow caller of the API does not delay it.
    var whenShuttingDown: @Sendable () -> Void = {}

    func run() async throws {
        let whenShuttingDown = self.whenShuttingDown
        do {
            try await withGracefulShutdownHandler {
                try await self.service.run()
            } onGracefulShutdown: {
                whenShuttingDown()
            }
        } catch let error as IOError where error.errnoCode == EADDRINUSE {
            throw RelayAPIError(
                code: .addressInUse,
                message:
                    "\(self.setting): \(self.address) is in use by another program, perhaps another apns-relay."
            )
        }
    }
}

/// Ends the relay when its queue can no longer be used.
private struct QueueFailureService: Service {
    let waitForFailure: @Sendable () async -> QueueError?

    func run() async throws {
        let error = await cancelWhenGracefulShutdown { await self.waitForFailure() }
        if let error { throw error }
        try? await gracefulShutdown()
    }
}

/// Hints that other programs have stored pushes.
private struct NewsService: Service {
    let news: AsyncStream<Void>
    let dispatcher: Dispatcher

    func run() async throws {
        await cancelWhenGracefulShutdown {
            for await _ in self.news { self.dispatcher.signal() }
        }
        try? await gracefulShutdown()
    }
}

private struct WebhookService: Service {
    let webhooks: Webhooks

    func run() async {
        await cancelWhenGracefulShutdown { await self.webhooks.run() }
    }
}
