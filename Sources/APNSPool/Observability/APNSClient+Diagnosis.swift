import APNSModel
import HTTP2Wire
import SupervisedPool
import Synchronization

extension APNSClient {
    /// What there is to know about the client at this moment, as a text to paste into a ticket: versions, health, pool,
    /// connections, credential, recent faults, counts, and the settings that differ from the defaults. For people: its
    /// form may change. Sends nothing.
    ///
    /// - Returns: some dozen lines. Neither keys nor provider tokens nor device tokens are in it; hosts, key ID and team
    ///   ID, or the certificate's name, are.
    public func diagnosis() async -> String { await self.runtime.diagnosis() }
}

/// What versions run here.
enum LibraryVersion {
    static let library = "0.1.0"

    static var swift: String {
        #if compiler(>=6.4)
            "6.4 or later"
        #elseif compiler(>=6.3)
            "6.3"
        #else
            "6.2"
        #endif
    }
}

extension ClientRuntime {
    func diagnosis() async -> String {
        let session = self.credentials.latest
        let pool = await session.pool.status()
        let now = self.clock.now
        let build: String
        #if DEBUG
            build = "debug"
        #else
            build = "release"
        #endif
        let environment = self.configuration.environment
        var lines = [
            "swift-apns-pool \(LibraryVersion.library), Swift \(LibraryVersion.swift), \(build) build, "
                + "\(LinkedVersions.openSSL), nghttp2 \(LinkedVersions.nghttp2)",
            "environment: \(environment.name), \(environment.authority)",
            "health: \(await self.health())",
            "lifecycle: \(self.lifecycle.current), \(self.lifecycle.pushesInFlight) pushes in flight",
            "pool: \(pool.state), \(pool.leased)/\(pool.capacity) streams leased, \(pool.queueDepth) waiting "
                + "(\(pool.bulkQueueDepth) bulk, \(pool.queuedBytes) bytes)",
        ]
        lines += Self.section("connections", pool.workers.map { "\($0)" })
        lines += Self.section("credential", self.credentialLines(session, now))
        lines += Self.section("recent faults", self.monitor.recentFaults(now: now))
        lines += Self.section("counts", self.countLines)
        lines += Self.section("settings other than the defaults", self.currentConfiguration.differences)
        return lines.joined(separator: "\n")
    }

    private static func section(_ title: String, _ lines: [String]) -> [String] {
        lines.isEmpty ? ["\(title): none"] : ["\(title):"] + lines.map { "  \($0)" }
    }

    private func credentialLines(_ session: CredentialSession, _ now: MonotonicInstant) -> [String] {
        var lines = [session.resolved.name]
        if self.credentials.isRevoked { lines.append("revoked") }
        if let trial = self.credentials.onTrial { lines.append("on trial: \(trial.resolved.name)") }
        if let refusal = session.settings.credentials.declaredRefusal { lines.append("refused: \(refusal)") }
        guard session.resolved.signer != nil else { return lines }
        let token = session.tokens.status(now: now)
        if let generation = token.generation {
            lines.append("provider token \(generation), \(token.age.map { "\($0.rounded) old" } ?? "of unknown age")")
        } else {
            lines.append("no provider token yet")
        }
        if token.heldBackUntil != nil { lines.append("no new provider token for now: APNs has seen too many") }
        if token.isClockSuspect { lines.append("APNs calls fresh provider tokens expired: is the clock right?") }
        if let failure = token.lastFailure { lines.append("signing failed: \(failure)") }
        return lines
    }

    private var countLines: [String] {
        let totals = self.monitor.pushes.totals
        let pushes = totals.sorted { $0.value > $1.value }.map { key, count in
            "\(count) \(key.type) \(key.outcome.rawValue)" + (key.reason == "none" ? "" : " (\(key.reason))")
        }
        let monitor = self.monitor
        return pushes + [
            "\(monitor.connects.load(ordering: .relaxed)) connects, "
                + "\(monitor.connectionLosses.load(ordering: .relaxed)) losses, "
                + "\(self.monitor.resends.load(ordering: .relaxed)) resends, "
                + "\(self.monitor.restarts.load(ordering: .relaxed)) restarts, "
                + "\(self.monitor.escalations.load(ordering: .relaxed)) escalations"
        ]
    }
}

extension APNSClientConfiguration {
    /// The settings that are not what they are by default, without those that may hold a secret.
    var differences: [String] {
        let plain = APNSClientConfiguration(authentication: .withoutToken)
        var lines = Self.differences("pool", self.pool, plain.pool)
        lines += Self.differences("timeouts", self.timeouts, plain.timeouts)
        lines += Self.differences("retry", self.retry, plain.retry)
        if self.massRejection != plain.massRejection { lines.append("massRejection: \(self.massRejection)") }
        if self.onEscalation != plain.onEscalation { lines.append("onEscalation: throw") }
        if self.broadcastSpacing != plain.broadcastSpacing {
            lines.append("broadcastSpacing: \(self.broadcastSpacing)")
        }
        if self.trust.caFile != nil { lines.append("trust.caFile: set") }
        if self.trust.caPEM != nil { lines.append("trust.caPEM: set") }
        // It may carry a password.
        if self.proxy != nil { lines.append("proxy: set") }
        if self.eventLoopGroup != nil { lines.append("eventLoopGroup: set") }
        return lines
    }

    private static func differences(_ name: String, _ value: Any, _ plain: Any) -> [String] {
        zip(Mirror(reflecting: value).children, Mirror(reflecting: plain).children).compactMap { own, plain in
            let text = "\(own.value)"
            return text == "\(plain.value)" ? nil : "\(name).\(own.label ?? "?"): \(text)"
        }
    }
}
