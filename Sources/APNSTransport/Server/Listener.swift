package import NIOCore
import NIOPosix
import Synchronization

/// How a server treats a new connection.
package struct ServerEntrance: Sendable {
    package enum Behaviour: Sendable, Hashable {
        /// Serves normally.
        case serve
        /// Closes the connection as soon as it is accepted.
        case close(withReset: Bool)
        /// Ignores the client's bytes and sends nothing.
        case keepSilent
        /// Sends this many bytes of the server's TLS handshake, and no more.
        case stallHandshake(afterBytes: Int)
    }

    package var tls: TLSContext
    package var configuration: HTTP2ServerSession.Configuration
    package var behaviour: Behaviour
    /// How long the behaviour lasts. After that, the connection continues normally. `nil` means no limit.
    package var lasting: TimeAmount?
    /// Called on the connection's event loop. The connection retains the delegate that it returns.
    package var accept: @Sendable (ServerConnection) -> any ServerConnectionDelegate

    package init(
        tls: TLSContext,
        configuration: HTTP2ServerSession.Configuration,
        behaviour: Behaviour = .serve,
        lasting: TimeAmount? = nil,
        accept: @escaping @Sendable (ServerConnection) -> any ServerConnectionDelegate
    ) {
        self.tls = tls
        self.configuration = configuration
        self.behaviour = behaviour
        self.lasting = lasting
        self.accept = accept
    }
}

/// A TLS and HTTP/2 server that listens on one address.
package struct Listener: Sendable {
    private let channel: any Channel

    /// The port that the system chose or that was requested. Still valid after the listener is closed, when the channel
    /// has no port.
    package let port: Int

    private init(channel: any Channel) {
        self.channel = channel
        self.port = channel.localAddress?.port ?? 0
    }

    /// Starts to listen.
    ///
    /// - Parameters:
    ///   - port: The port. 0 means any free port.
    ///   - accept: Called on the event loop of each new connection, and returns its delegate. The connection retains
    ///     the delegate.
    package static func bind(
        host: String,
        port: Int,
        tls: TLSContext,
        group: any EventLoopGroup,
        configuration: @escaping @Sendable () -> HTTP2ServerSession.Configuration,
        accept: @escaping @Sendable (ServerConnection) -> any ServerConnectionDelegate
    ) async throws(WireError) -> Listener {
        try await self.bind(host: host, port: port, group: group) {
            ServerEntrance(tls: tls, configuration: configuration(), accept: accept)
        }
    }

    /// Starts to listen.
    ///
    /// - Parameters:
    ///   - port: The port. 0 means any free port.
    ///   - entrance: Called on the listener's event loop for each new connection, in the order in which they are
    ///     accepted.
    package static func bind(
        host: String,
        port: Int,
        group: any EventLoopGroup,
        entrance: @escaping @Sendable () throws -> ServerEntrance
    ) async throws(WireError) -> Listener {
        let order = AcceptOrder()
        let bootstrap = ServerBootstrap(group: group)
            .serverChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(AcceptOrderHandler(order, entrance))
                }
            }
            .serverChannelOption(.backlog, value: 1024)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let entrance = try order.take(channel) ?? entrance()
                    let connection = ServerConnection(loop: channel.eventLoop)
                    let handlers = try connection.makeHandlers(entrance)
                    connection.retain(entrance.accept(connection))
                    try channel.pipeline.syncOperations.addHandler(handlers.gate)
                    try channel.pipeline.syncOperations.addHandler(handlers.wire)
                }
            }
        do {
            return Listener(channel: try await bootstrap.bind(host: host, port: port).get())
        } catch {
            throw WireError(.connectFailed, "cannot listen on \(host):\(port): \(error)")
        }
    }

    /// Accepts no more connections. Existing ones stay open.
    package func close() async {
        try? await self.channel.close(mode: .all).get()
    }
}

/// The entrances of accepted connections that are being moved to their own event loops. Those loops run in parallel, so
/// only the listener's loop knows the order of the connections.
private final class AcceptOrder: Sendable {
    private let entrances = Mutex<[ObjectIdentifier: Result<ServerEntrance, any Error>]>([:])

    func put(_ entrance: Result<ServerEntrance, any Error>, for channel: any Channel) {
        self.entrances.withLock { $0[ObjectIdentifier(channel)] = entrance }
    }

    func take(_ channel: any Channel) throws -> ServerEntrance? {
        try self.entrances.withLock { $0.removeValue(forKey: ObjectIdentifier(channel)) }?.get()
    }
}

private final class AcceptOrderHandler: ChannelInboundHandler {
    typealias InboundIn = any Channel
    typealias InboundOut = any Channel

    private let order: AcceptOrder
    private let entrance: @Sendable () throws -> ServerEntrance

    init(_ order: AcceptOrder, _ entrance: @escaping @Sendable () throws -> ServerEntrance) {
        self.order = order
        self.entrance = entrance
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let entrance = self.entrance
        self.order.put(Result { try entrance() }, for: self.unwrapInboundIn(data))
        context.fireChannelRead(data)
    }
}
