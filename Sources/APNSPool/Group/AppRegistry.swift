import APNSModel
import APNSTransport
import SupervisedPool
import Synchronization

/// The apps of a group and the clients that serve them. `ConnectionQuota` decides which clients run, and a
/// `ClientStarter` runs them.
final class AppRegistry: Sendable {
    /// Identifies the apps that share a pool.
    struct ClientKey: Hashable {
        var environment: APNSEnvironment
        /// The credential and its source. With the isolation `perApp`, or if the credential's public key is not known: the
        /// app with one of its credentials.
        var owner: String
    }

    struct ClientEntry {
        var key: ClientKey
        /// The next client is made with it.
        var authentication: APNSAuthentication
        var environment: APNSEnvironment
        /// The apps that hold the client, each with the number of its holds: its own, and one for each of its candidates.
        var apps: [String: Int]
        /// Their names, sorted.
        var appNames: String { self.apps.keys.sorted().joined(separator: ", ") }
        var client: APNSClient?
        /// Why the last client could not be made, or that its credential was revoked: then there is no further client.
        var failure: PushError?
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
        /// The owner of its clients.
        var owner: String
        var clientIDs: [APNSEnvironment: ConnectionQuota.ClientID]
        /// The number of the last change that was made or begun.
        var change: Int
    }

    /// A new credential of an app, for which there are clients beside those of the old one.
    struct Candidate {
        var app: APNSApp
        var resolved: ResolvedAuthentication
        var owner: String
        var clientIDs: [APNSEnvironment: ConnectionQuota.ClientID]
        /// The app's `change` when the candidate began.
        var change: Int
    }

    /// The answer to a request for a client.
    enum Entrance {
        case use(APNSClient)
        /// Wait for the start, and then call `result`.
        case wait(ClientStart, ConnectionQuota.ClientID)
        case refused(PushError)
    }

    /// The state of an app's client.
    enum Standing {
        /// The app or environment is unknown, or its client could not be made; the error says why.
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
        var lastOwner = 0
        var lastChange = 0
        var hasRun = false
        var isOver = false
        /// Whether a task of the starter makes decisions at short intervals.
        var isWatched = false
    }

    let configuration: APNSClientGroup.Configuration
    // Used for each push: reading it from the configuration would copy the whole configuration.
    private let clock: any MonotonicClock
    let state: Mutex<State>
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

