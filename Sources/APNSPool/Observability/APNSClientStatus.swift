import APNSModel
import HTTP2Wire
public import SupervisedPool
import Synchronization

/// A snapshot of a client: its numbers, and a text report as its ``description``.
///
/// ```swift
/// print(await client.status)
/// ```
public struct APNSClientStatus: Sendable, CustomStringConvertible {
    /// The pool: its connections, their streams and the waiting pushes.
    public var pool: PoolStatus
    /// The key or certificate in use, and its expiry.
    public var authentication: APNSAuthenticationStatus
    /// Pushes and bulk calls that have no outcome yet.
    public var pushesInFlight: Int
    /// How many times a push was resent.
    public var resends: Int
    /// How many times a part of the supervision tree crashed and was restarted.
    public var restarts: Int
    /// The share of responses in the last ten seconds that rejected a device token as invalid (410), 0 to 1; nil
    /// without responses. A sudden rise indicates a wrong device list or environment.
    public var invalidTokenShare: Double?
    /// The number of connections that use fewer streams than they could, because APNs responds with 503 more often than
    /// connections may be replaced.
    public var degradedConnections: Int
    /// Whether APNs refuses the credential on each new connection. Pushes then fail at once with the code `credential`,
    /// except for an occasional push that tests the credential.
    public var hasCredentialFault: Bool
    /// Whether APNs rejects so many device tokens that the environment, the topic or the key must be wrong (see
    /// `APNSClientConfiguration.massRejection`).
    public var suspectsMisconfiguration: Bool
    /// The results of the client's final drain; nil until the client has ended, and if the client never ran.
    public var drain: DrainReport?

    /// Values that only the text report shows.
    let details: Details

    /// Values that are cheap to collect. The text report is made from them only on request. None of them contains a
    /// key, a provider token or a device token.
    struct Details: Sendable {
        var environment: APNSEnvironment
        var health: APNSHealth
        var lifecycle: ClientLifecycle.State
        var refusal: CredentialStateMachine.Refusal?
        /// Nil without provider tokens.
        var token: ProviderTokenCache.Status?
        var faults: RecentFaults
        var pushes: [PushCounters.Key: Int]
        var connects: Int
        var losses: Int
        var escalations: Int
        var settings: Settings
        /// The time of the snapshot.
        var now: MonotonicInstant
    }

    /// The settings that the text report compares with the defaults.
    struct Settings: Sendable {
        var pool: APNSClientConfiguration.Pool
        var timeouts: APNSClientConfiguration.Timeouts
        var retry: APNSClientConfiguration.Retry
        var massRejection: MassRejectionLimits
        var broadcastSpacing: Duration
        /// The names of configured settings whose values are not shown and that have no default. A proxy may contain a
        /// password.
        var names: [String]
    }
}

extension APNSClient {
    /// A snapshot of the client: pool, connections, authentication, and counts so far.
    ///
    /// Reading it sends nothing and waits for no connection. Its `description` is a text report for a support ticket,
    /// made only on request. Polling `status` is cheap.
    public var status: APNSClientStatus {
        get async { await self.runtime.status() }
    }
}

extension ClientRuntime {
    func status() async -> APNSClientStatus {
        let session = self.credentials.latest
        let pool = await session.pool.status()
        let now = self.clock.now
        let monitor = self.monitor
        return APNSClientStatus(
            pool: pool,
            authentication: APNSAuthenticationStatus(session, self.credentials),
            pushesInFlight: self.lifecycle.pushesInFlight,
            resends: monitor.resends.load(ordering: .relaxed),
            restarts: monitor.restarts.load(ordering: .relaxed),
            invalidTokenShare: self.sending.retries.invalidShare(now: now),
            degradedConnections: monitor.events.degradedConnections,
            hasCredentialFault: session.settings.credentialBreaker.hasFault,
            suspectsMisconfiguration: self.sending.massRejection.isRaised,
            drain: self.finalReport.withLock { $0 },
            details: APNSClientStatus.Details(
                environment: self.configuration.environment,
                health: self.health(of: session, pool),
                lifecycle: self.lifecycle.current,
                refusal: session.settings.credentialBreaker.declaredRefusal,
                token: session.resolved.signer == nil ? nil : session.tokens.status,
                faults: monitor.recentFaults,
                pushes: monitor.pushes.totals,
                connects: monitor.connects.load(ordering: .relaxed),
                losses: monitor.connectionLosses.load(ordering: .relaxed),
                escalations: monitor.escalations.load(ordering: .relaxed),
                settings: APNSClientStatus.Settings(self.currentConfiguration),
                now: now
            )
        )
    }
}

// MARK: The text report

