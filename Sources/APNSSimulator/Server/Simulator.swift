internal import APNSBasics
internal import APNSTransport
internal import NIOCore
internal import NIOPosix
internal import Synchronization

/// A TLS and HTTP/2 server that behaves like APNs, and misbehaves on script. It shares only the wire code with the
/// client, so that an error in the client cannot hide a matching one here.
///
/// ```swift
/// let simulator = try await Simulator.start()
/// // … a client with host "localhost", port `simulator.port`, trust root `simulator.certificateAuthorityPEM`
/// simulator.inject(.serviceUnavailable(count: 5))
/// await simulator.stop()
/// ```
/// Each simulator has its own certificate authority, port and state. You can run any number side by side.
public final class Simulator: Sendable {
    /// The address it listens on.
    public let host: String
    /// The port it listens on.
    public let port: Int
    /// The root certificate (PEM) that a client must trust.
    public let certificateAuthorityPEM: String

    /// The seed for faults of scripts without a seed of their own: see `Configuration.seed`.
    public let seed: UInt64

    /// The key of `certificateAuthorityPEM`. A secret.
    package var certificateAuthorityKeyPEM: String { self.identities.certificateAuthorityKeyPEM }

    let core: SimulatorCore
    let identities: ServerIdentities
    private let listener: ListenerKeeper

    private init(core: SimulatorCore, listener: ListenerKeeper, identities: ServerIdentities) {
        self.host = core.configuration.host
        self.port = listener.port
        self.seed = core.configuration.seed
        self.certificateAuthorityPEM = identities.certificateAuthorityPEM
        self.identities = identities
        self.core = core
        self.listener = listener
    }

    // MARK: Lifecycle

    /// Creates a certificate and starts to listen. Clients can connect once this returns.
    ///
    /// - Throws: `SimulatorError` with the code `startFailed`.
    public static func start(
        _ configuration: Configuration = Configuration()
    ) async throws(SimulatorError) -> Simulator {
        let core = SimulatorCore(configuration)
        do {
            var asksForCertificate = false
            if case .clientCertificate = configuration.credential { asksForCertificate = true }
            let identities = try ServerIdentities(
                names: configuration.certificateNames,
                asksForCertificate: asksForCertificate,
                authority: configuration.certificateAuthority
            )
            // Created now, so that the first connection does not have to wait for it.
            _ = try identities.context(TLSFault())
            let listener = try await ListenerKeeper(port: configuration.port) { port throws(WireError) in
                try await Listener.bind(
                    host: configuration.host,
                    port: port,
                    group: configuration.eventLoopGroup ?? MultiThreadedEventLoopGroup.singleton,
                    entrance: { try Self.entrance(core, identities) }
                )
            }
            core.listener.withLock { $0 = listener }
            core.inject(configuration.faults)
            return Simulator(core: core, listener: listener, identities: identities)
        } catch {
            let message = (error as? WireError)?.message ?? "\(error)"
            throw SimulatorError(code: .startFailed, message: "the simulator cannot start: \(message)")
        }
    }

    /// Accepts no further connections and closes the open ones without GOAWAY. Waiting calls throw `cancelled`.
    public func stop() async {
        await self.listener.stop()
        // The listener retains the core too.
        self.core.listener.withLock { $0 = nil }
        let sessions = self.core.state.withLock { state in
            state.isStopped = true
            return Array(state.sessions.values)
        }
        await Self.run(on: sessions) {
            $0.drop(.closeNotify)
            return true
        }
        let lastClosed = OneShot<Void>()
        self.core.state.withLock { state in
            if state.sessions.isEmpty { lastClosed.give(()) } else { state.stopping.append(lastClosed) }
        }
        await lastClosed.wait()
        let waiters = self.core.state.withLock { state in
            let waiters = Array(state.waiters.values)
            state.waiters = [:]
            return waiters
        }
        for waiter in waiters {
            waiter.end(.failure(Self.stopped))
        }
    }

    // MARK: Keys, device tokens and topics

    /// Adds a key: from now on, tokens with its signature are verified and accepted.
    ///
    /// - Parameters:
    ///   - keyID: the key's id.
    ///   - teamID: the team's id.
    ///   - publicKeyPEM: a public key on the curve P-256 in PEM form.
    /// - Throws: `SimulatorError.Code.keyUnusable`.
    public func addKey(keyID: String, teamID: String, publicKeyPEM: String) throws(SimulatorError) {
        self.add(try Key(keyID: keyID, teamID: teamID, publicKeyPEM: publicKeyPEM))
    }

    /// Adds a generated key.
    public func addKey(_ key: SimulatedKey) {
        self.add(Key(key))
    }

    private func add(_ key: Key) {
        self.core.update { state in
            state.verifier.keys[key.keyID] = key
            state.keyGeneration += 1
        }
    }

