import APNSModel
import HTTP2Wire
import Logging
import NIOPosix
import SupervisedPool
import Synchronization

/// The implementation of a group: its apps and the clients that run for them. `ConnectionQuota` makes the decisions.
final class ClientGroupCore: Sendable {
    /// Identifies the apps that share a pool.
    struct ClientKey: Hashable {
        var environment: APNSEnvironment
        /// The credential. With the isolation `perApp`, or if the credential's public key is not known: the app.
        var owner: String
    }

    struct ClientEntry {
        var key: ClientKey
        var authentication: APNSAuthentication
        var tokens: ProcessTokenSource
        var environment: APNSEnvironment
        var apps: Set<String>
        var client: APNSClient?
        /// The callers that wait until the client runs.
        var start = ClientStart()
    }

    /// One wait for a client, shared by all callers that wait for it.
    final class ClientStart: Sendable {
        let latch = Latch()
        let result = Mutex<Result<APNSClient, PushError>?>(nil)

        func end(_ result: Result<APNSClient, PushError>) {
            self.result.withLock { $0 = result }
            self.latch.open()
        }
    }

    struct AppInfo {
        var app: APNSApp
        var resolved: ResolvedAuthentication
        var clientIDs: [APNSEnvironment: ConnectionQuota.ClientID]
    }

    struct State {
        var quota: ConnectionQuota
        var clients: [ConnectionQuota.ClientID: ClientEntry] = [:]
        var byKey: [ClientKey: ConnectionQuota.ClientID] = [:]
        var apps: [String: AppInfo] = [:]
        var tokenSources = ProcessTokenSources()
        var hasRun = false
        var isOver = false
    }

    private enum Job: Sendable {
        case start(ConnectionQuota.ClientID, connections: Int)
        case grow(ConnectionQuota.ClientID)
        case stop(APNSClient)
    }

    /// The right to use a client until `leave` is called.
    struct Use: Sendable {
        let clientID: ConnectionQuota.ClientID
        let client: APNSClient
        let isCall: Bool
    }

    let configuration: APNSClientGroup.Configuration
    // Used for each push: reading it from the configuration would copy the whole configuration.
    private let clock: any MonotonicClock
    /// The settings that `update` changes.
    let live: LiveSettings
    /// The hub to which all clients report invalid device tokens.
    let invalidTokens = EventHub<InvalidToken>()
    private let contexts: TLSContexts
    private let renewals = TeamRenewals()
    let state: Mutex<State>
    private let jobs: AsyncStream<Job>
    private let job: AsyncStream<Job>.Continuation
    private let over = Latch()

    var now: MonotonicInstant { self.clock.now }

    init(_ configuration: APNSClientGroup.Configuration) throws(APNSConfigurationError) {
        try configuration.client.validate()
        guard (1...100_000).contains(configuration.maxConnections) else {
            throw APNSConfigurationError(
                .outOfRange,
                setting: "maxConnections",
                message: "'maxConnections' is \(configuration.maxConnections); allowed: 1 to 100000"
            )
        }
        guard configuration.idleTimeout >= .seconds(1) else {
            throw APNSConfigurationError(
                .outOfRange,
                setting: "idleTimeout",
                message: "'idleTimeout' is \(configuration.idleTimeout); allowed: 1 s or more"
            )
        }
        self.configuration = configuration
        self.clock = configuration.client.clock
        self.live = LiveSettings(configuration.client)
        self.contexts = TLSContexts(trust: configuration.client.trust)
        self.state = Mutex(
            State(
                quota: ConnectionQuota(
                    cap: configuration.maxConnections,
                    connections: configuration.client.pool.workerCount,
                    idleTimeout: configuration.idleTimeout
                )
            )
        )
        (self.jobs, self.job) = AsyncStream.makeStream()
    }

    // MARK: Apps

