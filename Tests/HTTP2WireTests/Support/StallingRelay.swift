import NIOCore
import NIOPosix
import Synchronization

/// A TCP relay on 127.0.0.1 that can stop reading, like a stalled peer or network.
final class StallingRelay: Sendable {
    /// Writes what its channel reads to the other channel of the pair.
    private final class Pipe: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        private let other: any Channel
        init(_ other: any Channel) { self.other = other }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            self.other.writeAndFlush(self.unwrapInboundIn(data), promise: nil)
        }
        func channelInactive(context: ChannelHandlerContext) {
            self.other.close(mode: .all, promise: nil)
        }
    }

    private let listener: any Channel
    private let channels: Channels

    private final class Channels: Sendable {
        let all = Mutex<[any Channel]>([])
    }

    /// Stays valid after `stop()`, when the channel has no address.
    let port: Int

    static func start(to port: Int) async throws -> StallingRelay {
        let channels = Channels()
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton.next())
            .childChannelInitializer { child in
                ClientBootstrap(group: child.eventLoop)
                    .channelInitializer { upstream in
                        upstream.eventLoop.makeCompletedFuture {
                            try upstream.pipeline.syncOperations.addHandler(Pipe(child))
                        }
                    }
                    .connect(host: "127.0.0.1", port: port)
                    .flatMapThrowing { upstream in
                        channels.all.withLock { $0 += [child, upstream] }
                        try child.pipeline.syncOperations.addHandler(Pipe(upstream))
                    }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        return StallingRelay(listener: listener, channels: channels)
    }

    private init(listener: any Channel, channels: Channels) {
        self.listener = listener
        self.port = listener.localAddress?.port ?? 0
        self.channels = channels
    }

    func stall() async throws { try await self.setReading(false) }

    func resume() async throws { try await self.setReading(true) }

    private func setReading(_ isReading: Bool) async throws {
        for channel in self.channels.all.withLock({ $0 }) {
            try await channel.setOption(.autoRead, value: isReading).get()
        }
    }

    func stop() async {
        try? await self.listener.close().get()
        for channel in self.channels.all.withLock({ $0 }) { try? await channel.close().get() }
    }
}
