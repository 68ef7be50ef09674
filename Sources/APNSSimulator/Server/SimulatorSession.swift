internal import APNSBasics
internal import APNSTransport
internal import NIOCore
internal import Synchronization

/// One connection to the simulator. Confined to the connection's loop.
final class SimulatorSession: ServerConnectionDelegate {
    private let core: SimulatorCore
    private let connection: ServerConnection
    /// The faults of the connection before its TLS handshake.
    private let faults: [String]
    private var state: ConnectionState
    /// Whether pending responses are no longer sent.
    private var isSilent = false
    /// Whether the TLS handshake has only just completed.
    private var isOpening = false

    init(_ connection: ServerConnection, number: Int, faults: [String], core: SimulatorCore) {
        self.core = core
        self.connection = connection
        self.faults = faults
        self.state = ConnectionState(number: number)
        // A client with a certificate is authenticated from the start.
        if !core.configuration.credential.asksForToken { self.state.hasRaisedLimit = true }
    }

    var number: Int { self.state.number }

    var isIdle: Bool { self.connection.openStreamCount == 0 }

    // MARK: The connection's delegate

    func opened() {
        let now = self.core.now
        let actions = self.core.update { $0.openFaults(&self.state, now: now) }
        guard !actions.isEmpty else { return }
        self.isOpening = true
        self.perform(actions)
        self.isOpening = false
    }

    func received(_ requests: [ServerRequest]) {
        let now = self.core.now
        var actions: [SessionAction] = []
        self.core.state.withLock { actions = $0.decide(requests, &self.state, now: now) }
        self.perform(actions)
        // Notify waiters for the ledger once the responses are on their way.
        self.core.update { _ in }
    }

    func streamClosed(_ streamID: Int32, code: HTTP2ErrorCode) {
        if !self.state.earlyResponded.isEmpty { self.state.earlyResponded.remove(streamID) }
    }

    func failed(_ failure: FailedEntrance) {
        guard !self.isSilent else { return }
        let configuration = self.core.configuration
        let failed = FailedConnection(
            failure,
            names: configuration.certificateNames,
            faults: self.faults,
            connection: self.number,
            milliseconds: self.core.now.milliseconds
        )
        if let group = self.core.update({ $0.ledger.count(failed) }) { configuration.onFailedConnection?(group) }
    }

    func closed(_ error: WireError) {
        let stopping = self.core.update { state in
            state.sessions[self.state.number] = nil
            state.ledger.connectionsClosed += 1
            guard state.isStopped, state.sessions.isEmpty else { return [OneShot<Void>]() }
            let stopping = state.stopping
            state.stopping = []
            return stopping
        }
        for waiter in stopping { waiter.give(()) }
    }

    // MARK: On demand

    func apply(_ effect: FaultEffect) {
        let now = self.core.now
        self.perform(self.core.update { $0.apply(effect, to: &self.state, now: now) })
    }

    func drop(_ ending: ConnectionEnding = .fin) {
        self.state.isLost = true
        self.perform([.drop(ending)])
    }

    func goAway(lastStreamID: Int32?, debugData: [UInt8], code: UInt32) {
        self.perform([self.state.goAway(lastStreamID, debugData: debugData, code: code)])
    }

    // MARK: Internals

