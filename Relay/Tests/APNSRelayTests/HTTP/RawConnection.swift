import NIOCore
import NIOPosix

/// A connection whose bytes the test writes and reads itself.
final class RawConnection {
    private var iterator: NIOAsyncChannelInboundStream<ByteBuffer>.AsyncIterator
    private let outbound: NIOAsyncChannelOutboundWriter<ByteBuffer>
    private var received = ByteBuffer()

    private init(
        _ iterator: NIOAsyncChannelInboundStream<ByteBuffer>.AsyncIterator,
        _ outbound: NIOAsyncChannelOutboundWriter<ByteBuffer>
    ) {
        self.iterator = iterator
        self.outbound = outbound
    }

    /// Connects, and closes the connection when the body returns.
    ///
    /// - Parameter receiveBuffer: the size of the system's buffer for bytes that arrive; nil for the default.
    static func open<Value: Sendable>(
        _ server: RelayServer,
        receiveBuffer: Int? = nil,
        _ body: (RawConnection) async throws -> Value
    ) async throws -> Value {
        var bootstrap = ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelOption(.allowRemoteHalfClosure, value: true)
        if let receiveBuffer {
            bootstrap = bootstrap.channelOption(.socketOption(.so_rcvbuf), value: receiveBuffer)
        }
        let channel = try await bootstrap.connect(host: "127.0.0.1", port: server.port) { channel in
            channel.eventLoop.makeCompletedFuture {
                try NIOAsyncChannel<ByteBuffer, ByteBuffer>(
                    wrappingChannelSynchronously: channel,
                    configuration: .init(
                        backPressureStrategy: .init(lowWatermark: 1, highWatermark: 1),
                        isOutboundHalfClosureEnabled: true
                    )
                )
            }
        }
        return try await channel.executeThenClose { inbound, outbound in
            try await body(RawConnection(inbound.makeAsyncIterator(), outbound))
        }
    }

    func write(_ text: String) async throws { try await self.outbound.write(ByteBuffer(string: text)) }

    func write(_ bytes: [UInt8]) async throws { try await self.outbound.write(ByteBuffer(bytes: bytes)) }

    /// Closes the sending side.
    func finish() { self.outbound.finish() }

    /// Reads until the peer closes. A reset counts as the end, too.
    func readToEnd() async -> String {
        while let part = try? await self.iterator.next(isolation: #isolation) {
            self.received.writeImmutableBuffer(part)
        }
        return self.taken()
    }

    /// Reads until the peer closes, and repeats something that writes in the meantime.
    func readToEnd(
        writing: @escaping @Sendable (NIOAsyncChannelOutboundWriter<ByteBuffer>) async throws -> Void
    ) async -> String {
        let outbound = self.outbound
        let writer = Task { while !Task.isCancelled { try await writing(outbound) } }
        defer { writer.cancel() }
        return await self.readToEnd()
    }

    /// Reads until the text that arrived contains another one, or the peer closes.
    func read(until text: String) async throws -> String {
        while !String(buffer: self.received).contains(text),
            let part = try await self.iterator.next(isolation: #isolation)
        {
            self.received.writeImmutableBuffer(part)
        }
        return self.taken()
    }

    private func taken() -> String {
        defer { self.received.clear() }
        return String(buffer: self.received)
    }
}
