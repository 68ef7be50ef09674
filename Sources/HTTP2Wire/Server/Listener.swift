package import NIOCore
import NIOPosix
import Synchronization

/// How a server meets a new connection.
package struct ServerEntrance: Sendable {
    package enum Behaviour: Sendable, Hashable {
        /// As it should.
        case serve
        /// The connection is closed as soon as it is there.
        case close(withReset: Bool)
        /// What comes is not looked at, and nothing is said.
        case keepSilent
        /// So many bytes of our TLS are sent, and no more.
        case stallHandshake(afterBytes: Int)
    }

    package var tls: TLSContext
    package var configuration: HTTP2Session.Configuration
    package var behaviour: Behaviour
    /// How long the behaviour lasts; then all goes on as if nothing had been. Nil: for ever.
    package var lasting: TimeAmount?
    /// Called on the connection's loop. The delegate that it returns lives as long as the connection.
    package var accept: @Sendable (ServerConnection) -> any ServerConnectionDelegate

    package init(
        tls: TLSContext,
        configuration: HTTP2Session.Configuration,
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

/// The accept side: a TLS + HTTP/2 server on one address.
package struct Listener: Sendable {
    private let channel: any Channel

    /// The port that the system chose, or the one that was asked for; also after the end, when the channel has none.
    package let port: Int

    private init(channel: any Channel) {
        self.channel = channel
        self.port = channel.localAddress?.port ?? 0
    }

    /// - Parameters:
    ///   - port: 0: any free one.
    ///   - accept: called on the loop of each new connection, whose delegate it returns. The delegate lives as long
    ///     as the connection.
    package static func bind(
        host: String,
        port: Int,
        tls: TLSContext,
        group: any EventLoopGroup,
        configuration: @escaping @Sendable () -> HTTP2Session.Configuration,
        accept: @escaping @Sendable (ServerConnection) -> any ServerConnectionDelegate
    ) async throws(WireError) -> Listener {
        try await self.bind(host: host, port: port, group: group) {
            ServerEntrance(tls: tls, configuration: configuration(), accept: accept)
        }
    }

    /// - Parameters:
    ///   - port: 0: any free one.
    ///   - entrance: called for each new connection in the order in which they are accepted, on the listener's loop.
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

    /// Takes no further connections. Those that are there stay.
    package func close() async {
        try? await self.channel.close(mode: .all).get()
    }
}

/// The entrances of connections that were accepted and are on their way to their own loops. Those run side by side, so
/// that only the listener's knows the order.
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
