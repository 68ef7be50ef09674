import NIOCore
import NIOPosix
import Synchronization

/// A fake proxy on 127.0.0.1. It waits for the end of a request's header, sends its scripted response, and relays to an
/// origin if the script says so.
final class ScriptedProxy: Sendable {
    enum Response: Sendable {
        /// Sends these pieces, one write each, then relays everything to this port.
        case relay([String], to: Int)
        /// Sends these bytes, then closes the connection.
        case close([UInt8])
        /// Never responds.
        case silence
    }

    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        private let proxy: ScriptedProxy.State
        private let response: Response
        private var header: [UInt8] = []
        private var origin: (any Channel)?

        init(_ proxy: ScriptedProxy.State, _ response: Response) {
            self.proxy = proxy
            self.response = response
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            if let origin {
                origin.writeAndFlush(self.unwrapInboundIn(data), promise: nil)
                return
            }
            self.header += self.unwrapInboundIn(data).readableBytesView
            let text = String(decoding: self.header, as: UTF8.self)
            guard text.contains("\r\n\r\n") else { return }
            self.proxy.requests.withLock { $0.append(text) }
            switch self.response {
            case .silence: break
            case .close(let bytes):
                context.writeAndFlush(NIOAny(ByteBuffer(bytes: bytes)), promise: nil)
                context.close(mode: .all, promise: nil)
            case .relay(let pieces, let port):
                self.relay(pieces, port, context.channel)
            }
        }

        private func relay(_ pieces: [String], _ port: Int, _ channel: any Channel) {
            let bound = NIOLoopBound(self, eventLoop: channel.eventLoop)
            ClientBootstrap(group: channel.eventLoop)
                .channelInitializer { upstream in
                    upstream.eventLoop.makeCompletedFuture {
                        try upstream.pipeline.syncOperations.addHandler(Back(channel))
                    }
                }
                .connect(host: "127.0.0.1", port: port)
                .whenSuccess { upstream in
                    bound.value.origin = upstream
                    for piece in pieces { channel.writeAndFlush(ByteBuffer(string: piece), promise: nil) }
                }
        }

        func channelInactive(context: ChannelHandlerContext) {
            self.proxy.closed.withLock { $0 += 1 }
            self.origin?.close(mode: .all, promise: nil)
        }
    }

    private final class Back: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        private let other: any Channel
        init(_ other: any Channel) { self.other = other }
        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            self.other.writeAndFlush(self.unwrapInboundIn(data), promise: nil)
        }
        func channelInactive(context: ChannelHandlerContext) { self.other.close(mode: .all, promise: nil) }
    }

    final class State: Sendable {
        let requests = Mutex<[String]>([])
        let closed = Mutex(0)
    }

    private let listener: any Channel
    private let state: State

    /// Stays valid after `stop()`, when the channel has no address.
    let port: Int
    var requests: [String] { self.state.requests.withLock { $0 } }
    var closedConnections: Int { self.state.closed.withLock { $0 } }

    static func start(_ response: Response) async throws -> ScriptedProxy {
        let state = State()
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton.next())
            .childChannelInitializer { child in
                child.eventLoop.makeCompletedFuture {
                    try child.pipeline.syncOperations.addHandler(Handler(state, response))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        return ScriptedProxy(listener: listener, state: state)
    }

    private init(listener: any Channel, state: State) {
        self.listener = listener
        self.port = listener.localAddress?.port ?? 0
        self.state = state
    }

    func stop() async { try? await self.listener.close().get() }
}
