package import NIOCore
import NIOPosix

/// The steps of a connection one by one, to find what is wrong on the path to a server.
package enum NetworkProbe {
    /// What a connection has found.
    package struct Finding: Sendable {
        /// A response to a request.
        package struct Response: Sendable {
            package var status: Int
            /// The `date` field.
            package var date: String?
        }

        /// The TLS handshake; nil if it did not complete.
        package var handshake: HandshakeReport?
        /// The response to a request without a credential; nil if there was none.
        package var response: Response?
        /// Why the connection ended; nil if there is a response.
        package var error: WireError?

        package init(handshake: HandshakeReport? = nil, response: Response? = nil, error: WireError? = nil) {
            self.handshake = handshake
            self.response = response
            self.error = error
        }
    }

    /// Returns all addresses of a name. Blocks, without a limit.
    package static func lookUp(host: String, port: Int) -> Result<[SocketAddress], WireError> {
        if let address = try? SocketAddress(ipAddress: host, port: port) { return .success([address]) }
        return NameResolver.systemLookUp(host, port)
    }

    /// Connects to one address, and closes the connection.
    package static func connect(to address: SocketAddress, timeout: TimeAmount) async throws(WireError) {
        let text = self.text(address)
        do {
            let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .connectTimeout(timeout).connect(to: address).get()
            try? await channel.close()
        } catch {
            var error = WireError(connecting: error, to: text)
            error.message = "\(text): \(error.message)"
            throw error
        }
    }

    /// Connects, even if the certificate is not trusted, and requests `/` without a credential. Any response is sufficient.
    ///
    /// - Parameter configuration: The connection. Its timeout also limits the time for the response.
    package static func examine(_ configuration: Connection.Configuration, authority: String) async -> Finding {
        var configuration = configuration
        configuration.toleratesDistrust = true
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let promise = loop.makePromise(of: Finding.self)
        loop.execute { [configuration] in
            ProbeConnection(configuration, authority: authority, loop: loop, promise: promise).open()
        }
        do {
            return try await promise.futureResult.get()
        } catch {
            return Finding(error: WireError(.invariantBroken, "\(error)"))
        }
    }

    package static func text(_ address: SocketAddress) -> String {
        let host = address.ipAddress ?? "?"
        return (host.contains(":") ? "[\(host)]" : host) + ":\(address.port ?? 0)"
    }
}

/// A connection that is opened for one request. Confined to its event loop.
private final class ProbeConnection: ConnectionDelegate {
    private let authority: String
    private let timeout: TimeAmount
    private let promise: EventLoopPromise<NetworkProbe.Finding>
    private var connection: Connection?
    private var response: NetworkProbe.Finding.Response?
    private var failure: WireError?

    init(
        _ configuration: Connection.Configuration,
        authority: String,
        loop: any EventLoop,
        promise: EventLoopPromise<NetworkProbe.Finding>
    ) {
        self.authority = authority
        self.timeout = configuration.connectTimeout
        self.promise = promise
        self.connection = Connection(id: 1, configuration: configuration, loop: loop, delegate: self)
    }

    func open() { self.connection?.open() }

    func connection(_ id: Int, isReadyWithMaxConcurrentStreams limit: Int) {
        let fields: [HeaderBlock.Field] = [
            .init(":method", "GET"), .init(":scheme", "https"), .init(":authority", self.authority),
        ]
        var lengths = SIMD8<UInt16>()
        lengths[0] = 1
        let request = HTTP2Request(
            shared: HeaderBlock(fields),
            credential: nil,
            values: Array("/".utf8),
            valueLengths: lengths,
            body: []
        )
        self.connection?.submit([StreamSubmission(request: request, tag: 1, deadline: .now() + self.timeout)])
    }

    func connection(_ id: Int, streamLimitChangedTo limit: Int) {}

    func connection(_ id: Int, isGoingAway error: WireError) {}

    func connection(_ id: Int, finished results: [StreamResult]) {
        guard let result = results.first else { return }
        if result.ending == .response {
            self.response = .init(status: result.status, date: result.fields.first("date").map(PeerText.printable))
        } else if result.cause == .deadline {
            self.failure = WireError(.connectTimeout, "the server sent no complete response in time")
        }
        self.connection?.close()
    }

    func connection(_ id: Int, isClosed error: WireError) {
        self.promise.succeed(
            NetworkProbe.Finding(
                handshake: self.connection?.handshake,
                response: self.response,
                error: self.response == nil ? self.failure ?? error : nil
            )
        )
        self.connection = nil
    }
}
