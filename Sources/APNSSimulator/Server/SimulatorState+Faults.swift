internal import APNSModel
internal import APNSTransport

// The effects of faults on connections and on the simulator.
extension SimulatorState {
    /// The faults of a new connection before its TLS handshake.
    mutating func connectFaults(connection number: Int, now: Now) -> FaultEngine.Draw {
        guard self.engine.hasConnectionFaults else { return FaultEngine.Draw() }
        let situation = FaultEngine.Situation(event: .connect, connection: number, uptime: now.uptime)
        let draw = self.engine.draw(situation) { "" }
        self.ledger.count(faults: draw.names)
        return draw
    }

    /// The faults of a connection after its TLS handshake.
    mutating func openFaults(_ connection: inout ConnectionState, now: Now) -> [SessionAction] {
        guard self.engine.hasConnectionFaults else { return [] }
        let draw = self.engine.draw(self.situation(.open, connection, now)) { "" }
        self.ledger.count(faults: draw.names)
        var actions: [SessionAction] = []
        for kind in draw.beside { self.apply(kind, &connection, now, into: &actions) }
        if let kind = draw.decisive { self.end(kind, &connection, into: &actions) }
        return actions
    }

    /// Applies a timed or requested fault to one of the open connections.
    mutating func apply(
        _ effect: FaultEffect,
        to connection: inout ConnectionState,
        now: Now
    ) -> [SessionAction] {
        var actions: [SessionAction] = []
        self.ledger.count(faults: [effect.name])
        if effect.isBeside {
            self.apply(effect.kind, &connection, now, into: &actions)
        } else {
            self.end(effect.kind, &connection, into: &actions)
        }
        return actions
    }

    /// Applies effects on the whole simulator.
    ///
    /// - Returns: false for effects on single connections.
    mutating func applyToAll(_ kind: FaultEffect.Kind, now: Now) -> Bool {
        switch kind {
        case .clock(let offset): self.clockOffset = offset
        case .pause(let duration, everywhere: true): self.pausedUntil = now.instant + duration
        case .listenerDown: break
        default: return false
        }
        return true
    }

    mutating func apply(
        _ kind: FaultEffect.Kind,
        _ connection: inout ConnectionState,
        _ now: Now,
        into actions: inout [SessionAction]
    ) {
        switch kind {
        case .settings(let settings):
            if settings.contains(where: { $0.identifier == 3 }) { connection.hasRaisedLimit = true }
            actions.append(.settings(settings))
        case .pause(let duration, everywhere: false): connection.pausedUntil = now.instant + duration
        case .pause, .clock: _ = self.applyToAll(kind, now: now)
        case .listenerDown(let duration): actions.append(.listenerDown(duration))
        case .pingFlood(let count):
            var bytes: [UInt8] = []
            bytes.reserveCapacity(count * 17)
            for _ in 0..<count { bytes += Bytes.frame(.ping, payload: [1, 2, 3, 4, 5, 6, 7, 8]) }
            actions.append(.write(bytes))
        case .settingsFlood(let count): actions.append(.settingsFlood(count))
        case .slowReader(let bytes, let interval): actions.append(.slowReader(bytes: bytes, every: interval))
        default: break
        }
    }

    /// Applies effects that end a connection, or start to end it.
    mutating func end(
        _ kind: FaultEffect.Kind,
        _ connection: inout ConnectionState,
        into actions: inout [SessionAction]
    ) {
        switch kind {
        case .goAway(let goAway): self.goAway(goAway, nil, &connection, into: &actions)
        case .drop(_, let ending):
            connection.isLost = true
            actions.append(.drop(ending))
        case .silence(let isProcessed, let acknowledgesPings, let reads):
            connection.isLost = true
            connection.processesWhenLost = isProcessed
            actions.append(.silence(acknowledgesPings: acknowledgesPings, reads: reads))
        default: break
        }
    }

    /// - Parameter streamID: the stream of the request that triggered it; nil if no request did.
    func goAway(
        _ goAway: FaultEffect.GoAway,
        _ streamID: Int32?,
        _ connection: inout ConnectionState,
        into actions: inout [SessionAction]
    ) {
        if let notice = goAway.notice {
            actions.append(.gracefulGoAway(goAway, notice: notice))
            return
        }
        let last: Int32? =
            switch goAway.point {
            case .afterThisRequest: streamID.map { max(connection.highestStreamID, $0) }
            case .beforeThisRequest: nil
            case .streamID(let id): id
            }
        actions.append(connection.goAway(last, debugData: goAway.debugData, code: goAway.code))
    }
}