    /// Removes a key, as if it were revoked. Its tokens are rejected, unless the simulator accepts any provider token.
    public func removeKey(keyID: String) {
        self.core.update { state in
            state.verifier.keys[keyID] = nil
            state.keyGeneration += 1
        }
    }

    /// Whether a second provider token of one key within 20 minutes is rejected with 429
    /// `TooManyProviderTokenUpdates`. After a change, the tokens that were used before it do not count. It begins as
    /// `Configuration.limitsProviderTokenUpdates`, also after a reset.
    public var limitsProviderTokenUpdates: Bool {
        get { self.core.state.withLock { $0.limitsProviderTokenUpdates } }
        set { self.core.update { $0.limitProviderTokenUpdates(newValue) } }
    }

    /// Whether requests must carry a provider token.
    package var asksForToken: Bool { self.core.configuration.credential.asksForToken }

    /// Sets the state of a device token. Tokens without a state are valid.
    ///
    /// - Parameters:
    ///   - hex: hexadecimal digits in either case.
    ///   - state: determines the response to pushes to this token from now on.
    public func setToken(_ hex: String, _ state: DeviceTokenState) {
        let token = hex.lowercased()
        self.core.update { $0.rules.tokenStates[token] = state == .valid ? nil : state }
    }

    /// The states of device tokens, by token in lower case. Tokens without an entry are valid.
    public var tokenStates: [String: DeviceTokenState] {
        self.core.state.withLock { $0.rules.tokenStates }
    }

    /// Sets the allowed bundle IDs; nil for all.
    public func setTopics(_ topics: Set<String>?) {
        self.core.update { $0.rules.topics = topics }
    }

    // MARK: Faults

    /// Adds a fault. It applies to requests that arrive from now on.
    ///
    /// - Returns: the added fault, or none if it can never apply.
    @discardableResult
    public func inject(_ fault: Fault) -> [ActiveFault] {
        self.inject(FaultScript([fault]))
    }

    /// Adds all faults of a script, in its order.
    ///
    /// - Returns: the added faults, without those that can never apply.
    @discardableResult
    public func inject(_ script: FaultScript) -> [ActiveFault] {
        self.core.inject(script)
    }

    /// The faults that can still apply, in the order in which they were added.
    public var activeFaults: [ActiveFault] {
        let uptime = self.core.now.uptime
        return self.core.state.withLock { $0.engine.active(at: uptime) }
    }

    /// Removes a fault. Responses that it delayed are still sent.
    ///
    /// - Parameter id: See `ActiveFault.id`.
    /// - Returns: whether there was such a fault.
    @discardableResult
    public func removeFault(id: Int) -> Bool {
        let uptime = self.core.now.uptime
        return self.core.update { $0.engine.remove(id: id, at: uptime) }
    }

    /// Applies an effect to open connections now. Effects on a single request do nothing.
    ///
    /// ```swift
    /// await simulator.apply(.silence)
    /// await simulator.apply(.settings(maxConcurrentStreams: 2), to: .number(1))
    /// ```
    ///
    /// - Returns: the number of connections.
    @discardableResult
    public func apply(_ effect: FaultEffect, to selection: ConnectionSelection = .all) async -> Int {
        if case .listenerDown(let duration) = effect.kind { self.core.closeListener(for: duration) }
        let now = self.core.now
        if self.core.update({ $0.applyToAll(effect.kind, now: now) }) { return 0 }
        guard effect.events.contains(.time) else { return 0 }
        return await self.run(on: selection) { $0.apply(effect) }
    }

    /// Sets the offset of the simulator's clock in seconds. It affects `date` and the age of provider tokens.
    public func setClockOffset(seconds: Int64) {
        let limit = Self.clockOffsetLimit
        self.core.update { $0.clockOffset = min(max(seconds, -limit), limit) }
    }

    /// Closes the port: new connections are refused, open ones stay.
    public func stopListening() async { await self.listener.close() }

    /// Opens the port again. Clients can connect once this returns.
    public func startListening() async { await self.listener.open() }

    /// Removes all faults. Delayed responses are still sent.
    public func removeFaults() {
        self.core.update { $0.engine.removeAll() }
    }

    /// Closes connections now, without GOAWAY. They are closed once this returns.
    ///
    /// - Parameters:
    ///   - selection: the connections to close.
    ///   - closeNotify: whether TLS ends with close_notify before the connection closes.
    /// - Returns: the number of connections.
    @discardableResult
    public func dropConnections(_ selection: ConnectionSelection = .all, closeNotify: Bool = false) async -> Int {
        await self.run(on: selection) { $0.drop(closeNotify ? .closeNotify : .fin) }
    }

