// This folder serves many apps in one process; apps with the same credential share a client. A client does not know
// whether it belongs to a group.

import APNSModel
public import ServiceLifecycle
import SupervisedPool

/// An app that you send pushes to, and its credential.
public struct APNSApp: Sendable {
    /// The app's name in the group.
    public var name: String
    /// The app's bundle ID. Pushes to other topics are not sent (`configuration`). Topics that begin with the bundle ID
    /// and a dot, such as those of VoIP or complications, belong to the app.
    public var topic: String
    /// The app's key or certificate. Apps with the same credential share connections unless `isolation` forbids it. If it
    /// comes from files, these must be the same too, and so must the given key id, passphrase and `fileCheckInterval`.
    ///
    /// If their `tokenSource` or `tokenRefreshInterval` differs, that of the app that was added or replaced last applies
    /// from the next start of a client on.
    public var authentication: APNSAuthentication
    /// The environments that the app uses. Default: production and development.
    public var environments: Set<APNSEnvironment>

    /// - Parameters:
    ///   - name: The app's name, unique within the group.
    ///   - topic: The app's bundle ID.
    ///   - authentication: The app's key or certificate, read when you add the app.
    ///   - environments: The environments that the app uses; at least one.
    public init(
        name: String,
        topic: String,
        authentication: APNSAuthentication,
        environments: Set<APNSEnvironment> = [.production, .development]
    ) {
        self.name = name
        self.topic = topic
        self.authentication = authentication
        self.environments = environments
    }
}

/// Serves many apps in one process, with one client for each key and environment. A client is started when needed and
/// stopped when idle. One limit applies to the connections of all clients together.
///
/// ```swift
/// let group = try APNSClientGroup(configuration: .init(maxConnections: 50))
/// try group.add(APNSApp(name: "fern", topic: "com.grasscove.Fern", authentication: fernKey))
/// // in a task, or in a ServiceGroup:
/// try await group.run()
/// // from anywhere:
/// let outcome = await group.sender(for: "fern", in: .production).deliver(notification, to: token)
/// ```
/// An app without pushes uses no connection and almost no memory. You can add, replace and remove apps while the group
/// runs.
public final class APNSClientGroup: Service {
    /// Determines which apps share a connection pool.
    public struct Isolation: Sendable, Hashable {
        private let isPerApp: Bool
        /// Apps with the same key (or certificate) from the same source and the same environment share a pool: see
        /// ``APNSApp/authentication``. This is the default. It uses the fewest connections.
        public static let perKey = Isolation(isPerApp: false)
        /// Each app has its own pool, so one app's flood of pushes does not take streams from other apps.
        public static let perApp = Isolation(isPerApp: true)
    }

    /// The settings of a group.
    public struct Configuration: Sendable {
        /// The limit on the connections of all apps together: 1 to 100,000, by default 100. At the limit, other apps
        /// wait for their turn until the deadlines of their pushes; bulk calls wait without a limit.
        public var maxConnections: Int
        /// How long a client may be idle before its connections close: at least 1 s. Default 10 minutes.
        public var idleTimeout: Duration
        /// Which apps share connections. Default `perKey`.
        public var isolation: Isolation
        /// The settings that all clients share; authentication, environment and topic are set per app. A client reserves
        /// `pool.size + pool.maxOverflow` connections. If there is less room, it starts with fewer, and gets more when
        /// connections become free that no other app waits for.
        public var client: APNSClientConfiguration

        /// All parameters have the defaults documented at their properties. Limits are checked when a group is created.
        public init(
            maxConnections: Int = 100,
            idleTimeout: Duration = .seconds(600),
            isolation: Isolation = .perKey,
            client: APNSClientConfiguration = APNSClientConfiguration(authentication: .withoutToken)
        ) {
            self.maxConnections = maxConnections
            self.idleTimeout = idleTimeout
            self.isolation = isolation
            self.client = client
        }

        /// - Throws: `APNSConfigurationError`, which names the invalid setting.
        func validate() throws(APNSConfigurationError) {
            try self.client.validate()
            guard (1...100_000).contains(self.maxConnections) else {
                throw APNSConfigurationError(
                    .outOfRange,
                    setting: "maxConnections",
                    message: "'maxConnections' is \(self.maxConnections); allowed: 1 to 100000"
                )
            }
            guard self.idleTimeout >= .seconds(1) else {
                throw APNSConfigurationError(
                    .outOfRange,
                    setting: "idleTimeout",
                    message: "'idleTimeout' is \(self.idleTimeout); allowed: 1 s or more"
                )
            }
        }
    }

    let registry: AppRegistry
    private let starter: ClientStarter
    private let sender: GroupSender

    /// - Throws: `APNSConfigurationError` if a number is out of its limits.
    public init(configuration: Configuration = Configuration()) throws(APNSConfigurationError) {
        try configuration.validate()
        let jobs = AsyncStream.makeStream(of: ClientStarter.Job.self)
        self.registry = AppRegistry(configuration, jobs.continuation)
        self.starter = ClientStarter(configuration, self.registry, jobs)
        self.sender = GroupSender(self.registry, self.starter)
    }

