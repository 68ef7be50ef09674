import APNSModel
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
            let clients = self.state.withLock { state in
                state.clients.compactMap { clientID, entry in
                    state.quota.want(clientID, connections: settings.pool.size + settings.pool.maxOverflow)
                    return entry.client.map { ($0, state.quota.connections(clientID)) }
                }
            }
            for (client, connections) in clients { Self.apply(settings, to: client, connections) }
        }
    }

    /// A running client keeps the number of connections that it was started with.
    static func apply(_ settings: APNSClientSettings, to client: APNSClient, _ connections: Int) {
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
                        credential: info.credentialName,
                        isRunning: state.clients[clientID]?.client != nil,
                        connections: state.quota.connections(clientID),
                        inFlight: state.quota.users(clientID),
                        certificateExpiry: info.certificateExpiry
                    )
                }
            }.sorted { ($0.app, $0.environment.description) < ($1.app, $1.environment.description) }
        }
    }
}
