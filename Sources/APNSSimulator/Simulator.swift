public import Crypto
import HTTP2Wire
public import NIOCore
import NIOPosix
import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// A TLS + HTTP/2 server that behaves like APNs, and misbehaves as it is told.
///
/// It makes a certificate authority and a certificate of its own; a client that is to trust it is given
/// `certificateAuthorityPEM`. It checks what APNs checks (path, headers, provider token, topic, size, device token) and
/// answers with APNs' reasons. Everything it saw stands in `ledger`.
public final class Simulator: Sendable {
    public struct Configuration: Sendable {
        public enum Credential: Sendable, Hashable {
            /// A well-formed provider token is wanted; its signature is checked when keys were added.
            case providerToken
            /// Requests need none, as with a client certificate.
            case none
        }

        public var host = "127.0.0.1"
        /// 0: any free port.
        public var port = 0
        /// Host names and addresses that the certificate is for.
        public var certificateNames = ["localhost", "127.0.0.1", "::1"]
        public var credential = Credential.providerToken
        /// The topics that may be pushed to; nil: all.
        public var topics: Set<String>?
        /// Whether answers carry `apns-unique-id`, as in APNs' development environment.
        public var isDevelopment = true
        /// SETTINGS_MAX_CONCURRENT_STREAMS before the first valid provider token, and after it.
        public var initialMaxConcurrentStreams: UInt32 = 1
        public var maxConcurrentStreams: UInt32 = 1000
        /// Before each answer.
        public var responseDelay = Duration.zero
        /// Answers when a request's headers are there, before its body is. Its body is not checked then.
        public var answersBeforeBody = false
        /// Whether each push is kept in the ledger. Counts are kept always.
        public var recordsPushes = true
        /// For faults with a probability.
        public var seed: UInt64 = 1
        /// Seconds since 1970, for the age of provider tokens.
        public var clock: @Sendable () -> Int64 = { Int64(time(nil)) }
        /// Nil: NIO's own group.
        public var eventLoopGroup: (any EventLoopGroup)?
        /// The server's certificate begins and ends so many seconds from now.
        public var certificateValidity = -86_400...(365 * 86_400)
        /// The server speaks HTTP/1.1 only (it does not, really: this is for tests of ALPN).
        public var refusesHTTP2 = false

        public init() {}
    }

    public enum Selection: Sendable {
        case all
        /// Those without an open request.
        case idle
        /// The one with this number, counted from 1.
        case connection(Int)
    }

    struct State {
        var verifier = ProviderTokenVerifier()
        var tokens: [String: DeviceTokenState] = [:]
        var script: FaultScript
        var ledger = Ledger()
        var sessions: [Int: SessionHandle] = [:]
        var waiters: [(condition: @Sendable (Ledger) -> Bool, continuation: CheckedContinuation<Void, Never>)] = []
        var isStopped = false
    }

    /// A way to a session from outside its loop.
    struct SessionHandle: Sendable {
        var loop: any EventLoop
        var session: NIOLoopBound<SimulatorSession>
    }

    public let host: String
    public let port: Int
    /// The root certificate that a client must trust, PEM.
    public let certificateAuthorityPEM: String

    private let shared: SimulatorState
    private let listener: Listener

    private init(configuration: Configuration, port: Int, pem: String, shared: SimulatorState, listener: Listener) {
        self.host = configuration.host
        self.port = port
        self.certificateAuthorityPEM = pem
        self.shared = shared
        self.listener = listener
    }

    /// Starts a server. Many may run at once.
    ///
    /// - Throws: an error that says why the port cannot be had or the certificate cannot be made.
    public static func start(_ configuration: Configuration = Configuration()) async throws -> Simulator {
        let authority = try CertificateAuthority()
        let identity = try authority.issue(
            names: configuration.certificateNames,
            validFrom: configuration.certificateValidity.lowerBound,
            validTo: configuration.certificateValidity.upperBound
        )
        var tls = TLSConfiguration()
        tls.certificateChainPEM = identity.certificateChainPEM
        tls.privateKeyPEM = identity.privateKeyPEM
        tls.offersHTTP11Only = configuration.refusesHTTP2
        let shared = SimulatorState(configuration)
        let listener = try await Listener.bind(
            host: configuration.host,
            port: configuration.port,
            tls: try TLSContext(.server, configuration: tls),
            group: configuration.eventLoopGroup ?? MultiThreadedEventLoopGroup.singleton,
            configuration: {
                var session = HTTP2Session.Configuration()
                session.maxConcurrentStreams =
                    configuration.credential == .none
                    ? configuration.maxConcurrentStreams : configuration.initialMaxConcurrentStreams
                session.reportsRequestsEarly = configuration.answersBeforeBody
                return session
            },
            accept: { SimulatorSession($0, shared: shared) }
        )
        return Simulator(
            configuration: configuration,
            port: listener.port,
            pem: authority.certificatePEM,
            shared: shared,
            listener: listener
        )
    }