    func set(_ app: APNSApp, mayReplace: Bool) throws(APNSConfigurationError) {
        guard !app.name.isEmpty, !app.topic.isEmpty, !app.environments.isEmpty else {
            throw APNSConfigurationError(
                .missing,
                setting: "app",
                message: "An app needs a name, a topic and at least one environment."
            )
        }
        let resolved = try app.authentication.resolve(wallNow: self.configuration.client.wallClock())
        let ownPool = "app/\(app.name)"
        let owner = self.configuration.isolation == .perApp ? ownPool : resolved.credentialID ?? ownPool
        let isFree = self.state.withLock { state in
            guard mayReplace || state.apps[app.name] == nil else { return false }
            let tokens = state.tokenSources.retain(resolved.signer?.key, clock: self.clock)
            // Release the old key after retaining the new one: an unchanged key then keeps its token.
            if let old = state.apps[app.name] { state.tokenSources.release(old.resolved.signer?.key) }
            // A new key never uses the old key's pools, whatever the isolation.
            if let old = state.apps[app.name], !old.resolved.isSame(as: resolved) { self.release(app.name, &state) }
            var clientIDs: [APNSEnvironment: ConnectionQuota.ClientID] = [:]
            for environment in app.environments {
                let key = ClientKey(environment: environment, owner: owner)
                let clientID: ConnectionQuota.ClientID
                if let known = state.byKey[key] {
                    clientID = known
                } else {
                    clientID = state.quota.add()
                    state.byKey[key] = clientID
                    state.clients[clientID] = ClientEntry(
                        key: key,
                        authentication: app.authentication,
                        tokens: tokens,
                        environment: environment,
                        apps: []
                    )
                }
                state.clients[clientID]?.apps.insert(app.name)
                clientIDs[environment] = clientID
            }
            for clientID in (state.apps[app.name]?.clientIDs ?? [:]).values where !clientIDs.values.contains(clientID) {
                self.release(app.name, from: clientID, &state)
            }
            state.apps[app.name] = AppInfo(
                app: app,
                resolved: resolved,
                clientIDs: clientIDs
            )
            return true
        }
        guard isFree else {
            throw APNSConfigurationError(
                .conflict,
                setting: "app.name",
                message: "The group already has an app '\(app.name)'. Use replace to change it."
            )
        }
    }

    func remove(_ name: String) -> Bool {
        self.state.withLock { state in
            guard state.apps[name] != nil else { return false }
            self.release(name, &state)
            state.tokenSources.release(state.apps[name]?.resolved.signer?.key)
            state.apps[name] = nil
            return true
        }
    }

    private func release(_ name: String, _ state: inout State) {
        for clientID in (state.apps[name]?.clientIDs ?? [:]).values { self.release(name, from: clientID, &state) }
        state.apps[name]?.clientIDs = [:]
    }

    private func release(_ name: String, from clientID: ConnectionQuota.ClientID, _ state: inout State) {
        guard state.clients[clientID]?.apps.remove(name) != nil, let entry = state.clients[clientID], entry.apps.isEmpty
        else {
            return
        }
        state.byKey[entry.key] = nil
        entry.start.end(.failure(Self.noApp(name)))
        self.perform(state.quota.remove(clientID, now: self.now), &state)
    }

    static func noApp(_ name: String, _ environment: APNSEnvironment, _ state: State) -> PushError {
        guard let app = state.apps[name] else { return Self.noApp(name) }
        let environments = app.clientIDs.keys.map(\.description).sorted().joined(separator: ", ")
        return PushError(
            code: .configuration,
            certainty: .notSent,
            message: "the app '\(name)' has no environment \(environment); it has \(environments)"
        )
    }

    static func noApp(_ name: String) -> PushError {
        PushError(code: .configuration, certainty: .notSent, message: "the group has no app '\(name)'")
    }

    // MARK: Sending

