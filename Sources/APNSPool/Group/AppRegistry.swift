import APNSModel
import HTTP2Wire
import SupervisedPool
import Synchronization

/// The apps of a group and the clients that serve them. `ConnectionQuota` decides which clients run, and a
/// `ClientStarter` runs them.
final class AppRegistry: Sendable {
    /// Identifies the apps that share a pool.
    struct ClientKey: Hashable {
        var environment: APNSEnvironment
        /// The credential. With the isolation `perApp`, or if the credential's public key is not known: the app.
        var owner: String
    }

    struct ClientEntry {
        var key: ClientKey
        var authentication: APNSAuthentication
        var environment: APNSEnvironment
        var apps: Set<String>
        var client: APNSClient?
        /// The callers that wait until the client runs.
        var start = ClientStart()
        let ended = EndedUses()
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

    /// The right to use a client until `leave` is called.
    struct Use: Sendable {
        let clientID: ConnectionQuota.ClientID
        let client: APNSClient
        let isCall: Bool
        fileprivate let ended: EndedUses
    }

    /// The answer to a request for a client.
    enum Entrance {
        case use(Use)
        /// Wait for the start, and then call `result`.
        case wait(ClientStart, ConnectionQuota.ClientID)
        case refused(PushError)
    }

    /// The state of an app's client.
    enum Standing {
        /// The app or environment is unknown; the error says why.
        case fault(PushError)
        /// The group is not running yet.
        case notRunning
        case shutDown
        /// No client runs, because there is nothing to send.
        case idle
        /// A client is waiting to start or is starting.
        case starting
        case client(APNSClient)
    }

    struct State {
        var quota: ConnectionQuota
        var clients: [ConnectionQuota.ClientID: ClientEntry] = [:]
        var byKey: [ClientKey: ConnectionQuota.ClientID] = [:]
        var apps: [String: AppInfo] = [:]
        var hasRun = false
        var isOver = false
    }

    let configuration: APNSClientGroup.Configuration
    // Used for each push: reading it from the configuration would copy the whole configuration.
    private let clock: any MonotonicClock
    let state: Mutex<State>
    /// Whether the end of each push must be recorded at once, because it may stop a client. Changed under the lock.
    private let isAttentive = Atomic<Bool>(false)
    /// The work that the quota requests.
    private let job: AsyncStream<ClientStarter.Job>.Continuation

    var now: MonotonicInstant { self.clock.now }