    // MARK: Apps

    /// Adds an app. Its key is read and checked now; no connection is opened.
    ///
    /// - Throws: `APNSConfigurationError`: `conflict` if the group has an app with that name, `missing` without a name,
    ///   a topic or an environment, or any error in the app's authentication.
    public func add(_ app: APNSApp) throws(APNSConfigurationError) {
        let wallNow = self.registry.configuration.client.wallClock()
        try self.registry.set(app, try app.authentication.resolve(wallNow: wallNow), mayReplace: false)
    }

    /// Replaces the app with this name, if any, for example to change its key or environments.
    ///
    /// A new credential of an app is probed first, as ``APNSClient/replaceAuthentication(_:within:)`` does, with the app's
    /// topic: in the environments in which the app's clients run, or in one of its environments if none runs. Pushes in
    /// flight with the old credential finish, including running bulk calls. A new credential has its own connections, and
    /// so has the same credential from other files, or with another given key id, passphrase or `fileCheckInterval`.
    ///
    /// The credential is not probed before the group runs or after its shutdown, nor if the app is new or its credential
    /// is the same.
    ///
    /// - Parameters:
    ///   - app: The app with its new values. Its files are read now.
    ///   - time: How long to wait for APNs' verdict. Default 60 s; nil: until APNs accepts or refuses the credential.
    /// - Throws: ``APNSAuthenticationError``: `configuration` if the app or its credential cannot be used at all,
    ///   `refused`, `noVerdict`, `cancelled`, or `superseded` if a later call removed the app or began to replace it. This
    ///   call then changes nothing.
    public func replace(
        _ app: APNSApp,
        within time: Duration? = .seconds(60)
    ) async throws(APNSAuthenticationError) {
        let resolved = try await app.authentication.resolved(wallNow: self.registry.configuration.client.wallClock())
        let candidate: AppRegistry.Candidate
        do {
            guard let begun = try self.registry.begin(app, resolved) else {
                return try self.registry.set(app, resolved, mayReplace: true)
            }
            candidate = begun
        } catch {
            throw APNSAuthenticationError(error)
        }
        defer { self.registry.end(candidate) }
        try await self.probe(candidate, within: time)
        if !self.registry.adopt(candidate) {
            throw APNSAuthenticationError(.superseded, "A later change of the app replaced this one.")
        }
    }

    private func probe(
        _ candidate: AppRegistry.Candidate,
        within time: Duration?
    ) async throws(APNSAuthenticationError) {
        let deadline = time.map { self.registry.now.advanced(by: $0) } ?? .distantFuture
        let name = candidate.resolved.name
        for environment in self.registry.environmentsToProbe(candidate) {
            let client: APNSClient
            switch await self.sender.beginProbe(candidate, environment, until: deadline) {
            case .success(let started): client = started
            case .failure(let error) where error.code == .cancelled: throw .cancelled
            case .failure(let error): throw .noVerdict(name, error.message)
            }
            defer { client.endCall() }
            switch await client.runtime.probeCurrent(topic: candidate.app.topic, until: deadline) {
            case .accepted: break
            case .refused(let words): throw .refused(name, words)
            case .undecided where Task.isCancelled: throw .cancelled
            case .undecided(let words): throw .noVerdict(name, words)
            }
        }
    }

    /// Removes an app. Pushes in flight finish, including running bulk calls; further pushes to it fail.
    ///
    /// - Returns: Whether there was an app with that name.
    @discardableResult
    public func remove(_ name: String) -> Bool {
        self.registry.remove(name)
    }

    // MARK: Life

    /// Runs the group until it is shut down, its service group shuts down gracefully, or the task is cancelled (which
    /// does not drain). Returns after the last outcome was delivered.
    ///
    /// - Throws: `APNSConfigurationError` (`alreadyRunning`) if called twice.
    public func run() async throws {
        let starter = self.starter
        try await withGracefulShutdownHandler {
            try await starter.run()
        } onGracefulShutdown: {
            starter.beginShutdown()
        }
    }

    /// Accepts no further pushes, and makes ``run()`` return once those in flight have ended, each client within its
    /// `timeouts.drain`.
    public func shutdown() {
        self.starter.beginShutdown()
    }

    // MARK: Sending

    /// Returns a sender for one app in one environment. It sends single pushes and bulk calls and reports the state of
    /// the app's client.
    ///
    /// You can keep it. It checks whether the app exists at each push and when a bulk call begins.
    ///
    /// - Parameters:
    ///   - app: The app's name.
    ///   - environment: One of the app's environments.
    public func sender(for app: String, in environment: APNSEnvironment = .production) -> APNSAppSender {
        APNSAppSender(sender: self.sender, app: app, environment: environment)
    }

