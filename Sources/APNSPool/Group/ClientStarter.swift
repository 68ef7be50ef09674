import APNSModel
import Logging
import NIOPosix
import SupervisedPool

/// Makes, runs and stops the clients of a group, as the registry's quota requests, and passes settings on to them.
final class ClientStarter: Sendable {
    enum Job: Sendable {
        case start(ConnectionQuota.ClientID, connections: Int)
        case grow(ConnectionQuota.ClientID)
        case stop(APNSClient)
        /// Decide at short intervals while clients wait for room.
        case watch
    }

    private let configuration: APNSClientGroup.Configuration
    private let registry: AppRegistry
    /// The settings that `update` changes.
    let live: LiveSettings
    /// The hub to which all clients report invalid device tokens.
    let invalidTokens = EventHub<InvalidToken>()
    private let contexts: TLSContexts
    private let tokenCaches: TokenCaches
    private let jobs: AsyncStream<Job>
    private let job: AsyncStream<Job>.Continuation
    private let over = Latch()

    init(
        _ configuration: APNSClientGroup.Configuration,
        _ registry: AppRegistry,
        _ jobs: (stream: AsyncStream<Job>, continuation: AsyncStream<Job>.Continuation)
    ) {
        self.configuration = configuration
        self.registry = registry
        self.live = LiveSettings(configuration.client)
        self.contexts = TLSContexts(trust: configuration.client.trust)
        self.tokenCaches = TokenCaches(clock: configuration.client.clock, wallClock: configuration.client.wallClock)
        self.jobs = jobs.stream
        self.job = jobs.continuation
    }

    // MARK: Life

    func run() async throws {
        guard self.registry.beginRun() else {
            throw APNSConfigurationError.alreadyRunning("run", "group")
        }
        defer { self.invalidTokens.finish() }
        await withDiscardingTaskGroup { group in
            group.addTask { await self.sweep() }
            // A read of a file may take minutes. The end of the group does not wait for it.
            group.addTask { await self.over.cancelling { await self.readAgain() } }
            for await job in self.jobs {
                switch job {
                case .start(let clientID, let connections):
                    group.addTask { await self.runClient(clientID, connections) }
                case .grow(let clientID):
                    self.live.apply { self.apply($0, to: clientID) }
                case .stop(let client):
                    client.runtime.lifecycle.beginDrain(within: self.live.settings.timeouts.drain)
                case .watch:
                    group.addTask { await self.watch() }
                }
            }
            // The group was cancelled or shut down.
            self.beginShutdown()
        }
    }

    func beginShutdown() {
        for client in self.registry.beginShutdown() {
            client.runtime.lifecycle.beginDrain(within: self.live.settings.timeouts.drain)
        }
        self.over.open()
        self.job.finish()
    }

    private func sweep() async {
        let pause = max(min(self.configuration.idleTimeout / 4, .seconds(5)), .milliseconds(250))
        while !self.over.isOpen, !Task.isCancelled {
            let next = self.registry.now.advanced(by: pause)
            if await self.over.wait(until: next, clock: self.configuration.client.clock) { return }
            _ = self.registry.decide()
        }
    }

    /// Reads the authentication of clients that could not be made, once a minute. Without this, their health would be
    /// `failing` until the next push, which may wait for a good health.
    private func readAgain() async {
        while !Task.isCancelled {
            let next = self.registry.now.advanced(by: .seconds(60))
            if await self.over.wait(until: next, clock: self.configuration.client.clock) { return }
            for (clientID, authentication) in self.registry.unmade {
                let resolved = try? await authentication.resolved(wallNow: self.configuration.client.wallClock())
                if resolved != nil { self.registry.canBeMade(clientID) }
            }
        }
    }

    /// Decides every 100 ms while clients wait for room.
    private func watch() async {
        repeat {
            let next = self.registry.now.advanced(by: .milliseconds(100))
            if await self.over.wait(until: next, clock: self.configuration.client.clock) || Task.isCancelled { return }
        } while self.registry.decide()
    }

