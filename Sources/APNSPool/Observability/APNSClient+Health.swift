public import SupervisedPool

extension APNSClient {
    /// The client's current health. Reading it sends nothing and waits for no connection.
    ///
    /// ```swift
    /// let statusOfReadiness = await client.health.isReady ? 200 : 503
    /// ```
    public var health: APNSHealth {
        get async { await self.runtime.health() }
    }

    /// The changes of ``health`` from now on. The last one is `stopped`; then the sequence ends.
    ///
    /// ```swift
    /// for await health in client.healthChanges { logger.notice("push: \(health)") }
    /// ```
    ///
    /// If more than 100 changes are buffered for a slow reader, the oldest are dropped.
    public var healthChanges: EventStream<APNSHealth> {
        self.runtime.monitor.healthChanges.stream(bufferingNewest: 100)
    }
}

extension ClientRuntime {
    func health() async -> APNSHealth {
        let session = self.credentials.latest
        return APNSHealth(self.healthInputs(of: session, await session.pool.status()))
    }

    /// What the health and the status of a session are made from, read once.
    func healthInputs(of session: CredentialSession, _ pool: PoolStatus) -> HealthInputs {
        let credentials = session.settings.credentialBreaker
        let token = session.tokens.status
        return HealthInputs(
            lifecycle: self.lifecycle.current,
            isPaused: self.sending.router.isPaused,
            isRevoked: self.credentials.isRevoked,
            credentialFault: credentials.declaredRefusal.map { "\($0)" },
            weather: session.settings.weather.reported(at: self.clock.now),
            suspectedRefusal: credentials.suspectedRefusal.map { "\($0)" },
            signingFailure: token.lastFailure,
            lacksProviderToken: !token.isUsable,
            waitsForToken: session.resolved.signer != nil && token.generation == nil && token.lastFailure == nil,
            configurationFault: session.currentPool.monitor.configurationFault,
            connections: self.connections(pool, lastFault: session.currentPool.monitor.lastFault),
            hasConnected: self.monitor.hasConnected,
            suspectsMisconfiguration: self.sending.massRejection.isDetected,
            degradedConnections: self.monitor.events.degradedConnections
        )
    }

    private func connections(_ status: PoolStatus, lastFault: String?) -> HealthInputs.Connections {
        switch status.availability {
        case .available: return .available
        case .unavailable: return .unavailable(lastFault)
        case .degraded: break
        }
        // A pool without permanent connections is available without any.
        guard self.live.settings.pool.size == 0 else { return .connecting }
        let isWanted = status.workers.contains { worker in
            switch worker.state {
            case .connecting, .backingOff: true
            case .absent, .idle, .ready, .draining: false
            }
        }
        return isWanted ? .connecting : .available
    }
}