    /// Calls `body` with the app's client, for broadcasts and channels. The client is not stopped before `body`
    /// returns. Do not keep the client after that. The app's topic is not checked.
    ///
    /// If `body` replaces the client's credential, that holds for all apps that share the client, but not for other
    /// environments: prefer ``replace(_:within:)``. If `body` revokes it, nothing is sent in this environment until it
    /// replaces it, or, once the client was stopped, until ``replace(_:within:)`` gives each app another authentication.
    ///
    /// - Parameters:
    ///   - app: The app's name.
    ///   - environment: One of the app's environments.
    ///   - time: How long to wait for this app's turn. Default 30 s.
    ///   - body: Uses the client.
    /// - Returns: The result of `body`.
    /// - Throws: `PushError` if there is no such app or its turn did not come in time; any error of `body`.
    public func withClient<Value>(
        for app: String,
        in environment: APNSEnvironment = .production,
        within time: Duration = .seconds(30),
        _ body: (APNSClient) async throws -> Value
    ) async throws -> Value {
        let deadline = self.registry.now.advanced(by: time)
        let client = try await self.sender.beginCall(app, environment, until: deadline).get()
        defer { client.endCall() }
        return try await body(client)
    }

    // MARK: Status

    /// Each app in each of its environments, sorted by name.
    public var status: [AppStatus] { self.registry.status }

    /// The health of the group.
    ///
    /// It is `starting` before the group runs, and `stopped` from the shutdown on. It is `serving` while no client is
    /// degraded or failing, even if none runs. Otherwise it is `degraded` if another client is ready
    /// (``APNSHealth/isReady``) or has nothing to send, and `failing` if none is. A client that could not be started is
    /// failing until its key or certificate can be read, which is tried once a minute. The cause names the apps of the
    /// first degraded or failing client; ``APNSAppSender/health`` reports on one app.
    public var health: APNSHealth {
        get async {
            if self.registry.isOver { return .stopped }
            guard self.registry.hasRun else { return .starting }
            var causes: [APNSHealth.Cause] = []
            var serving = 0
            for (apps, standing) in self.registry.standings {
                let health = await standing.health
                switch standing {
                case .client, .idle: if health.isReady { serving += 1 }
                default: break
                }
                guard let cause = health.cause else { continue }
                causes.append(.init(code: cause.code, message: "\(apps): \(cause.message)"))
            }
            guard let cause = causes.first else { return .serving }
            return serving > 0 ? .degraded(cause) : .failing(cause)
        }
    }

    /// The device tokens that APNs rejects with 410, from now on, for all apps and calls: remove them from your
    /// database.
    ///
    /// The topic identifies the app. The stream ends when the group has ended.
    ///
    /// - Parameter bufferingNewest: How many elements are buffered for a slow reader. Older ones are dropped, and the
    ///   stream's `missedCount` counts them.
    public func invalidTokens(bufferingNewest: Int) -> EventStream<InvalidToken> {
        self.starter.invalidTokens.stream(bufferingNewest: bufferingNewest)
    }

    /// The stream of invalid device tokens with a buffer of 10,000.
    public var invalidTokens: EventStream<InvalidToken> { self.invalidTokens(bufferingNewest: 10_000) }

    // MARK: Settings

    /// The settings of all clients that are now in effect.
    public var settings: APNSClientSettings { self.starter.live.settings }

    /// Changes the settings of all clients, both running ones and those started later. No push is lost.
    ///
    /// ```swift
    /// try group.update { $0.timeouts.deadline = .seconds(10) }
    /// ```
    /// The changes take effect as described at ``APNSClient/update(_:)``, within `maxConnections`: if `pool.size` or
    /// `pool.maxOverflow` grows, the running clients share the connections that are free, and get more when others
    /// become free. If they shrink, each surplus connection counts until its pushes in flight have their outcomes and
    /// it is closed.
    ///
    /// - Parameter change: Changes the settings in place. Called at once, and called again if another update
    ///   intervened.
    /// - Throws: `APNSConfigurationError` (`outOfRange`) that names the setting out of its limits. Nothing is changed
    ///   then.
    public func update(_ change: (inout APNSClientSettings) -> Void) throws(APNSConfigurationError) {
        try self.starter.update(change)
    }

    /// The connections that are reserved for running clients, including those that are closing after an update; never
    /// more than `maxConnections`.
    public var reservedConnections: Int { self.registry.reservedConnections }

    /// One app in one environment.
    public struct AppStatus: Sendable, Hashable {
        /// The app's name.
        public var app: String
        /// One of its environments.
        public var environment: APNSEnvironment
        /// A readable name of the credential, without secrets.
        public var credential: String
        /// Whether the app's client is running.
        public var isRunning: Bool
        /// The number of connections that the client may open now.
        public var connections: Int
        /// The pushes, bulk calls, `withClient` calls and checks of the client that have not ended, including those of
        /// other apps with the same key.
        public var inFlight: Int
        /// When the client certificate expires, in seconds since 1970.
        public var certificateExpiry: Int64?
    }
}