    init(_ configuration: APNSClientGroup.Configuration, _ job: AsyncStream<ClientStarter.Job>.Continuation) {
        self.configuration = configuration
        self.clock = configuration.client.clock
        self.job = job
        self.state = Mutex(
            State(
                quota: ConnectionQuota(
                    cap: configuration.maxConnections,
                    connections: configuration.client.pool.workerCount,
                    idleTimeout: configuration.idleTimeout
                )
            )
        )
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
            // A new key never uses the old key's pools, whatever the isolation.
            if let old = state.apps[app.name], !old.resolved.isSame(as: resolved) { self.release(app.name, &state) }
            var clientIDs: [APNSEnvironment: ConnectionQuota.ClientID] = [:]
            for environment in app.environments {
                let key = ClientKey(environment: environment, owner: owner)
                let clientID: ConnectionQuota.ClientID
                if let known = state.byKey[key] {
                    clientID = known
                    // The same key may have moved to another file. The next client reads it there.
                    state.clients[known]?.authentication = app.authentication
                } else {
                    clientID = state.quota.add()
                    state.byKey[key] = clientID
                    state.clients[clientID] = ClientEntry(
                        key: key,
                        authentication: app.authentication,
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

    // MARK: Use

    /// Why the app does not send pushes with this topic; nil if it does.
    func refusal(_ pushTopic: String, _ name: String) -> PushError? {
        self.state.withLock { Self.refusal(pushTopic, name, $0) }
    }

    private static func refusal(_ pushTopic: String, _ name: String, _ state: borrowing State) -> PushError? {
        guard let topic = state.apps[name]?.app.topic else { return Self.noApp(name) }
        if pushTopic == topic || pushTopic.hasPrefix(topic + ".") { return nil }
        return PushError(
            code: .configuration,
            certainty: .notSent,
            message: "the push is for the topic '\(pushTopic)', but the app '\(name)' has '\(topic)'"
        )
    }

    /// Requests the use of an app's client. After `use`, `leave` must follow. One lock.
    ///
    /// - Parameter topic: The topic of the push, which is checked; nil: not checked.
    func enter(
        _ name: String,
        _ environment: APNSEnvironment,
        topic: String?,
        asCall isCall: Bool
    ) -> Entrance {
        self.state.withLock { state -> Entrance in
            if let topic, let refusal = Self.refusal(topic, name, state) { return .refused(refusal) }
            guard let clientID = state.apps[name]?.clientIDs[environment], let entry = state.clients[clientID] else {
                return .refused(Self.noApp(name, environment, state))
            }
            if state.isOver { return .refused(Self.shuttingDown) }
            let (admission, actions) = state.quota.enter(clientID, asCall: isCall, now: self.now)
            switch admission {
            case .use:
                if !actions.isEmpty { self.perform(actions, &state) }
                guard let client = entry.client else { return .refused(Self.noApp(name)) }
                return .use(Use(clientID: clientID, client: client, isCall: isCall, ended: entry.ended))
            case .wait:
                self.perform(actions, &state)
                return .wait(entry.start, clientID)
            case .gone:
                return .refused(Self.noApp(name))
            }
        }
    }

    /// Whether the app has another client by now, because it got another key.
    func hasMoved(_ name: String, _ environment: APNSEnvironment, from clientID: ConnectionQuota.ClientID) -> Bool {
        self.state.withLock { state in
            guard !state.isOver, let new = state.apps[name]?.clientIDs[environment] else { return false }
            return new != clientID
        }
    }

    /// The result of a wait. Without one, the wait is given up.
    func result(of start: ClientStart, _ clientID: ConnectionQuota.ClientID, asCall isCall: Bool) -> Result<
        Use, PushError
    > {
        self.state.withLock { state in
            // `ClientStart.end` is called under the same lock: either the client is there, or the wait is given up.
            if let result = start.result.withLock({ $0 }) {
                return result.map { client in
                    Use(
                        clientID: clientID,
                        client: client,
                        isCall: isCall,
                        ended: state.clients[clientID]?.ended ?? EndedUses()
                    )
                }
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

    /// Ends the use of a client. Takes no lock for a push while nothing waits for its end.
    func leave(_ use: Use) {
        if use.isCall {
            self.state.withLock { state in
                self.perform(state.quota.leave(use.clientID, asCall: true, now: self.now), &state)
            }
        } else {
            use.ended.add(at: self.now)
            // Sequentially consistent, as in `listen`: either that sees this end, or this sees that it is awaited.
            guard self.isAttentive.load(ordering: .sequentiallyConsistent) else { return }
            self.state.withLock { state in self.perform(self.takeEnded(use.clientID, &state), &state) }
        }
    }

    /// Records the pushes of a client that have ended.
    private func takeEnded(_ clientID: ConnectionQuota.ClientID, _ state: inout State) -> [ConnectionQuota.Action] {
        guard let (count, last) = state.clients[clientID]?.ended.take() else { return [] }
        return state.quota.leave(clientID, count: count, now: last)
    }

    private func takeAllEnded(_ state: inout State) -> [ConnectionQuota.Action] {
        Array(state.clients.keys).flatMap { self.takeEnded($0, &state) }
    }

    static let shuttingDown = PushError(
        code: .shuttingDown,
        certainty: .notSent,
        message: "the group is shutting down and takes no further pushes"
    )

    // MARK: Clients

    /// Carries out what the quota has decided. Called after each change of the quota.
    func perform(_ actions: [ConnectionQuota.Action], _ state: inout State) {
        self.carryOut(actions, &state)
        self.listen(&state)
    }

    /// Records each end of a push at once while the quota waits for it, and only then.
    private func listen(_ state: inout State) {
        while state.quota.awaitsLeaves != self.isAttentive.load(ordering: .relaxed) {
            let isAttentive = state.quota.awaitsLeaves
            self.isAttentive.store(isAttentive, ordering: .sequentiallyConsistent)
            // The ends before this moment.
            if isAttentive { self.carryOut(self.takeAllEnded(&state), &state) }
        }
    }

    private func carryOut(_ actions: [ConnectionQuota.Action], _ state: inout State) {
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

    /// Records that the group runs. Returns false if it has run before.
    func beginRun() -> Bool {
        self.state.withLock { state in
            defer { state.hasRun = true }
            return !state.hasRun
        }
    }

    /// Refuses work from now on, and returns the clients that run.
    func beginShutdown() -> [APNSClient] {
        self.state.withLock { state in
            state.isOver = true
            for entry in state.clients.values where entry.client == nil { entry.start.end(.failure(Self.shuttingDown)) }
            return state.clients.values.compactMap(\.client)
        }
    }

    /// Stops the clients that were idle for too long.
    func sweep() {
        self.state.withLock { state in
            self.perform(self.takeAllEnded(&state), &state)
            self.perform(state.quota.sweep(now: self.now), &state)
        }
    }

    func entry(_ clientID: ConnectionQuota.ClientID) -> ClientEntry? { self.state.withLock { $0.clients[clientID] } }

    /// A client was made. Returns false if it is not wanted any more.
    func started(_ clientID: ConnectionQuota.ClientID, _ client: APNSClient) -> Bool {
        self.state.withLock { state in
            guard !state.isOver, let start = state.clients[clientID]?.start else { return false }
            state.clients[clientID]?.client = client
            self.perform(state.quota.started(clientID, now: self.now), &state)
            start.end(.success(client))
            state.clients[clientID]?.start = ClientStart()
            return true
        }
    }

    /// A client has ended or could not be made.
    ///
    /// - Parameter result: The result for waiting callers; nil: they keep waiting.
    func ended(_ clientID: ConnectionQuota.ClientID, _ result: Result<APNSClient, PushError>?) {
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

    /// Sets the number of connections that each client should have. Returns all clients.
    func resize(to connections: Int) -> [ConnectionQuota.ClientID] {
        self.state.withLock { state in
            state.quota.resize(to: connections)
            return Array(state.clients.keys)
        }
    }

    /// A client that runs, and the number of connections that it may use.
    func allowance(_ clientID: ConnectionQuota.ClientID) -> (client: APNSClient?, connections: Int) {
        self.state.withLock { state in (state.clients[clientID]?.client, state.quota.connections(clientID)) }
    }

    /// Tells the quota which connections of a client are closed. Not after the shutdown, when all clients end.
    func readTally(of clientID: ConnectionQuota.ClientID) {
        self.state.withLock { state in
            guard !state.isOver, let client = state.clients[clientID]?.client else { return }
            // Read under the lock, so that it is the client's present state, whatever the order of the calls.
            let count = client.runtime.workers.count
            let actions = state.quota.applied(
                clientID,
                connections: count.limit,
                surplus: count.surplus,
                now: self.now
            )
            self.perform(actions, &state)
        }
    }

    // MARK: State

    func standing(_ name: String, _ environment: APNSEnvironment) -> Standing {
        self.state.withLock { state in
            guard let clientID = state.apps[name]?.clientIDs[environment] else {
                return .fault(Self.noApp(name, environment, state))
            }
            return self.standing(clientID, state)
        }
    }

    private func standing(_ clientID: ConnectionQuota.ClientID, _ state: State) -> Standing {
        if state.isOver { return .shutDown }
        if !state.hasRun { return .notRunning }
        if let client = state.clients[clientID]?.client { return .client(client) }
        switch state.quota.state(clientID) {
        case .queued, .starting, .running, .yielding: return .starting
        case .stopped, .stopping, nil: return .idle
        }
    }

    /// The running clients, each with the names of its apps.
    var runningClients: [(apps: String, client: APNSClient)] {
        self.state.withLock { state in
            state.clients.values.compactMap { entry in
                entry.client.map { (entry.apps.sorted().joined(separator: ", "), $0) }
            }
        }.sorted { $0.apps < $1.apps }
    }

    var hasRun: Bool { self.state.withLock { $0.hasRun } }
    var isOver: Bool { self.state.withLock { $0.isOver } }

    func topic(_ name: String) -> String? { self.state.withLock { $0.apps[name]?.app.topic } }

    /// How many callers wait until the app's client runs.
    func waiting(_ name: String, _ environment: APNSEnvironment) -> Int {
        self.state.withLock { state in state.apps[name]?.clientIDs[environment].map { state.quota.waiting($0) } ?? 0 }
    }

    var reservedConnections: Int { self.state.withLock { $0.quota.totalReserved } }

    var status: [APNSClientGroup.AppStatus] {
        self.state.withLock { state in
            self.perform(self.takeAllEnded(&state), &state)
            return state.apps.values.flatMap { info in
                info.clientIDs.map { environment, clientID in
                    APNSClientGroup.AppStatus(
                        app: info.app.name,
                        environment: environment,
                        credential: info.resolved.name,
                        isRunning: state.clients[clientID]?.client != nil,
                        connections: state.quota.connections(clientID),
                        inFlight: state.quota.users(clientID),
                        certificateExpiry: info.resolved.certificate?.notAfter
                    )
                }
            }.sorted { ($0.app, $0.environment.description) < ($1.app, $1.environment.description) }
        }
    }
}