    func deliver(
        _ push: consuming some PushContent,
        topic: String,
        to token: DeviceToken,
        app: String,
        environment: APNSEnvironment,
        options: DeliveryOptions
    ) async -> PushOutcome {
        let deadline = self.deadline(options.deadline)
        if let refusal = self.refusal(topic, app) { return .failed(self.withAPNSID(refusal, options)) }
        switch await self.use(app, environment, until: deadline) {
        case .failure(let error):
            return .failed(self.withAPNSID(error, options))
        case .success(let use):
            defer { self.leave(use) }
            var options = options
            options.deadline = self.now.duration(to: deadline)
            return await push.deliver(with: use.client, to: token, options: options)
        }
    }

    /// The deadline of a push that begins now; nil uses the default time limit.
    func deadline(_ time: Duration?) -> MonotonicInstant {
        self.now.advanced(by: time ?? .nanoseconds(self.live.deadlineNanoseconds))
    }

    @inline(never)
    private func withAPNSID(_ error: PushError, _ options: DeliveryOptions) -> PushError {
        var error = error
        error.apnsID = options.apnsID
        return error
    }

    @inline(never)
    func refusal(_ pushTopic: String, _ name: String) -> PushError? {
        guard let topic = self.state.withLock({ $0.apps[name]?.app.topic }) else { return Self.noApp(name) }
        if pushTopic == topic || pushTopic.hasPrefix(topic + ".") { return nil }
        return PushError(
            code: .configuration,
            certainty: .notSent,
            message: "the push is for the topic '\(pushTopic)', but the app '\(name)' has '\(topic)'"
        )
    }

    // `use` and `leave` are not inlined: their temporary values would otherwise occupy the task's memory for the
    // duration of the push.

    /// Returns the app's client, which runs or is about to run. `leave` must follow.
    @inline(never)
    func use(
        _ name: String,
        _ environment: APNSEnvironment,
        asCall: Bool = false,
        until deadline: MonotonicInstant
    ) async -> Result<Use, PushError> {
        let (immediate, clientID, start) = self.enter(name, environment, asCall)
        if let immediate { return immediate }
        let result = await self.wait(for: start, clientID, asCall, until: deadline)
        // The app got another key meanwhile. The client that has started uses the old key, for other apps.
        guard self.hasMoved(name, environment, from: clientID) else { return result }
        if case .success(let use) = result { self.leave(use) }
        return await self.use(name, environment, asCall: asCall, until: deadline)
    }

    private func enter(
        _ name: String,
        _ environment: APNSEnvironment,
        _ isCall: Bool
    ) -> (result: Result<Use, PushError>?, clientID: ConnectionQuota.ClientID, start: ClientStart) {
        self.state.withLock { state -> (Result<Use, PushError>?, ConnectionQuota.ClientID, ClientStart) in
            guard let clientID = state.apps[name]?.clientIDs[environment], let start = state.clients[clientID]?.start
            else {
                return (.failure(Self.noApp(name, environment, state)), 0, ClientStart())
            }
            if state.isOver { return (.failure(Self.shuttingDown), clientID, start) }
            let (admission, actions) = state.quota.enter(clientID, asCall: isCall, now: self.now)
            self.perform(actions, &state)
            switch admission {
            case .gone: return (.failure(Self.noApp(name)), clientID, start)
            case .wait: return (nil, clientID, start)
            case .use:
                guard let client = state.clients[clientID]?.client else {
                    return (.failure(Self.noApp(name)), clientID, start)
                }
                return (.success(Use(clientID: clientID, client: client, isCall: isCall)), clientID, start)
            }
        }
    }

    private func hasMoved(_ name: String, _ environment: APNSEnvironment, from clientID: ConnectionQuota.ClientID)
        -> Bool
    {
        self.state.withLock { state in
            guard !state.isOver, let new = state.apps[name]?.clientIDs[environment] else { return false }
            return new != clientID
        }
    }

    private func wait(
        for start: ClientStart,
        _ clientID: ConnectionQuota.ClientID,
        _ isCall: Bool,
        until deadline: MonotonicInstant
    ) async -> Result<Use, PushError> {
        _ = await start.latch.wait(until: deadline, clock: self.clock)
        return self.result(of: start, clientID, isCall)
    }

