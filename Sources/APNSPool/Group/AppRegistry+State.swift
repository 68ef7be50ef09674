import APNSModel
import APNSTransport
import Synchronization

/// What users see of a group's apps and their clients.
extension AppRegistry {
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
        if let failure = state.clients[clientID]?.failure { return .fault(failure) }
        switch state.quota.state(clientID) {
        case .queued, .starting, .running: return .starting
        case .stopped, .stopping, nil: return .idle
        }
    }

    /// The states of all clients, each with the names of its apps.
    var standings: [(apps: String, standing: Standing)] {
        self.state.withLock { state in
            state.clients.map { clientID, entry in (entry.appNames, self.standing(clientID, state)) }
        }.sorted { $0.apps < $1.apps }
    }

    /// The clients that could not be made, and what they are made with.
    var unmade: [(ConnectionQuota.ClientID, APNSAuthentication)] {
        self.state.withLock { state in
            state.clients.compactMap { $1.failure?.code == .configuration ? ($0, $1.authentication) : nil }
        }
    }

    /// The client can be made now.
    func canBeMade(_ clientID: ConnectionQuota.ClientID) {
        self.state.withLock { state in
            if state.clients[clientID]?.failure?.code == .configuration { state.clients[clientID]?.failure = nil }
        }
    }

    var hasRun: Bool { self.state.withLock { $0.hasRun } }
    var isOver: Bool { self.state.withLock { $0.isOver } }

    func topic(_ name: String) -> String? { self.state.withLock { $0.apps[name]?.app.topic } }

    /// How many callers wait until the app's client runs.
    func waiting(_ name: String, _ environment: APNSEnvironment) -> Int {
        self.state.withLock { state in state.apps[name]?.clientIDs[environment].map { state.quota.waiting($0) } ?? 0 }
    }

    /// How many callers wait until a client runs, or may take a call again.
    var waiting: Int {
        self.state.withLock { state in state.clients.keys.reduce(0) { $0 + state.quota.waiting($1) } }
    }

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
                        inFlight: state.clients[clientID]?.client?.runtime.lifecycle.pushesInFlight ?? 0,
                        certificateExpiry: info.resolved.certificate?.notAfter
                    )
                }
            }.sorted { ($0.app, $0.environment.description) < ($1.app, $1.environment.description) }
        }
    }
}