    /// Closes the port and all connections.
    public func stop() async {
        await self.listener.close()
        self.shared.state.withLock { $0.isStopped = true }
        _ = await self.each(.all) { $0.close() }
    }

    // MARK: What it believes

    /// From now on provider tokens must be signed by this key, or another one that was added.
    public func addKey(keyID: String, teamID: String, publicKey: P256.Signing.PublicKey) {
        self.shared.state.withLock { state in
            state.verifier.keys[keyID] = ProviderTokenVerifier.Key(teamID: teamID, publicKey: publicKey)
            state.verifier.forgetVerdicts()
        }
    }

    public func addKey(_ key: SimulatedKey) {
        self.addKey(keyID: key.keyID, teamID: key.teamID, publicKey: key.privateKey.publicKey)
    }

    /// - Parameter token: hexadecimal, in either case.
    public func setToken(_ token: String, _ state: DeviceTokenState) {
        self.shared.state.withLock { $0.tokens[token.lowercased()] = state }
    }

    // MARK: What it does wrong

    public func inject(_ fault: Fault) {
        self.shared.state.withLock { $0.script.add(fault) }
    }

    public func inject(_ faults: [Fault]) {
        for fault in faults { self.inject(fault) }
    }

    public func removeFaults() {
        self.shared.state.withLock { $0.script.removeAll() }
    }

    /// Closes connections without a word. Returns how many.
    @discardableResult
    public func dropConnections(_ selection: Selection = .all) async -> Int {
        await self.each(selection) { $0.drop() }
    }

    /// Sends GOAWAY: requests that are here are answered, later ones are neither processed nor answered. Returns to how
    /// many connections.
    @discardableResult
    public func goAway(_ selection: Selection = .all, reason: String? = nil) async -> Int {
        await self.each(selection) { $0.goAway(reason: reason) }
    }

    @discardableResult
    public func setMaxConcurrentStreams(_ limit: UInt32, _ selection: Selection = .all) async -> Int {
        await self.each(selection) { $0.set(maxConcurrentStreams: limit) }
    }

    // MARK: What it saw

    public var ledger: Ledger { self.shared.state.withLock { $0.ledger } }

    public var openConnections: Int { self.shared.state.withLock { $0.sessions.count } }

    /// Returns when the ledger meets the condition, which is asked after each change.
    public func wait(until condition: @escaping @Sendable (Ledger) -> Bool) async {
        await withCheckedContinuation { continuation in
            let isMet = self.shared.state.withLock { state in
                if condition(state.ledger) { return true }
                state.waiters.append((condition, continuation))
                return false
            }
            if isMet { continuation.resume() }
        }
    }

    private func each(_ selection: Selection, _ body: @escaping @Sendable (SimulatorSession) -> Void) async -> Int {
        let handles = self.shared.state.withLock { state -> [SessionHandle] in
            if case .connection(let number) = selection { return state.sessions[number].map { [$0] } ?? [] }
            return Array(state.sessions.values)
        }
        var count = 0
        for handle in handles {
            let isDone = try? await handle.loop.submit {
                let session = handle.session.value
                if case .idle = selection, session.hasOpenRequests { return false }
                body(session)
                return true
            }.get()
            if isDone == true { count += 1 }
        }
        return count
    }
}

/// What all connections of a simulator share.
final class SimulatorState: Sendable {
    let configuration: Simulator.Configuration
    let state: Mutex<Simulator.State>

    init(_ configuration: Simulator.Configuration) {
        self.configuration = configuration
        self.state = Mutex(Simulator.State(script: FaultScript(seed: configuration.seed)))
    }

    /// Changes the state and wakes those who waited for it.
    func update<Result>(_ body: (inout Simulator.State) -> Result) -> Result {
        let (result, met) = self.state.withLock { state -> (Result, [CheckedContinuation<Void, Never>]) in
            let result = body(&state)
            if state.waiters.isEmpty { return (result, []) }
            let met = state.waiters.filter { $0.condition(state.ledger) }.map(\.continuation)
            if !met.isEmpty { state.waiters.removeAll { $0.condition(state.ledger) } }
            return (result, met)
        }
        for continuation in met { continuation.resume() }
        return result
    }
}