    private func result(of start: ClientStart, _ clientID: ConnectionQuota.ClientID, _ isCall: Bool) -> Result<
        Use, PushError
    > {
        self.state.withLock { state in
            // `ClientStart.end` is called under the same lock: either the client is there, or the wait is given up.
            if let result = start.result.withLock({ $0 }) {
                return result.map { Use(clientID: clientID, client: $0, isCall: isCall) }
            }
            self.perform(state.quota.giveUp(clientID, asCall: isCall, now: self.now), &state)
            if Task.isCancelled {
                return .failure(
                    PushError(code: .cancelled, certainty: .notSent, message: "the sending task was cancelled")
                )
            }
            guard state.hasRun else {
                return .failure(
                    PushError(code: .notRunning, certainty: .notSent, message: "the group is not running: call run()")
                )
            }
            return .failure(
                PushError(
                    code: .deadlineExceeded,
                    certainty: .notSent,
                    message:
                        "other apps use all \(self.configuration.maxConnections) connections: raise maxConnections"
                )
            )
        }
    }

    @inline(never)
    func leave(_ use: Use) {
        self.state.withLock { state in
            self.perform(state.quota.leave(use.clientID, asCall: use.isCall, now: self.now), &state)
        }
    }

    private static let shuttingDown = PushError(
        code: .shuttingDown,
        certainty: .notSent,
        message: "the group is shutting down and takes no further pushes"
    )

    // MARK: Clients

    func perform(_ actions: [ConnectionQuota.Action], _ state: inout State) {
        for action in actions {
            switch action {
            case .start(let clientID, let connections):
                self.job.yield(.start(clientID, connections: connections))
            case .grow(let clientID):
                self.job.yield(.grow(clientID))
            case .stop(let clientID):
                if let client = state.clients[clientID]?.client { self.job.yield(.stop(client)) }
            case .resume(let clientID):
                guard let entry = state.clients[clientID], let client = entry.client else { continue }
                entry.start.end(.success(client))
                state.clients[clientID]?.start = ClientStart()
            case .forget(let clientID):
                state.clients[clientID] = nil
            }
        }
    }

    func run() async throws {
        let isFirst = self.state.withLock { state in
            defer { state.hasRun = true }
            return !state.hasRun
        }
        guard isFirst else {
            throw APNSConfigurationError(
                .alreadyRunning,
                setting: "run",
                message: "the group is already running or has ended: a group can run only once"
            )
        }
        defer { self.invalidTokens.finish() }
        await withDiscardingTaskGroup { group in
            group.addTask { await self.sweep() }
            for await job in self.jobs {
                switch job {
                case .start(let clientID, let connections):
                    group.addTask { await self.runClient(clientID, connections) }
                case .grow(let clientID):
                    self.live.apply { self.apply($0, to: clientID) }
                case .stop(let client):
                    client.runtime.lifecycle.beginDrain(within: self.live.settings.timeouts.drain)
                }
            }
            // The group was cancelled or shut down.
            self.beginShutdown()
        }
    }

    func beginShutdown() {
        let clients = self.state.withLock { state in
            state.isOver = true
            for entry in state.clients.values where entry.client == nil { entry.start.end(.failure(Self.shuttingDown)) }
            return state.clients.values.compactMap(\.client)
        }
        for client in clients {
            client.runtime.lifecycle.beginDrain(within: self.live.settings.timeouts.drain)
        }
        self.over.open()
        self.job.finish()
    }

    private func sweep() async {
        let pause = max(min(self.configuration.idleTimeout / 4, .seconds(5)), .milliseconds(250))
        while !self.over.isOpen, !Task.isCancelled {
            let next = self.now.advanced(by: pause)
            if await self.over.wait(until: next, clock: self.clock) { return }
            self.state.withLock { state in self.perform(state.quota.sweep(now: self.now), &state) }
        }
    }