    /// Runs a client from its start to its end.
    private func runClient(_ clientID: ConnectionQuota.ClientID, _ connections: Int) async {
        guard let entry = self.registry.entry(clientID) else { return }
        let client: APNSClient
        do throws(APNSConfigurationError) {
            client = try await self.makeClient(clientID, entry, connections)
        } catch {
            self.configuration.client.logger.error(
                "an app's client cannot be started",
                metadata: ["apps": "\(entry.appNames)", "error": "\(error)"]
            )
            let failure = PushError(code: .configuration, certainty: .notSent, message: error.description)
            self.registry.ended(clientID, .failure(failure))
            return
        }
        // Its files may have changed since the last client read them.
        self.registry.use(client.runtime.credentials.latest.resolved, by: clientID)
        guard self.registry.started(clientID, client) else {
            self.registry.ended(clientID, .failure(AppRegistry.shuttingDown))
            return
        }
        // The settings and the number of connections may have changed while the client was being made.
        self.live.apply { self.apply($0, to: clientID) }
        // It fails if all its apps were removed while it was being made, so that it was shut down before it could run.
        try? await client.runtime.run()
        self.registry.ended(clientID, client.runtime.credentials.isRevoked ? .failure(AppRegistry.revoked) : nil)
    }

    private func makeClient(
        _ clientID: ConnectionQuota.ClientID,
        _ entry: AppRegistry.ClientEntry,
        _ connections: Int
    ) async throws(APNSConfigurationError) -> APNSClient {
        let live = self.live.settings
        var configuration = live.applied(to: self.configuration.client)
        configuration.pool = live.pool.limited(to: connections)
        configuration.groupInvalidTokens = self.invalidTokens
        configuration.authentication = entry.authentication
        configuration.environment = entry.environment
        // Apps with different topics may share the client.
        configuration.defaultTopic = nil
        configuration.tlsContexts = self.contexts
        configuration.tokenCaches = self.tokenCaches
        configuration.onWorkerTally = { [weak registry = self.registry] in registry?.readTally(of: clientID) }
        configuration.onCredential = { [weak registry = self.registry] in registry?.change(to: $0, by: clientID) }
        configuration.logger[metadataKey: "apps"] = "\(entry.appNames)"
        configuration.metricLabels = [.init(name: "app", value: entry.appNames)]
        let settings = configuration
        let result = try? await NIOThreadPool.singleton.runIfActive {
            Result { () throws(APNSConfigurationError) in try APNSClient(configuration: settings) }
        }
        guard let result else {
            throw APNSConfigurationError(.missing, setting: "app", message: "The task was cancelled.")
        }
        return try result.get()
    }

    // MARK: Settings

    func update(_ change: (inout APNSClientSettings) -> Void) throws(APNSConfigurationError) {
        try self.live.change(change) { settings throws(APNSConfigurationError) in
            try settings.applied(to: self.configuration.client).validate()
        } apply: { settings in
            for clientID in self.registry.resize(to: settings.pool.workerCount) { self.apply(settings, to: clientID) }
        }
    }

    /// Passes settings on to a client, with the number of connections that the quota gives it. Has no effect if the
    /// client does not run.
    ///
    /// Called only under the lock of `live`: the last call then has the latest settings and number. A client is never
    /// given more than the quota has reserved for it, because only `update` reduces the number.
    private func apply(_ settings: APNSClientSettings, to clientID: ConnectionQuota.ClientID) {
        let (client, connections) = self.registry.allowance(clientID)
        guard let client else { return }
        do {
            try client.runtime.update { own in
                own = settings
                own.pool = settings.pool.limited(to: connections)
            }
        } catch {
            client.runtime.configuration.logger.error(
                "a client rejected its new settings and keeps the old ones",
                metadata: ["error": "\(error)"]
            )
        }
    }
}

extension APNSClientConfiguration.Pool {
    /// These pool settings with exactly this number of connections in total. `size` does not grow.
    func limited(to connections: Int) -> Self {
        var pool = self
        pool.size = min(self.size, connections)
        pool.maxOverflow = connections - pool.size
        return pool
    }
}