extension APNSClientStatus {
    /// A text report to paste into a ticket: versions, health, pool, connections, credential, recent faults, counts,
    /// and the settings that differ from the defaults. It is meant for people, and its format may change.
    ///
    /// It has a few dozen lines. It contains no keys, provider tokens or device tokens. It does contain hosts, and the
    /// key id and team id or the certificate's name.
    public var description: String {
        let details = self.details
        var lines = [
            "swift-apns-pool \(LibraryVersion.library), Swift \(LibraryVersion.swift), \(LibraryVersion.build) build, "
                + "\(LinkedVersions.openSSL), nghttp2 \(LinkedVersions.nghttp2)",
            "environment: \(details.environment.name), \(details.environment.authority)",
            "health: \(details.health)",
            "lifecycle: \(details.lifecycle), \(self.pushesInFlight) pushes in flight",
            "pool: \(self.pool.state), \(self.pool.leased)/\(self.pool.capacity) streams leased, "
                + "\(self.pool.queueDepth) waiting (\(self.pool.bulkQueueDepth) bulk, \(self.pool.queuedBytes) bytes)",
        ]
        lines += Self.section("connections", self.pool.workers.map { "\($0)" })
        lines += Self.section("credential", self.credentialLines)
        lines += Self.section("recent faults", details.faults.lines(now: details.now))
        lines += Self.section("counts", self.countLines)
        lines += Self.section("settings other than the defaults", details.settings.differences)
        return lines.joined(separator: "\n")
    }

    private static func section(_ title: String, _ lines: [String]) -> [String] {
        lines.isEmpty ? ["\(title): none"] : ["\(title):"] + lines.map { "  \($0)" }
    }

    private var credentialLines: [String] {
        var lines = [self.authentication.name]
        if self.authentication.isRevoked { lines.append("revoked") }
        if let trial = self.authentication.onTrial { lines.append("on trial: \(trial)") }
        if let refusal = self.details.refusal { lines.append("refused: \(refusal)") }
        guard let token = self.details.token else { return lines }
        if let generation = token.generation {
            lines.append("provider token \(generation), \(token.age.map { "\($0.rounded) old" } ?? "of unknown age")")
        } else {
            lines.append("no provider token yet")
        }
        if token.heldBackUntil != nil { lines.append("no new provider token for now: APNs has seen too many") }
        if token.isClockSuspect {
            lines.append("APNs refuses new provider tokens because of their issue time: check this machine's clock")
        }
        if let failure = token.lastFailure { lines.append("signing failed: \(failure)") }
        return lines
    }

    private var countLines: [String] {
        let pushes = self.details.pushes.sorted { $0.value > $1.value }.map { key, count in
            "\(count) \(key.type) \(key.outcome.rawValue)" + (key.reason == "none" ? "" : " (\(key.reason))")
        }
        return pushes + [
            "\(self.details.connects) connects, \(self.details.losses) losses, \(self.resends) resends, "
                + "\(self.restarts) restarts, \(self.details.escalations) escalations"
        ]
    }
}

extension APNSClientStatus.Settings {
    init(_ configuration: APNSClientConfiguration) {
        self.pool = configuration.pool
        self.timeouts = configuration.timeouts
        self.retry = configuration.retry
        self.massRejection = configuration.massRejection
        self.broadcastSpacing = configuration.broadcastSpacing
        self.names = []
        if configuration.trust.caFile != nil { self.names.append("trust.caFile") }
        if configuration.trust.caPEM != nil { self.names.append("trust.caPEM") }
        if configuration.proxy != nil { self.names.append("proxy") }
        if configuration.eventLoopGroup != nil { self.names.append("eventLoopGroup") }
    }

    /// The settings that differ from their defaults.
    var differences: [String] {
        let plain = Self(APNSClientConfiguration(authentication: .withoutToken))
        var lines = Self.differences("pool", self.pool, plain.pool)
        lines += Self.differences("timeouts", self.timeouts, plain.timeouts)
        lines += Self.differences("retry", self.retry, plain.retry)
        if self.massRejection != plain.massRejection { lines.append("massRejection: \(self.massRejection)") }
        if self.broadcastSpacing != plain.broadcastSpacing {
            lines.append("broadcastSpacing: \(self.broadcastSpacing)")
        }
        return lines + self.names.map { "\($0): set" }
    }

    private static func differences(_ name: String, _ value: Any, _ plain: Any) -> [String] {
        zip(Mirror(reflecting: value).children, Mirror(reflecting: plain).children).compactMap { own, plain in
            let text = "\(own.value)"
            return text == "\(plain.value)" ? nil : "\(name).\(own.label ?? "?"): \(text)"
        }
    }
}
