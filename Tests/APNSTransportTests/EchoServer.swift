import NIOCore
import NIOPosix
import TestSupport

@testable import APNSTransport

/// A server on the library's own session type. It responds to each request with the request's body.
struct EchoServer {
    let listener: Listener
    let caPEM: String

    var port: Int { self.listener.port }

    static func start(
        names: [String] = ["localhost", "127.0.0.1"],
        configure: @escaping @Sendable (inout TLSConfiguration) -> Void = { _ in },
        session: @escaping @Sendable (inout HTTP2ServerSession.Configuration) -> Void = { _ in }
    ) async throws -> EchoServer {
        let authority = try CertificateAuthority()
        let identity = try authority.issue(names: names)
        var tls = TLSConfiguration()
        tls.certificateChainPEM = identity.certificateChainPEM
        tls.privateKeyPEM = identity.privateKeyPEM
        configure(&tls)
        let listener = try await Listener.bind(
            host: "127.0.0.1",
            port: 0,
            tls: try TLSContext(.server, configuration: tls),
            group: MultiThreadedEventLoopGroup.singleton,
            configuration: {
                var configuration = HTTP2ServerSession.Configuration()
                session(&configuration)
                return configuration
            },
            accept: { EchoSession($0) }
        )
        return EchoServer(listener: listener, caPEM: authority.certificatePEM)
    }

    func stop() async { await self.listener.close() }
}

final class EchoSession: ServerConnectionDelegate {
    let connection: ServerConnection
    init(_ connection: ServerConnection) { self.connection = connection }

    func received(_ requests: [ServerRequest]) {
        for request in requests {
            self.connection.respond(
                streamID: request.streamID,
                status: 200,
                fields: FieldList(),
                body: request.body
            )
        }
        self.connection.flush()
    }
    func streamClosed(_ streamID: Int32, code: HTTP2ErrorCode) {}
    func closed(_ error: WireError) {}
}