    /// Runs a client from its start to its end.
    private func runClient(_ clientID: ConnectionQuota.ClientID, _ connections: Int) async {
        guard let entry = self.state.withLock({ $0.clients[clientID] }) else { return }
        let client: APNSClient
        do throws(APNSConfigurationError) {
            client = try await self.makeClient(clientID, entry, connections)
        } catch {
            self.configuration.client.logger.error(
                "an app's client cannot be started",
                metadata: ["apps": "\(entry.apps.sorted().joined(separator: ", "))", "error": "\(error)"]
            )
            let failure = PushError(code: .configuration, certainty: .notSent, message: error.description)
            self.end(clientID, .failure(failure))
            return
        }
        let isWanted = self.state.withLock { state in
            guard !state.isOver, let start = state.clients[clientID]?.start else { return false }
            state.clients[clientID]?.client = client
            self.perform(state.quota.started(clientID, now: self.now), &state)
            start.end(.success(client))
            state.clients[clientID]?.start = ClientStart()
            return true
        }
        guard isWanted else {
            self.end(clientID, .failure(Self.shuttingDown))
            return
        }
        // The settings and the number of connections may have changed while the client was being made.
        self.live.apply { self.apply($0, to: clientID) }
        do {
            try await client.runtime.run()
        } catch is CancellationError {
        } catch let error as APNSConfigurationError where error.code == .alreadyRunning {
            // All its apps were removed while it was being made, so it was shut down before it could run.
        } catch {
            self.configuration.client.logger.error("an app's client ended", metadata: ["error": "\(error)"])
        }
        self.end(clientID, nil)
    }

    private func makeClient(
        _ clientID: ConnectionQuota.ClientID,
        _ entry: ClientEntry,
        _ connections: Int
    ) async throws(APNSConfigurationError) -> APNSClient {
        let live = self.live.settings
        var configuration = live.applied(to: self.configuration.client)
        configuration.pool = live.pool.limited(to: connections)
        configuration.groupInvalidTokens = self.invalidTokens
        configuration.authentication = entry.authentication
        if configuration.authentication.tokenSource == nil { configuration.authentication.tokenSource = entry.tokens }
        configuration.environment = entry.environment
        configuration.tlsContexts = self.contexts
        configuration.teamRenewals = self.renewals
        configuration.onWorkerTally = { [weak self] in self?.readTally(of: clientID) }
        let apps = entry.apps.sorted().joined(separator: ", ")
        configuration.logger[metadataKey: "apps"] = "\(apps)"
        configuration.metricLabels = [.init(name: "app", value: apps)]
        let settings = configuration
        let result = try? await NIOThreadPool.singleton.runIfActive {
            Result { () throws(APNSConfigurationError) in try APNSClient(configuration: settings) }
        }
        guard let result else {
            throw APNSConfigurationError(.missing, setting: "app", message: "The task was cancelled.")
        }
        return try result.get()
    }

    /// - Parameter result: The result for waiting callers; nil: they keep waiting.
    private func end(_ clientID: ConnectionQuota.ClientID, _ result: Result<APNSClient, PushError>?) {
        self.state.withLock { state in
            state.clients[clientID]?.client = nil
            if let result, let start = state.clients[clientID]?.start {
                state.clients[clientID]?.start = ClientStart()
                start.end(result)
            }
            let isOver = state.isOver
            let actions = state.quota.ended(clientID, keepsWaiting: result == nil && !isOver, now: self.now)
            if isOver {
                state.clients[clientID]?.start.end(.failure(Self.shuttingDown))
                self.takeBack(actions, &state)
            } else {
                self.perform(actions, &state)
            }
        }
    }

    /// After the shutdown no client is started, so the connections that were reserved for starts are released.
    private func takeBack(_ actions: [ConnectionQuota.Action], _ state: inout State) {
        var actions = actions
        while let action = actions.popLast() {
            guard case .start(let clientID, _) = action else { continue }
            actions += state.quota.ended(clientID, keepsWaiting: false, now: self.now)
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
