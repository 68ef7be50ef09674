public import APNSPool
public import Logging
public import WebPushGateway

/// Everything that an operator can set. ``RelaySettings/init(_:)`` reads it.
public struct RelaySettings: Sendable {
    /// The apps that the relay can send pushes to.
    public var apps: [RelayApp]
    /// The callers that may use the API. If empty, everybody may do everything, and the relay listens only on loopback.
    public var callers: [Caller]
    public var http: HTTPSettings
    public var dispatch: DispatchSettings
    public var webhooks: [WebhookSettings]
    public var storage: StorageSettings
    public var fleet: FleetLimits
    /// The gateway for Web Push; nil if there is none.
    public var webPush: WebPushSettings?
    public var log: LogSettings
    /// The settings that the clients of all apps share, such as the pool and the timeouts.
    public var group: APNSClientGroup.Configuration

    public init(
        apps: [RelayApp],
        callers: [Caller] = [],
        http: HTTPSettings = HTTPSettings(),
        dispatch: DispatchSettings = DispatchSettings(),
        webhooks: [WebhookSettings] = [],
        storage: StorageSettings = StorageSettings(),
        fleet: FleetLimits = FleetLimits(),
        log: LogSettings = LogSettings(),
        group: APNSClientGroup.Configuration = APNSClientGroup.Configuration()
    ) {
        self.apps = apps
        self.callers = callers
        self.http = http
        self.dispatch = dispatch
        self.webhooks = webhooks
        self.storage = storage
        self.fleet = fleet
        self.log = log
        self.group = group
    }
}

/// An app that the relay can send pushes to.
public struct RelayApp: Sendable {
    /// The name that requests use.
    public var name: String
    /// The bundle ID.
    public var topic: String
    public var authentication: APNSAuthentication
    /// The app's environments by name (`production`, `development`), with their servers.
    public var environments: [String: APNSEnvironment]
    /// The maximum number of pushes without an outcome; nil for no limit.
    public var capacity: Int?
    /// The maximum number of pushes per second that all relays together send; nil for no limit.
    public var pushesPerSecond: Int?
    /// What precedes the bundle ID in the app ID, almost always the team ID; nil if it is not known. App Attest needs it.
    public var appIDPrefix: String?

    public init(
        name: String,
        topic: String,
        authentication: APNSAuthentication,
        environments: [String: APNSEnvironment] = ["production": .production, "development": .development],
        capacity: Int? = nil,
        pushesPerSecond: Int? = nil,
        appIDPrefix: String? = nil
    ) {
        self.name = name
        self.topic = topic
        self.authentication = authentication
        self.environments = environments
        self.capacity = capacity
        self.pushesPerSecond = pushesPerSecond
        self.appIDPrefix = appIDPrefix
    }

    /// Whether a topic belongs to the app with a bundle ID: it is that bundle ID, or extends it by a dot and a suffix.
    static func covers(_ topic: String, bundleID: String) -> Bool {
        topic == bundleID || topic.hasPrefix("\(bundleID).")
    }

    /// The environment of a push that names none: the app's only one, or `production` if the app has it; nil otherwise.
    public var defaultEnvironment: String? {
        self.environments.count == 1
            ? self.environments.keys.first : (self.environments["production"] == nil ? nil : "production")
    }
}

/// An application that uses the relay's API.
public struct Caller: Sendable, Hashable {
    public var name: String
    /// The SHA-256 digests of the caller's bearer tokens: one, or two while one token replaces the other.
    public var tokenDigests: [[UInt8]]
    /// The apps that it may send to and read about; nil for all.
    public var apps: Set<String>?
    /// Its rights.
    public var roles: Set<Role>
    /// The maximum number of pushes per second that it may submit to all relays together, on average over ten seconds; nil for
    /// no limit.
    public var pushesPerSecond: Int?
    /// The maximum number of its pushes without an outcome; nil for no limit.
    public var capacity: Int?

    public init(
        name: String,
        tokenDigests: [[UInt8]],
        apps: Set<String>? = nil,
        roles: Set<Role> = Role.standard,
        pushesPerSecond: Int? = nil,
        capacity: Int? = nil
    ) {
        self.name = name
        self.tokenDigests = tokenDigests
        self.apps = apps
        self.roles = roles
        self.pushesPerSecond = pushesPerSecond
        self.capacity = capacity
    }

    public func maySend(to app: String) -> Bool { self.apps?.contains(app) ?? true }

    /// Whether it has a role, by itself or because ``Role/operate`` includes it.
    func has(_ role: Role) -> Bool { self.roles.contains(role) || self.roles.contains(.operate) }

    /// Whether it may read about a push of its apps.
    ///
    /// - Parameter owner: the name of the caller that submitted the push.
    func mayRead(pushOf owner: String) -> Bool {
        self.has(.readAll) || (self.has(.read) && owner == self.name)
    }

    /// Whether it may cancel a push of its apps.
    ///
    /// - Parameter owner: the name of the caller that submitted the push.
    func mayCancel(pushOf owner: String) -> Bool {
        self.has(.cancelAll) || (self.has(.cancel) && owner == self.name)
    }
}