    /// Adds an app, or replaces the one with its name.
    func set(
        _ app: APNSApp,
        _ resolved: ResolvedAuthentication,
        mayReplace: Bool
    ) throws(APNSConfigurationError) {
        try Self.check(app)
        let isFree = self.state.withLock { state in
            guard mayReplace || state.apps[app.name] == nil else { return false }
            self.set(app, resolved, self.owner(of: app, resolved, &state), &state)
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

    private func set(_ app: APNSApp, _ resolved: ResolvedAuthentication, _ owner: String, _ state: inout State) {
        let old = state.apps[app.name]?.clientIDs ?? [:]
        let clientIDs = self.clients(of: app, owner, &state)
        for clientID in clientIDs.values {
            // The credential is the same, but its token source may be another one.
            state.clients[clientID]?.authentication = app.authentication
            // It was read without an error just now. A revocation stays.
            if state.clients[clientID]?.failure?.code == .configuration { state.clients[clientID]?.failure = nil }
        }
        state.lastChange += 1
        state.apps[app.name] = AppInfo(
            app: app,
            resolved: resolved,
            owner: owner,
            clientIDs: clientIDs,
            change: state.lastChange
        )
        for clientID in old.values { self.release(app.name, from: clientID, &state) }
    }

    private static func check(_ app: APNSApp) throws(APNSConfigurationError) {
        guard !app.name.isEmpty, !app.topic.isEmpty, !app.environments.isEmpty else {
            throw APNSConfigurationError(
                .missing,
                setting: "app",
                message: "An app needs a name, a topic and at least one environment."
            )
        }
    }

    /// The owner of the app's clients. A new credential never uses the old one's clients, whatever the isolation. Neither
    /// does the same credential from another source, because a client watches the source that it was made with.
    private func owner(of app: APNSApp, _ resolved: ResolvedAuthentication, _ state: inout State) -> String {
        if self.configuration.isolation != .perApp, let id = resolved.sharedOwner { return id }
        if let old = state.apps[app.name], old.resolved.isSame(as: resolved),
            old.resolved.authentication.source == app.authentication.source
        {
            return old.owner
        }
        state.lastOwner += 1
        return "app/\(app.name)/\(state.lastOwner)"
    }

    /// The clients of an app in all its environments, which are made if there are none. The app holds each of them once
    /// more: `release` ends that.
    private func clients(
        of app: APNSApp,
        _ owner: String,
        _ state: inout State
    ) -> [APNSEnvironment: ConnectionQuota.ClientID] {
        var clientIDs: [APNSEnvironment: ConnectionQuota.ClientID] = [:]
        for environment in app.environments {
            let key = ClientKey(environment: environment, owner: owner)
            let clientID = state.byKey[key] ?? state.quota.add()
            if state.byKey[key] == nil {
                state.byKey[key] = clientID
                state.clients[clientID] = ClientEntry(
                    key: key,
                    authentication: app.authentication,
                    environment: environment,
                    apps: [:]
                )
            }
            state.clients[clientID]?.apps[app.name, default: 0] += 1
            clientIDs[environment] = clientID
        }
        return clientIDs
    }

    // MARK: A new credential

    /// A client changes to another credential. The next client with this number starts with it.
    func change(to resolved: ResolvedAuthentication, by clientID: ConnectionQuota.ClientID) {
        let source = resolved.authentication.source
        self.state.withLock { state in
            // After a change in the same files, the entry's authentication reads it too, and may have a newer token source.
            if source.isEmpty || source != state.clients[clientID]?.authentication.source {
                state.clients[clientID]?.authentication = resolved.authentication
            }
            self.use(resolved, by: clientID, &state)
        }
    }

    /// A client uses a credential, which may be another one than its files held when the app was added.
    func use(_ resolved: ResolvedAuthentication, by clientID: ConnectionQuota.ClientID) {
        self.state.withLock { self.use(resolved, by: clientID, &$0) }
    }

    private func use(_ resolved: ResolvedAuthentication, by clientID: ConnectionQuota.ClientID, _ state: inout State) {
        guard let entry = state.clients[clientID] else { return }
        for name in entry.apps.keys where state.apps[name]?.clientIDs[entry.environment] == clientID {
            state.apps[name]?.resolved = resolved
        }
        guard self.configuration.isolation != .perApp, let owner = resolved.sharedOwner else { return }
        let key = ClientKey(environment: entry.environment, owner: owner)
        self.forget(entry.key, of: clientID, &state)
        if state.byKey[key] == nil { state.byKey[key] = clientID }
        state.clients[clientID]?.key = key
    }

    /// Lets no further app use the client that a key leads to.
    private func forget(_ key: ClientKey, of clientID: ConnectionQuota.ClientID, _ state: inout State) {
        if state.byKey[key] == clientID { state.byKey[key] = nil }
    }

    /// Makes room for clients with an app's new credential, beside those of the old one.
    ///
    /// - Returns: Nil if nothing is at stake: the group does not run, it has no such app, or the app has this credential.
    func begin(_ app: APNSApp, _ resolved: ResolvedAuthentication) throws(APNSConfigurationError) -> Candidate? {
        try Self.check(app)
        return self.state.withLock { state in
            guard state.hasRun, !state.isOver, let old = state.apps[app.name], !old.resolved.isSame(as: resolved) else {
                return nil
            }
            let owner = self.owner(of: app, resolved, &state)
            let clientIDs = self.clients(of: app, owner, &state)
            state.lastChange += 1
            state.apps[app.name]?.change = state.lastChange
            return Candidate(
                app: app,
                resolved: resolved,
                owner: owner,
                clientIDs: clientIDs,
                change: state.lastChange
            )
        }
    }

    /// Replaces an app by its candidate.
    ///
    /// - Returns: False if a later change of the app was made or has begun.
    func adopt(_ candidate: Candidate) -> Bool {
        self.state.withLock { state in
            guard state.apps[candidate.app.name]?.change == candidate.change else { return false }
            self.set(candidate.app, candidate.resolved, candidate.owner, &state)
            return true
        }
    }

    /// Gives the clients of a candidate up, unless the app or another candidate holds them too.
    func end(_ candidate: Candidate) {
        self.state.withLock { state in
            for clientID in candidate.clientIDs.values { self.release(candidate.app.name, from: clientID, &state) }
        }
    }

    /// The environments in which a candidate is probed: those in which the app's clients run; if none does, one of the
    /// app's environments.
    func environmentsToProbe(_ candidate: Candidate) -> [APNSEnvironment] {
        let running = self.state.withLock { state in
            (state.apps[candidate.app.name]?.clientIDs ?? [:]).filter { state.clients[$0.value]?.client != nil }.map(
                \.key
            )
        }
        let environments = running.filter { candidate.clientIDs[$0] != nil }
        if !environments.isEmpty { return environments.sorted { $0.description < $1.description } }
        if candidate.clientIDs[.production] != nil { return [.production] }
        return candidate.clientIDs.keys.min { $0.description < $1.description }.map { [$0] } ?? []
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
        guard let holds = state.clients[clientID]?.apps[name] else { return }
        state.clients[clientID]?.apps[name] = holds > 1 ? holds - 1 : nil
        guard let entry = state.clients[clientID], entry.apps.isEmpty else { return }
        self.forget(entry.key, of: clientID, &state)
        entry.start.end(.failure(Self.noApp(name)))
        self.carryOut(state.quota.remove(clientID), &state)
        self.decide(&state)
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

    /// Requests the use of an app's client. One lock.
    ///
    /// - Parameters:
    ///   - topic: The topic of the push, which is checked; nil: not checked.
    ///   - isCall: Whether the use is a call, which may last much longer than a push.
    func enter(_ name: String, _ environment: APNSEnvironment, topic: String?, asCall isCall: Bool) -> Entrance {
        self.state.withLock { state -> Entrance in
            if let topic, let refusal = Self.refusal(topic, name, state) { return .refused(refusal) }
            guard let clientID = state.apps[name]?.clientIDs[environment] else {
                return .refused(Self.noApp(name, environment, state))
            }
            return self.enter(clientID, name, asCall: isCall, isUrgent: false, &state)
        }
    }

    /// Requests the use of a candidate's client, before the clients that wait for their turn.
    func enter(_ candidate: Candidate, _ environment: APNSEnvironment) -> Entrance {
        self.state.withLock { state in
            guard let clientID = candidate.clientIDs[environment] else {
                return .refused(Self.noApp(candidate.app.name, environment, state))
            }
            return self.enter(clientID, candidate.app.name, asCall: true, isUrgent: true, &state)
        }
    }

    private func enter(
        _ clientID: ConnectionQuota.ClientID,
        _ name: String,
        asCall isCall: Bool,
        isUrgent: Bool,
        _ state: inout State
    ) -> Entrance {
        if state.isOver { return .refused(Self.shuttingDown) }
        guard let entry = state.clients[clientID] else { return .refused(Self.noApp(name)) }
        if let failure = entry.failure, failure.code == .credential { return .refused(failure) }
        switch state.quota.enter(clientID, asCall: isCall, isUrgent: isUrgent, now: self.now) {
        case .use:
            guard let client = entry.client else { return .refused(Self.noApp(name)) }
            return .use(client)
        case .wait:
            self.decide(&state)
            return .wait(entry.start, clientID)
        case .gone:
            return .refused(Self.noApp(name))
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
    func result(of start: ClientStart, _ clientID: ConnectionQuota.ClientID) -> Result<APNSClient, PushError> {
        self.state.withLock { state in
            // `ClientStart.end` is called under the same lock: either the client is there, or the wait is given up.
            if let result = start.result.withLock({ $0 }) { return result }
            state.quota.giveUp(clientID)
            self.decide(&state)
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

    static let shuttingDown = PushError(
        code: .shuttingDown,
        certainty: .notSent,
        message: "the group is shutting down and takes no further pushes"
    )

    static let revoked = PushError(
        code: .credential,
        certainty: .notSent,
        message:
            "the authentication was revoked: nothing is sent until the group's replace changes the app's authentication"
    )

    // MARK: Clients

    /// Lets the quota decide, and carries out its decisions. Called after each change, and at intervals.
    private func decide(_ state: inout State) {
        // After the shutdown, clients only end.
        guard !state.isOver else { return }
        let clients = state.clients
        self.carryOut(state.quota.decide(now: self.now) { clients[$0]?.client?.load ?? ConnectionQuota.Load() }, &state)
        guard state.quota.isPressing, !state.isWatched, state.hasRun else { return }
        state.isWatched = true
        self.job.yield(.watch)
    }

    /// Decides now. Returns whether the next decision is due soon.
    func decide() -> Bool {
        self.state.withLock { state in
            self.decide(&state)
            state.isWatched = state.quota.isPressing && !state.isOver
            return state.isWatched
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
            guard !state.hasRun else { return false }
            state.hasRun = true
            self.decide(&state)
            return true
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

    func entry(_ clientID: ConnectionQuota.ClientID) -> ClientEntry? { self.state.withLock { $0.clients[clientID] } }

    /// A client was made. Returns false if it is not wanted any more.
    func started(_ clientID: ConnectionQuota.ClientID, _ client: APNSClient) -> Bool {
        self.state.withLock { state in
            guard !state.isOver, let start = state.clients[clientID]?.start else { return false }
            state.clients[clientID]?.client = client
            state.clients[clientID]?.failure = nil
            state.quota.started(clientID, now: self.now)
            start.end(.success(client))
            state.clients[clientID]?.start = ClientStart()
            self.decide(&state)
            return true
        }
    }

    /// A client has ended or could not be made.
    ///
    /// - Parameter result: The result for waiting callers; nil: they keep waiting.
    func ended(_ clientID: ConnectionQuota.ClientID, _ result: Result<APNSClient, PushError>?) {
        self.state.withLock { state in
            state.clients[clientID]?.client = nil
            if case .failure(let error) = result { state.clients[clientID]?.failure = error }
            if let result, let start = state.clients[clientID]?.start {
                state.clients[clientID]?.start = ClientStart()
                start.end(result)
            }
            self.carryOut(state.quota.ended(clientID, keepsWaiting: result == nil && !state.isOver), &state)
            if state.isOver { state.clients[clientID]?.start.end(.failure(Self.shuttingDown)) }
            self.decide(&state)
        }
    }

    /// Sets the number of connections that each client should have. Returns all clients.
    func resize(to connections: Int) -> [ConnectionQuota.ClientID] {
        self.state.withLock { state in
            state.quota.resize(to: connections)
            self.decide(&state)
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
            state.quota.applied(clientID, connections: count.limit, surplus: count.surplus)
            self.decide(&state)
        }
    }
}

extension APNSClient {
    fileprivate var load: ConnectionQuota.Load {
        let lifecycle = self.runtime.lifecycle
        return ConnectionQuota.Load(
            pushes: lifecycle.singlePushesInFlight,
            calls: lifecycle.callsInFlight,
            ended: self.runtime.monitor.pushes.count
        )
    }
}
