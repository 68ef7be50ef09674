import NIOCore

/// Sits between a server's socket and its TLS, and passes, keeps or loses bytes. It simulates the network for a server
/// that misbehaves on purpose. Confined to the channel's event loop.
final class ServerGate: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// How many bytes are kept of a client's input that is held back. Further bytes are lost.
    private static let keptLimit = 1 << 20

    private enum Outward {
        case passes
        case isLost
        /// This many more bytes pass; the others are kept.
        case isKept(allowance: Int)
    }

    private var outward = Outward.passes
    private var keptOutput: [ByteBuffer] = []
    /// The input that arrived while input was held back; `nil` if input passes.
    private var keptInput: ByteBuffer?
    private var losesInput = false
    /// How many bytes of input pass in each interval; `nil` if all do.
    private var slowBytes: Int?
    /// How long the client may take to close a channel whose output is closed; `nil` closes it at once.
    private var patience: TimeAmount?
    private var context: ChannelHandlerContext?
    private let entrance: ServerEntrance
    /// The addresses of both sides. The channel forgets them when it is closed.
    private(set) var addresses: (local: SocketAddress?, remote: SocketAddress?) = (nil, nil)

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
        self.addresses = (context.channel.localAddress, context.channel.remoteAddress)
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

    /// Passes the bytes that were kept, and all later ones.
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

    // MARK: Used by the connection

    /// Discards the server's output from now on.
    func loseOutput() {
        self.outward = .isLost
        self.keptOutput = []
    }

    /// Stops reading the socket, so that the client's bytes accumulate in its own buffers.
    func stopReading() {
        self.setAutoRead(false)
    }

    /// Passes at most this many bytes of input in each interval. Reads the socket again only when all bytes read so far
    /// have passed. A later call changes only the number of bytes, not the interval.
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

    /// Makes closing the channel send a TCP reset instead of a normal end.
    func resetOnClose() {
        (self.context?.channel as? any SocketOptionProvider)?.setSoLinger(linger(l_onoff: 1, l_linger: 0))
            .whenFailure { _ in }
    }

    /// Makes closing the channel close only its output side; later input is lost. The channel itself is closed when the
    /// client has closed it, or after `patience`. Otherwise the system would respond to unread bytes with a reset, which
    /// may overtake the last ones that were sent.
    func lingerOnClose(_ patience: TimeAmount) {
        self.patience = patience
    }

    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        guard mode == .all, let patience = self.patience else {
            context.close(mode: mode, promise: promise)
            return
        }
        self.patience = nil
        self.losesInput = true
        context.close(mode: .output, promise: nil)
        let channel = context.channel
        context.eventLoop.scheduleTask(in: patience) { channel.close(mode: .all, promise: promise) }
    }

    private func setAutoRead(_ isOn: Bool) {
        try? self.context?.channel.syncOptions?.setOption(ChannelOptions.autoRead, value: isOn)
    }
}