/// The listening side of the API.
public struct HTTPSettings: Sendable, Hashable {
    /// The address to listen on. Default `127.0.0.1`.
    public var host = "127.0.0.1"
    /// The port; 0 for any free one. Default 8027.
    public var port = 8027
    /// The address and the port of a second listener without TLS, only for `/live`, `/ready` and `/metrics`. If the port is
    /// set, the API's listener no longer has these paths. The address is that of the API unless set. Default: none.
    public var probeHost: String?
    public var probePort: Int?
    /// Files in PEM form; nil for no TLS.
    public var certificateChainFile: String?
    public var privateKeyFile: String?
    /// The authorities that must have signed the callers' certificates (mTLS); nil if callers need no certificate.
    public var clientAuthoritiesFile: String?
    /// The maximum size of a request body in bytes. Default 32 MiB.
    public var maxBodyBytes = 33_554_432
    /// The maximum total size of the bodies that are being read or parsed, in bytes. Default 256 MiB.
    public var maxBufferedBytes = 268_435_456
    /// The time limit for a request body to arrive, and for a response to be received. Default 60 s.
    public var requestTimeout = Duration.seconds(60)
    /// The longest idle time of a connection, between requests or within one. Default 15 s.
    public var idleTimeout = Duration.seconds(15)
    /// The maximum number of connections. At the limit, a new one waits until another one has ended. Default 1,000.
    public var maxConnections = 1_000
    /// The maximum number of connections from one IPv4 address or IPv6 network (64 bits); nil for half of
    /// ``maxConnections``.
    public var maxConnectionsPerAddress: Int?

    public init() {}
}

/// The limits on taking pushes from the queue and sending them.
public struct DispatchSettings: Sendable, Hashable {
    /// The maximum number of pushes that are marked as written and have no durable outcome yet. So many pushes can end
    /// as `unknown` if the process dies. Default 2,000.
    public var maxInFlight = 2_000
    /// The maximum number of pushes that are claimed and marked together. Default 500.
    public var batch = 500
    /// The time limit for one attempt, from the mark to the outcome. Default 30 s.
    public var attemptDeadline = Duration.seconds(30)
    /// How long after ``attemptDeadline`` an outcome may still be stored, if the storage is full or cannot be reached.
    /// After that the push ends as `unknown`: its lease ends. With a queue in a file, it already does when the relay starts
    /// again. Default 10 minutes.
    public var settleMargin = Duration.seconds(600)
    /// The time from storing a push to its deadline, for pushes that name no deadline. Default 1 day.
    public var defaultDeadline = Duration.seconds(86_400)
    /// How far in the future the `notBefore` and the `deadline` of a push may be. Default 30 days.
    public var maxDeadline = Duration.seconds(30 * 86_400)
    /// The number of attempts after which a push that would return to the queue is parked. Default 20.
    public var maxAttempts = 20
    /// The time limit for a shutdown. After half of it, the clients drain. A push that still has no outcome at the end
    /// ends as `unknown`: with a queue in a file at the next start, with a database when its lease ends. Default 25 s.
    public var shutdownTimeout = Duration.seconds(25)

    public init() {}
}

/// The limits that relays with a shared queue divide among themselves.
public struct FleetLimits: Sendable, Hashable {
    /// The maximum number of connections of all relays together, for each client (one credential in one environment);
    /// nil for no limit besides those of `group`. Each relay has an equal share, but at least one connection. 1 to
    /// 100,000.
    public var maxConnections: Int?

    public init(maxConnections: Int? = nil) {
        self.maxConnections = maxConnections
    }
}

/// The log on standard error.
public struct LogSettings: Sendable, Hashable {
    /// The format of a line.
    public enum Format: Sendable, Hashable {
        case text
        /// One JSON object on each line.
        case json
    }

    /// The lowest level that is logged. Default `info`.
    public var level = Logger.Level.info
    /// Default `text`.
    public var format = Format.text

    public init() {}
}

/// A receiver of outcomes.
public struct WebhookSettings: Sendable, Hashable {
    public var name: String
    /// An `https` or `http` URL.
    public var url: String
    /// The keys that sign the requests (HMAC-SHA256), each of at least 24 bytes: one, or two while one replaces the other.
    public var secrets: [[UInt8]]
    /// The apps whose outcomes it receives; nil for all.
    public var apps: Set<String>?
    /// Whether it receives only outcomes that invalidate a device token.
    public var onlyInvalidTokens: Bool
    /// The maximum number of outcomes in one request. Default 500.
    public var batch: Int
    /// The time limit for one request. Default 10 s.
    public var timeout: Duration

    public init(
        name: String,
        url: String,
        secrets: [[UInt8]],
        apps: Set<String>? = nil,
        onlyInvalidTokens: Bool = false,
        batch: Int = 500,
        timeout: Duration = .seconds(10)
    ) {
        self.name = name
        self.url = url
        self.secrets = secrets
        self.apps = apps
        self.onlyInvalidTokens = onlyInvalidTokens
        self.batch = batch
        self.timeout = timeout
    }
}
