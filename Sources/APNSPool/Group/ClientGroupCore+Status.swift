import APNSModel
import HTTP2Wire
import Logging
import SupervisedPool
import Synchronization

// Settings of all clients, and the state of the apps.
extension ClientGroupCore {
    // MARK: Settings

    func update(_ change: (inout APNSClientSettings) -> Void) throws(APNSConfigurationError) {
        try self.live.change(change) { settings throws(APNSConfigurationError) in
            try settings.applied(to: self.configuration.client).validate()
        } apply: { settings in
            let clientIDs = self.state.withLock { state in
                state.quota.resize(to: settings.pool.workerCount)
                return Array(state.clients.keys)
            }
            for clientID in clientIDs { self.apply(settings, to: clientID) }
        }
    }

    /// Passes settings on to a client, with the number of connections that the quota gives it. Has no effect if the
    /// client does not run.
    ///
    /// Called only under the lock of `live`: the last call then has the latest settings and number. A client is never
    /// given more than the quota has reserved for it, because only `update` reduces the number.
    func apply(_ settings: APNSClientSettings, to clientID: ConnectionQuota.ClientID) {
        let (client, connections) = self.state.withLock { state in
            (state.clients[clientID]?.client, state.quota.connections(clientID))
        }
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

    /// How many keys have provider tokens that apps share.
    var tokenSourceCount: Int { self.state.withLock { $0.tokenSources.count } }

    var reservedConnections: Int { self.state.withLock { $0.quota.totalReserved } }

    var status: [APNSClientGroup.AppStatus] {
        self.state.withLock { state in
            state.apps.values.flatMap { info in
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
