import NIOCore
import NIOPosix
import Synchronization

/// A TCP relay between a client and a server on 127.0.0.1, with the faults of a network.
package final class TCPRelay: Sendable {
    /// Writes what its channel reads to the other channel of the pair.
    private final class Pipe: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        private let other: any Channel
        private let path: Path
        private let count: ((ByteBuffer) -> Void)?

        init(_ other: any Channel, _ path: Path, count: ((ByteBuffer) -> Void)? = nil) {
            self.other = other
            self.path = path
            self.count = count
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            guard !self.path.isForgotten.load(ordering: .relaxed) else { return }
            let bytes = self.unwrapInboundIn(data)
            self.count?(bytes)
            self.other.writeAndFlush(bytes, promise: nil)
        }

        func channelInactive(context: ChannelHandlerContext) {
            if !self.path.isForgotten.load(ordering: .relaxed) { self.other.close(mode: .all, promise: nil) }
        }
    }

    /// Counts the TLS records in a stream of bytes (RFC 8446, section 5.1: a header of 5 bytes, the last two of which
    /// are the length).
    private final class RecordCounter {
        private var header: [UInt8] = []
        private var left = 0

        /// Returns how many records begin in these bytes.
        func count(_ bytes: ByteBuffer) -> Int {
            var (bytes, count) = (bytes, 0)
            while bytes.readableBytes > 0 {
                let skipped = min(self.left, bytes.readableBytes)
                bytes.moveReaderIndex(forwardBy: skipped)
                self.left -= skipped
                guard let byte = bytes.readInteger(as: UInt8.self) else { break }
                self.header.append(byte)
                guard self.header.count == 5 else { continue }
                count += 1
                self.left = Int(self.header[3]) << 8 | Int(self.header[4])
                self.header = []
            }
            return count
        }
    }

    /// The two channels of one connection.
    private final class Path: Sendable {
        let isForgotten = Atomic<Bool>(false)
        let channels = Mutex<[any Channel]>([])
    }

    private final class State: Sendable {
        let paths = Mutex<[Path]>([])
        let records = Atomic<Int>(0)
    }

    private let listener: any Channel
    private let state: State
    package let host: String
    /// Stays valid after `stop()`, when the channel has no address.
    package let port: Int

    /// How many connections were made.
    package var connections: Int { self.state.paths.withLock { $0.count } }
    /// How many TLS records clients have sent.
    package var clientRecords: Int { self.state.records.load(ordering: .relaxed) }

    package static func start(host: String = "127.0.0.1", port: Int = 0, to destination: Int) async throws -> TCPRelay {
        let state = State()
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { child in
                let path = Path()
                state.paths.withLock { $0.append(path) }
                return ClientBootstrap(group: child.eventLoop)
                    .channelInitializer { upstream in
                        upstream.eventLoop.makeCompletedFuture {
                            try upstream.pipeline.syncOperations.addHandler(Pipe(child, path))
                        }
                    }
                    .connect(host: "127.0.0.1", port: destination)
                    .flatMapThrowing { upstream in
                        path.channels.withLock { $0 = [child, upstream] }
                        let counter = RecordCounter()
                        let pipe = Pipe(upstream, path) { bytes in
                            state.records.wrappingAdd(counter.count(bytes), ordering: .relaxed)
                        }
                        try child.pipeline.syncOperations.addHandler(pipe)
                    }
            }
            .bind(host: host, port: port).get()
        return TCPRelay(listener: listener, state: state, host: host)
    }

    private init(listener: any Channel, state: State, host: String) {
        self.listener = listener
        self.state = state
        self.host = host
        self.port = listener.localAddress?.port ?? 0
    }

    private var channels: [any Channel] {
        self.state.paths.withLock { $0 }.flatMap { path in path.channels.withLock { $0 } }
    }

    /// Stops reading, like a peer or a network that stalls.
    package func stall() async throws { try await self.setReading(false) }

    package func resume() async throws { try await self.setReading(true) }

    private func setReading(_ isReading: Bool) async throws {
        for channel in self.channels { try await channel.setOption(.autoRead, value: isReading).get() }
    }

    /// Drops all bytes of the present connections from now on, without a word to either side, like a middlebox that
    /// has forgotten them. New connections work.
    package func forget() {
        for path in self.state.paths.withLock({ $0 }) { path.isForgotten.store(true, ordering: .relaxed) }
    }

    package func stop() async {
        try? await self.listener.close().get()
        for channel in self.channels { try? await channel.close().get() }
    }
}
