// This folder: many apps in one process, which share clients where they share a credential. A client does not know
// whether it belongs to a group.

import APNSModel
public import ServiceLifecycle
import SupervisedPool

/// An app that pushes are sent to, with the credential that it has.
public struct APNSApp: Sendable {
    /// What the group calls it.
    public var name: String
    /// Its bundle ID. Pushes to other topics are refused before the network; those that begin with it and a dot, as the
    /// topics of VoIP or complications do, are its own.
    public var topic: String
    /// Its key or certificate. Apps with the same one share connections unless `isolation` forbids it.
    public var authentication: APNSAuthentication
    /// The environments that the app uses. Default: production and development.
    public var environments: Set<APNSEnvironment>

    /// - Parameters:
    ///   - name: what the group calls it; unique within the group.
    ///   - topic: its bundle ID.
    ///   - authentication: its key or certificate, read when it is added.
    ///   - environments: the environments that the app uses; at least one.
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

/// Many apps in one process: a client for each key and environment, started when it is needed, stopped when it idles,
/// with one limit on the connections of all.
///
/// ```swift
/// let group = try APNSClientGroup(configuration: .init(maxConnections: 50))
/// try group.add(APNSApp(name: "fern", topic: "com.grasscove.Fern", authentication: fernKey))
/// // in a task, or in a ServiceGroup:
/// try await group.run()
/// // from anywhere:
/// let outcome = await group.sender(for: "fern", in: .production).deliver(notification, to: token)
/// ```
/// An app that nobody sends to costs no connection and next to no memory. Apps are added, replaced and removed while the
/// group runs.
public final class APNSClientGroup: Service {
    /// Which apps share a pool of connections.
    public struct Isolation: Sendable, Hashable {
        private let isPerApp: Bool
        /// Those with the same key (or certificate) and environment. Default: fewest connections.
        public static let perKey = Isolation(isPerApp: false)
        /// None: one app's flood leaves the streams of the others alone.
        public static let perApp = Isolation(isPerApp: true)
    }

    /// The settings of a group.
    public struct Configuration: Sendable {
        /// The limit on the connections of all apps together: 1 to 100,000, by default 100. Other apps wait
        /// for their turn, up to the deadlines of their pushes; bulk calls wait without a limit.
        public var maxConnections: Int
        /// How long a client may idle before its connections close: 1 s and more. Default 10 minutes.
        public var idleTimeout: Duration
        /// Which apps share connections. Default `perKey`.
        public var isolation: Isolation
        /// What all clients have in common; authentication and environment are those of the apps. A client needs room
        /// for `pool.size + pool.maxOverflow` connections, and starts with fewer if there is less.
        public var client: APNSClientConfiguration

        /// All parameters have the defaults that their properties name. Limits are checked when a group is made.
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
    }

    let core: ClientGroupCore

    /// - Throws: `APNSConfigurationError` for a number out of its limits.
    public init(configuration: Configuration = Configuration()) throws(APNSConfigurationError) {
        self.core = try ClientGroupCore(configuration)
    }

    // MARK: Apps

    /// Adds an app. Its key is read and checked now; no connection is made.
    ///
    /// - Throws: `APNSConfigurationError`: `conflict` when there is an app of that name, `missing` without environments,
    ///   and whatever is wrong with its authentication.
    public func add(_ app: APNSApp) throws(APNSConfigurationError) {
        try self.core.set(app, mayReplace: false)
    }

    /// Puts an app in the place of the one with its name, if there is one: another key, other environments. What is in
    /// flight with the old key finishes, bulk calls that run included; the new one has connections of its own.
    ///
    /// - Throws: As ``add(_:)``. The old one then stays.
    public func replace(_ app: APNSApp) throws(APNSConfigurationError) {
        try self.core.set(app, mayReplace: true)
    }

    /// Removes an app. What is in flight finishes, bulk calls that run included; pushes to it fail from now on.
    ///
    /// - Returns: Whether there was one of that name.
    @discardableResult
    public func remove(_ name: String) -> Bool {
        self.core.remove(name)
    }

    // MARK: Life

    /// Runs the group until it is shut down, its service group shuts down gracefully, or the task is cancelled (which
    /// drains nothing). Returns after the last outcome was delivered.
    ///
    /// - Throws: `APNSConfigurationError` (`alreadyRunning`) when called twice.
    public func run() async throws {
        let core = self.core
        try await withGracefulShutdownHandler {
            try await core.run()
        } onGracefulShutdown: {
            core.beginShutdown()
        }
    }

    /// Takes no further pushes, and makes ``run()`` return when those in flight have ended, each client within its
    /// `timeouts.drain`.
    public func shutdown() {
        self.core.beginShutdown()
    }

