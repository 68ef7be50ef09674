package import NIOCore
import NIOPosix

/// The accept side: a TLS + HTTP/2 server on one address.
package struct Listener: Sendable {
    private let channel: any Channel

    /// The port that the system chose, or the one that was asked for.
    package var port: Int { self.channel.localAddress?.port ?? 0 }

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
        let bootstrap = ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: 1024)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let connection = ServerConnection(loop: channel.eventLoop)
                    let handler = try connection.makeHandler(tls: tls, configuration: configuration())
                    connection.retain(accept(connection))
                    try channel.pipeline.syncOperations.addHandler(handler)
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