/// A client connection for tests: an actor on the connection's loop, like the connection's owner in the library.
actor ConnectionProbe: ConnectionDelegate {
    enum Beginning: Sendable, Equatable {
        case ready(maxConcurrentStreams: Int)
        case closed(WireError.Code)
    }

    nonisolated var unownedExecutor: UnownedSerialExecutor { self.loop.executor.asUnownedSerialExecutor() }

    private let loop: any EventLoop
    private let host: String
    private let port: Int
    private let tls: Result<TLSContext, WireError>
    private(set) var connection: Connection?
    private weak var formerConnection: Connection?
    private var beginning: CheckedContinuation<Beginning, Never>?
    private var waiting: (count: Int, continuation: CheckedContinuation<[StreamResult], Never>)?
    private var closing: CheckedContinuation<WireError, Never>?
    private(set) var results: [StreamResult] = []
    private(set) var closeError: WireError?
    private(set) var goAway: WireError?
    private(set) var limits: [Int] = []
    private var nextTag: UInt64 = 0

    init(server: EchoServer, host: String = "localhost", port: Int? = nil) {
        var tls = TLSConfiguration()
        tls.caPEM = server.caPEM
        self.init(host: host, port: port ?? server.port, tls: tls)
    }

    init(host: String, port: Int, tls: TLSConfiguration) {
        self.init(
            host: host,
            port: port,
            context: Result { () throws(WireError) in try TLSContext(.client, configuration: tls) }
        )
    }

    init(host: String, port: Int, context: Result<TLSContext, WireError>) {
        self.loop = MultiThreadedEventLoopGroup.singleton.next()
        self.host = host
        self.port = port
        self.tls = context
    }

    func open(
        resolver: (any Resolver & Sendable)? = nil,
        configure: @Sendable (inout Connection.Configuration) -> Void = { _ in }
    ) async -> Beginning {
        let context: TLSContext
        switch self.tls {
        case .failure(let error): return .closed(error.code)
        case .success(let made): context = made
        }
        var configuration = Connection.Configuration(
            host: self.host,
            port: self.port,
            tls: context,
            variableNames: [":path", "apns-id"]
        )
        configuration.connectTimeout = .minutes(10)
        configuration.pathCheck = .patient
        configure(&configuration)
        let connection = Connection(id: 1, configuration: configuration, loop: self.loop, delegate: self)
        self.connection = connection
        return await withCheckedContinuation {
            self.beginning = $0
            connection.open(resolver: resolver)
        }
    }

    /// Starts to connect, closes in the same tick, and returns the channel that was connecting.
    func openAndClose() async -> (channel: (any Channel)?, beginning: Beginning) {
        guard case .success(let context) = self.tls else { return (nil, .closed(.trustStoreMissing)) }
        let configuration = Connection.Configuration(
            host: self.host,
            port: self.port,
            tls: context,
            variableNames: [":path"]
        )
        let connection = Connection(id: 1, configuration: configuration, loop: self.loop, delegate: self)
        self.connection = connection
        var channel: (any Channel)?
        let beginning = await withCheckedContinuation {
            self.beginning = $0
            connection.open()
            channel = connection.pendingChannels.first
            connection.close()
        }
        return (channel, beginning)
    }

    func request(path: String = "/3/device/00", id: String = "", body: String) -> HTTP2Request {
        HTTP2Request(
            shared: HeaderBlock([
                .init(":method", "POST"), .init(":scheme", "https"), .init(":authority", self.host),
                .init("apns-topic", "com.example.app"),
            ]),
            credential: nil,
            values: Array(path.utf8) + Array(id.utf8),
            valueLengths: [UInt16(path.utf8.count), UInt16(id.utf8.count), 0, 0, 0, 0, 0, 0],
            body: Array(body.utf8)
        )
    }

    func submit(_ requests: [HTTP2Request], deadline: TimeAmount = TimeAmount(Patience.limit)) {
        let submissions = requests.map { request in
            self.nextTag += 1
            return StreamSubmission(request: request, tag: StreamTag(self.nextTag), deadline: self.loop.now + deadline)
        }
        self.connection?.submit(submissions)
    }

    /// Sends one request for each body and waits for all results.
    func send(_ bodies: [String], path: String = "/3/device/00") async -> [StreamResult] {
        self.results = []
        self.submit(bodies.map { self.request(path: path, body: $0) })
        return await self.results(bodies.count)
    }

    func results(_ count: Int) async -> [StreamResult] {
        if self.results.count >= count { return self.results }
        return await withCheckedContinuation { self.waiting = (count, $0) }
    }

    /// Whether the connection still exists after this probe has released it.
    func connectionIsHeldByOthers() -> Bool {
        self.formerConnection = self.formerConnection ?? self.connection
        self.connection = nil
        return self.formerConnection != nil
    }

    func cancel(tag: UInt64) { self.connection?.cancel(tag: StreamTag(tag)) }

    func drain() { self.connection?.drain() }

    func close() { self.connection?.close() }

    func closed() async -> WireError {
        if let closeError { return closeError }
        return await withCheckedContinuation { self.closing = $0 }
    }

    nonisolated func connection(_ id: Int, isReadyWithMaxConcurrentStreams limit: Int) {
        self.assumeIsolated {
            $0.limits.append(limit)
            $0.beginning?.resume(returning: .ready(maxConcurrentStreams: limit))
            $0.beginning = nil
        }
    }

    nonisolated func connection(_ id: Int, streamLimitChangedTo limit: Int) {
        self.assumeIsolated { $0.limits.append(limit) }
    }

    nonisolated func connection(_ id: Int, isGoingAway error: WireError) {
        self.assumeIsolated { $0.goAway = error }
    }

    nonisolated func connection(_ id: Int, finished results: [StreamResult]) {
        self.assumeIsolated { probe in
            probe.results += results
            if let (count, continuation) = probe.waiting, probe.results.count >= count {
                probe.waiting = nil
                continuation.resume(returning: probe.results)
            }
        }
    }

    nonisolated func connection(_ id: Int, isClosed error: WireError) {
        self.assumeIsolated { probe in
            probe.closeError = error
            probe.beginning?.resume(returning: .closed(error.code))
            probe.beginning = nil
            probe.closing?.resume(returning: error)
            probe.closing = nil
        }
    }
}