    // MARK: Sending

    /// What sends to one app in one environment, single pushes and bulk calls, and tells how the app's client is. It may
    /// be kept; whether the app exists is asked at each push, and when a bulk call begins.
    ///
    /// - Parameters:
    ///   - app: the app's name.
    ///   - environment: one of its environments.
    public func sender(for app: String, in environment: APNSEnvironment = .production) -> APNSAppSender {
        APNSAppSender(core: self.core, app: app, environment: environment)
    }

    /// Calls `body` with the app's client, for broadcasts and channels. The client is not stopped before `body` ends; it must not be
    /// kept after that. The app's topic is not checked.
    ///
    /// - Parameters:
    ///   - app: the app's name.
    ///   - environment: one of its environments.
    ///   - time: how long to wait until it is this app's turn.
    ///   - body: uses the client.
    /// - Returns: what `body` returns.
    /// - Throws: `PushError` when there is no such app or its turn did not come; what `body` throws.
    public func withClient<Value>(
        for app: String,
        in environment: APNSEnvironment = .production,
        within time: Duration = .seconds(30),
        _ body: (APNSClient) async throws -> Value
    ) async throws -> Value {
        let use = try await self.core.use(app, environment, asCall: true, until: self.core.now.advanced(by: time))
            .get()
        defer { self.core.leave(use) }
        return try await body(use.client)
    }

    // MARK: Status

    /// Each app in each of its environments, in order of their names.
    public var status: [AppStatus] { self.core.status }

    /// How the group is: `starting` before it runs, `serving` while all clients serve or nobody sends, `degraded` when a
    /// client does not serve as it should, `failing` when none of those that run serves, `stopped` from its shutdown on.
    /// The cause names the apps of the first such client; ``APNSAppSender/health`` tells of one app.
    public var health: APNSHealth {
        get async {
            if self.core.isOver { return .stopped }
            guard self.core.hasRun else { return .starting }
            var causes: [APNSHealth.Cause] = []
            var serving = 0
            for (apps, client) in self.core.runningClients {
                let health = await client.health
                if health.isReady { serving += 1 }
                guard let cause = health.cause else { continue }
                causes.append(.init(code: cause.code, message: "\(apps): \(cause.message)"))
            }
            guard let cause = causes.first else { return .serving }
            return serving > 0 ? .degraded(cause) : .failing(cause)
        }
    }

    /// The device tokens that APNs answers with 410, from now on, whatever app and call has sent to them: what to remove
    /// from a database. The topic tells the app. The stream ends when the group has ended.
    ///
    /// - Parameter bufferingNewest: how many wait for a slow reader; older ones are dropped, and the stream's
    ///   `missedCount` counts them.
    public func invalidTokens(bufferingNewest: Int) -> EventStream<InvalidToken> {
        self.core.invalidTokens.stream(bufferingNewest: bufferingNewest)
    }

    /// The same with room for 10,000.
    public var invalidTokens: EventStream<InvalidToken> { self.invalidTokens(bufferingNewest: 10_000) }

    // MARK: Settings

    /// The settings of all clients as they are now.
    public var settings: APNSClientSettings { self.core.live.settings }

    /// Changes the settings of all clients, those that run and those that are started later. No push is lost by it.
    ///
    /// ```swift
    /// try group.update { $0.timeouts.deadline = .seconds(10) }
    /// ```
    /// A client that runs keeps the number of connections that it was started with; `pool.size` and `pool.maxOverflow`
    /// take hold with its next start. All else takes hold as ``APNSClient/update(_:)`` says.
    ///
    /// - Parameter change: changes what it is given. Called at once, and again if another update came between.
    /// - Throws: `APNSConfigurationError` (`outOfRange`) naming the setting that is out of its limits. Nothing is changed
    ///   then.
    public func update(_ change: (inout APNSClientSettings) -> Void) throws(APNSConfigurationError) {
        try self.core.update(change)
    }

    /// The connections that are reserved for clients that run; never more than `maxConnections`.
    public var reservedConnections: Int { self.core.reservedConnections }

    /// One app in one environment.
    public struct AppStatus: Sendable, Hashable {
        /// The app's name.
        public var app: String
        /// One of its environments.
        public var environment: APNSEnvironment
        /// The credential, for people, without secrets.
        public var credential: String
        /// Whether its client runs.
        public var isRunning: Bool
        /// The connections that it may have now.
        public var connections: Int
        /// The pushes and bulk calls that use its client now, with those of other apps of the same key.
        public var inFlight: Int
        /// Until when its client certificate is valid, in seconds since 1970.
        public var certificateExpiry: Int64?
    }
}