    private func perform(_ actions: [SessionAction]) {
        var delayed: [SessionAction.Response] = []
        var delay = Duration.zero
        for action in actions {
            switch action {
            case .respond(let response, let after) where after <= .zero:
                self.respond(response)
            case .respond(let response, let after):
                // Responses with equal delays share a timer.
                if after != delay {
                    self.schedule(delayed, after: delay)
                    delayed.removeAll()
                    delay = after
                }
                delayed.append(response)
            case .reset(let streamID, let code):
                self.connection.reset(streamID: streamID, code: code)
            case .settings(let settings):
                self.send(settings)
            case .goAway(let lastStreamID, let code, let debugData):
                self.connection.goAway(lastStreamID: lastStreamID, code: code, debugData: debugData)
                self.core.update { $0.ledger.goAwaysSent += 1 }
            case .gracefulGoAway(let goAway, let notice):
                self.goAwayGracefully(goAway, notice)
            case .write(let bytes): self.connection.write(bytes)
            case .settingsFlood(let count):
                for _ in 0..<count { self.connection.set([]) }
            case .slowReader(let bytes, let interval):
                self.connection.readSlowly(bytes: bytes, every: TimeAmount(bounded: interval))
            case .listenerDown(let duration): self.core.closeListener(for: duration)
            case .drop, .silence: self.end(action)
            }
        }
        self.schedule(delayed, after: delay)
        self.connection.flush()
    }

    private func end(_ action: SessionAction) {
        // An action that ends a connection directly after its handshake replaces the first SETTINGS.
        if !self.isOpening { self.connection.flush() }
        self.isSilent = true
        if case .silence = action {} else { self.core.update { $0.ledger.connectionsDropped += 1 } }
        switch action {
        case .silence(let acknowledgesPings, let reads):
            if !acknowledgesPings { self.connection.silence(reads: reads) }
        case .drop(.fin): self.connection.drop()
        case .drop(.rst): self.connection.reset()
        case .drop(.closeNotify): self.connection.close()
        default: break
        }
    }

    private func send(_ settings: [HTTP2Setting]) {
        if settings.count == 1, settings[0].identifier == 3 {
            self.connection.set(maxConcurrentStreams: settings[0].value)
        } else {
            self.connection.set(settings.map { ($0.identifier, $0.value) })
        }
    }

    private func goAwayGracefully(_ goAway: FaultEffect.GoAway, _ notice: Duration) {
        // nghttp2 would end the session after the last stream that is open now, so the frame is written directly.
        self.connection.write(Bytes.frame(.goAway, payload: [0x7F, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0]))
        self.core.update { $0.ledger.goAwaysSent += 1 }
        self.connection.loop.assumeIsolated().scheduleTask(in: TimeAmount(bounded: notice)) {
            guard !self.isSilent else { return }
            self.goAway(lastStreamID: nil, debugData: goAway.debugData, code: goAway.code)
        }
    }

    private func schedule(_ responses: [SessionAction.Response], after delay: Duration) {
        guard !responses.isEmpty else { return }
        self.connection.loop.assumeIsolated().scheduleTask(in: TimeAmount(bounded: delay)) {
            for response in responses { self.respond(response) }
            self.connection.flush()
        }
    }

    private func respond(_ response: SessionAction.Response) {
        guard !self.isSilent else { return }
        if response.isPlain {
            self.connection.respond(
                streamID: response.streamID,
                status: response.status,
                fields: response.fields,
                body: response.body
            )
            return
        }
        for status in response.informational {
            self.connection.inform(streamID: response.streamID, status: status)
            // nghttp2 accepts the next informational response only after this one has been sent.
            self.connection.flush()
        }
        self.connection.respond(
            streamID: response.streamID,
            status: response.status,
            fields: response.fields,
            body: response.body,
            ending: response.ending
        )
        if response.cutCode != nil || response.resetCode != nil { self.connection.flush() }
        if let code = response.cutCode {
            self.connection.reset(streamID: response.streamID, code: HTTP2ErrorCode(rawValue: code))
        } else if let code = response.resetCode {
            self.reset(response.streamID, behindTheResponse: code)
        }
    }

    /// nghttp2 sends no RST_STREAM for a stream that it has closed. A complete response to a complete request closes
    /// it.
    private func reset(_ streamID: Int32, behindTheResponse code: UInt32) {
        if self.connection.hasStream(streamID) {
            self.connection.reset(streamID: streamID, code: HTTP2ErrorCode(rawValue: code))
        } else {
            self.connection.write(Bytes.frame(.reset, streamID: streamID, payload: Bytes.bigEndian(code)))
        }
    }
}