    /// Sends GOAWAY now. Streams above the last id are not processed; the connections close when the others are done.
    ///
    /// - Parameters:
    ///   - selection: the connections.
    ///   - lastStreamID: the last stream id; nil for the highest stream with a decision on each connection.
    ///   - reason: sent in the debug data as `{"reason":…}`; nil for no debug data.
    ///   - code: the HTTP/2 error code; 0 is NO_ERROR.
    /// - Returns: the number of connections.
    @discardableResult
    public func goAway(
        _ selection: ConnectionSelection = .all,
        lastStreamID: Int32? = nil,
        reason: String? = nil,
        code: UInt32 = 0
    ) async -> Int {
        let debugData = FaultEffect.GoAway(reason: reason).debugData
        return await self.run(on: selection) { session in
            session.goAway(lastStreamID: lastStreamID, debugData: debugData, code: code)
        }
    }

    // MARK: Internals

    private static func sessionConfiguration(_ core: SimulatorCore) -> HTTP2ServerSession.Configuration {
        var session = HTTP2ServerSession.Configuration()
        let initial = core.configuration.initialMaxConcurrentStreams
        session.maxConcurrentStreams = max(initial, core.configuration.maxConcurrentStreams)
        if !core.configuration.credential.asksForToken {
            session.maxConcurrentStreams = core.configuration.maxConcurrentStreams
        } else if initial < session.maxConcurrentStreams {
            session.announcedMaxConcurrentStreams = initial
        }
        session.initialWindowSize = core.configuration.initialWindowSize
        session.headerReporting = core.headerReporting
        if core.configuration.limitsStreamResets {
            session.resetBurst = 1000
            session.resetRate = 33
        }
        return session
    }

    /// Called in the order in which connections are accepted.
    private static func entrance(_ core: SimulatorCore, _ identities: ServerIdentities) throws -> ServerEntrance {
        let now = core.now
        let (number, draw) = core.state.withLock { state in
            state.ledger.connectionsOpened += 1
            let number = state.ledger.connectionsOpened
            return (number, state.connectFaults(connection: number, now: now))
        }
        var session = Self.sessionConfiguration(core)
        var tls = TLSFault()
        var behaviour = ServerEntrance.Behaviour.serve
        var lasting: TimeAmount?
        for fault in draw.beside {
            switch fault {
            case .closeOnAccept(let ending): behaviour = .close(withReset: ending == .rst)
            case .neverSpeak(let duration):
                behaviour = .keepSilent
                lasting = duration.map { TimeAmount(bounded: $0) }
            case .handshakeStall(let bytes, let duration):
                behaviour = .stallHandshake(afterBytes: bytes)
                lasting = duration.map { TimeAmount(bounded: $0) }
            case .tls(let fault): tls = fault
            case .rapidResetLimit(let burst, let rate):
                session.resetBurst = UInt64(max(burst, 0))
                session.resetRate = UInt64(max(rate, 0))
            case .listenerDown(let duration): core.closeListener(for: duration)
            default: core.update { _ = $0.applyToAll(fault, now: now) }
            }
        }
        return ServerEntrance(
            tls: try identities.context(tls),
            configuration: session,
            behaviour: behaviour,
            lasting: lasting,
            accept: { Self.accept($0, number: number, faults: draw.names, core) }
        )
    }

    /// Called on the connection's loop.
    private static func accept(
        _ connection: ServerConnection,
        number: Int,
        faults: [String],
        _ core: SimulatorCore
    ) -> SimulatorSession {
        let session = SimulatorSession(connection, number: number, faults: faults, core: core)
        let bound = NIOLoopBound(session, eventLoop: connection.loop)
        let isStopped = core.update { state in
            state.sessions[number] = bound
            return state.isStopped
        }
        // The connection was accepted while the simulator was stopping. Its handler is not installed yet.
        if isStopped { connection.loop.execute { bound.value.drop() } }
        return session
    }

    private func run(
        on selection: ConnectionSelection,
        _ body: @escaping @Sendable (SimulatorSession) -> Void
    ) async -> Int {
        let sessions = self.core.state.withLock { state in
            switch selection {
            case .all, .idle: state.sessions.sorted { $0.key < $1.key }.map(\.value)
            case .number(let number): state.sessions[number].map { [$0] } ?? []
            }
        }
        return await Self.run(on: sessions) { session in
            if selection == .idle, !session.isIdle { return false }
            body(session)
            return true
        }
    }

    /// Runs `body` for each session on its loop, and returns when all are done.
    @discardableResult
    private static func run(
        on sessions: [NIOLoopBound<SimulatorSession>],
        _ body: @escaping @Sendable (SimulatorSession) -> Bool
    ) async -> Int {
        var count = 0
        for session in sessions {
            let isTaken = try? await session.eventLoop.submit { body(session.value) }.get()
            if isTaken == true { count += 1 }
        }
        return count
    }
}
