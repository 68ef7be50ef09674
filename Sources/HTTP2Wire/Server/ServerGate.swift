import NIOCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// Stands between a server's socket and its TLS, and lets bytes through, keeps them or loses them: the network's part
/// of a server that misbehaves on purpose. Confined to the channel's event loop.
final class ServerGate: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// How many bytes of a client that are not let in are kept at the most; more are lost.
    private static let keptLimit = 1 << 20

    private enum Outward {
        case passes
        case isLost
        /// So many bytes still pass; the others are kept.
        case isKept(allowance: Int)
    }

    private var outward = Outward.passes
    private var keptOutput: [ByteBuffer] = []
    /// What came while nothing was let in; nil: everything is let in.
    private var keptInput: ByteBuffer?
    private var losesInput = false
    /// How many bytes are let in in each interval; nil: all.
    private var slowBytes: Int?
    private var context: ChannelHandlerContext?
    private let entrance: ServerEntrance

    init(entrance: ServerEntrance) {
        self.entrance = entrance
    }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        switch self.entrance.behaviour {
        case .serve: break
        case .close: self.losesInput = true
        case .keepSilent: self.keptInput = ByteBuffer()
        case .stallHandshake(let bytes): self.outward = .isKept(allowance: max(bytes, 0))
        }
        if context.channel.isActive { self.begin(context) }
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
    }

    func channelActive(context: ChannelHandlerContext) {
        self.begin(context)
        context.fireChannelActive()
    }

    private func begin(_ context: ChannelHandlerContext) {
        if case .close(let withReset) = self.entrance.behaviour {
            if withReset { self.resetOnClose() }
            context.close(mode: .all, promise: nil)
            return
        }
        guard let time = self.entrance.lasting, self.entrance.behaviour != .serve else { return }
        context.eventLoop.assumeIsolated().scheduleTask(in: time) { self.open() }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if self.losesInput { return }
        guard self.keptInput != nil else {
            context.fireChannelRead(data)
            return
        }
        var buffer = self.unwrapInboundIn(data)
        if self.keptInput?.readableBytes ?? 0 < Self.keptLimit { self.keptInput?.writeBuffer(&buffer) }
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        switch self.outward {
        case .passes:
            context.write(data, promise: promise)
        case .isLost:
            promise?.succeed()
        case .isKept(let allowance):
            var buffer = self.unwrapOutboundIn(data)
            if let start = buffer.readSlice(length: min(allowance, buffer.readableBytes)), start.readableBytes > 0 {
                context.write(self.wrapOutboundOut(start), promise: nil)
                self.outward = .isKept(allowance: allowance - start.readableBytes)
            }
            if buffer.readableBytes > 0 { self.keptOutput.append(buffer) }
            promise?.succeed()
        }
    }

    // MARK: For the connection

    /// Lets through what was kept, and all that follows.
    private func open() {
        guard let context else { return }
        if case .isKept = self.outward {
            self.outward = .passes
            for buffer in self.keptOutput { context.write(self.wrapOutboundOut(buffer), promise: nil) }
            self.keptOutput = []
            context.flush()
        }
        if let input = self.keptInput {
            self.keptInput = nil
            if input.readableBytes > 0 { context.fireChannelRead(self.wrapInboundOut(input)) }
            context.fireChannelReadComplete()
        }
    }

    /// From now on nothing that the server says leaves it.
    func loseOutput() {
        self.outward = .isLost
        self.keptOutput = []
    }

    /// The socket is not read any more: the client's bytes pile up in its own buffers.
    func stopReading() {
        self.setAutoRead(false)
    }

    /// Lets at most so many bytes in in each interval, and reads the socket again when all that it gave is in.
    func readSlowly(bytes: Int, every interval: TimeAmount) {
        guard self.slowBytes == nil else {
            self.slowBytes = max(bytes, 1)
            return
        }
        self.slowBytes = max(bytes, 1)
        if self.keptInput == nil { self.keptInput = ByteBuffer() }
        self.setAutoRead(false)
        self.letIn(every: max(interval, .milliseconds(1)))
    }

    private func letIn(every interval: TimeAmount) {
        guard let context, context.channel.isActive, let bytes = self.slowBytes else { return }
        if let count = self.keptInput?.readableBytes, count > 0 {
            if let piece = self.keptInput?.readSlice(length: min(bytes, count)) {
                context.fireChannelRead(self.wrapInboundOut(piece))
                context.fireChannelReadComplete()
            }
            self.keptInput?.discardReadBytes()
        } else {
            context.read()
        }
        context.eventLoop.assumeIsolated().scheduleTask(in: interval) { self.letIn(every: interval) }
    }

    /// Closing will send a TCP reset instead of an end.
    func resetOnClose() {
        (self.context?.channel as? any SocketOptionProvider)?.setSoLinger(linger(l_onoff: 1, l_linger: 0))
            .whenFailure { _ in }
    }

    /// Sends `bytes` as the last ones and ends our direction. What still comes is lost, and the connection is closed
    /// when the client has closed it, or after `patience`: closing at once would make the system answer unread bytes by a
    /// reset, which may overtake `bytes`.
    func sayLast(_ bytes: ByteBuffer, patience: TimeAmount) {
        guard let context else { return }
        self.losesInput = true
        context.writeAndFlush(self.wrapOutboundOut(bytes), promise: nil)
        self.loseOutput()
        context.close(mode: .output, promise: nil)
        let channel = context.channel
        context.eventLoop.scheduleTask(in: patience) { channel.close(mode: .all, promise: nil) }
    }

    private func setAutoRead(_ isOn: Bool) {
        try? self.context?.channel.syncOptions?.setOption(ChannelOptions.autoRead, value: isOn)
    }
}
