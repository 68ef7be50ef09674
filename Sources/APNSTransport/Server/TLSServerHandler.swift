public import NIOCore

/// TLS on the server's side of a channel: decrypts what is read, and encrypts what is written.
///
/// The peer's `close_notify` is passed on as `ChannelEvent.inputClosed`, so that a client that has sent its last request
/// still gets the response. Errors of TLS are sent to the peer as an alert, and close the channel. As without TLS, closing
/// the channel discards output that the system has not taken yet. To avoid this, close the output first, and wait until it
/// is closed.
@_spi(Relay) public final class TLSServerHandler: ChannelDuplexHandler {
    public typealias InboundIn = ByteBuffer
    public typealias InboundOut = ByteBuffer
    public typealias OutboundIn = ByteBuffer
    public typealias OutboundOut = ByteBuffer

    private enum State {
        case handshaking
        case open
        /// The peer sends nothing any more.
        case inputClosed
        case closed
    }

    /// The maximum number of bytes that TLS itself may send, such as replies to key updates, while the peer does not read.
    private static let waitingLimit = 64 * 1024

    private let tls: TLSSession
    private var state = State.handshaking
    /// The number of bytes that TLS itself has sent since the channel was writable.
    private var waiting = 0

    init(_ tls: TLSSession) {
        self.tls = tls
    }

    // MARK: Input

    public func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard self.state == .handshaking || self.state == .open else { return }
        let bytes = self.unwrapInboundIn(data)
        // One buffer for all records of a read. With one for each, a client that sends tiny records would make the server
        // hold many times what it sends.
        var plain = context.channel.allocator.buffer(capacity: bytes.readableBytes)
        self.tls.feed(bytes)
        if self.state == .handshaking { self.stepHandshake(context) }
        var step = TLSSession.ReadStep.needsMore
        if self.state == .open {
            repeat { step = self.read(into: &plain) } while step.isData
        }
        if plain.readableBytes > 0 { context.fireChannelRead(self.wrapInboundOut(plain)) }
        // What TLS itself has to say: its part of the handshake, or the reply to a key update. Not earlier, because this may
        // close the channel or read from it.
        self.sendOutput(context)
        guard self.state == .open else { return }
        switch step {
        case .bytes, .needsMore:
            break
        case .closeNotify:
            self.state = .inputClosed
            context.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
        case .failed(let error):
            self.fail(error, context)
        }
    }

    private func stepHandshake(_ context: ChannelHandlerContext) {
        switch self.tls.handshake() {
        case .incomplete: break
        case .complete: self.state = .open
        case .failed(let error): self.fail(error, context)
        }
    }

    private func read(into plain: inout ByteBuffer) -> TLSSession.ReadStep {
        var step = TLSSession.ReadStep.needsMore
        plain.writeWithUnsafeMutableBytes(minimumWritableBytes: 1) { space in
            step = self.tls.read(into: space)
            if case .bytes(let count) = step { return count }
            return 0
        }
        return step
    }

    public func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if let event = event as? ChannelEvent, event == .inputClosed {
            // After a close_notify, it has been passed on before.
            guard self.state != .inputClosed else { return }
            if self.state == .open { self.state = .inputClosed }
        }
        context.fireUserInboundEventTriggered(event)
    }

    public func channelInactive(context: ChannelHandlerContext) {
        self.state = .closed
        context.fireChannelInactive()
    }

    // MARK: Output

    public func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        guard self.state == .open || self.state == .inputClosed else {
            promise?.fail(ChannelError.ioOnClosedChannel)
            return
        }
        if let error = self.unwrapOutboundIn(data).withUnsafeReadableBytes({ self.tls.write($0) }) {
            promise?.fail(error)
            self.fail(error, context)
        } else {
            context.write(self.wrapOutboundOut(self.tls.takeOutput()), promise: promise)
        }
    }

    public func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        if mode != .input, self.state != .closed {
            self.tls.closeNotify()
            self.sendOutput(context)
            if mode == .all { self.state = .closed }
        }
        context.close(mode: mode, promise: promise)
    }

    private func sendOutput(_ context: ChannelHandlerContext) {
        guard self.tls.outputCount > 0 else { return }
        self.waiting = context.channel.isWritable ? 0 : self.waiting + self.tls.outputCount
        if self.waiting > Self.waitingLimit {
            self.state = .closed
            context.close(mode: .all, promise: nil)
            return
        }
        context.writeAndFlush(self.wrapOutboundOut(self.tls.takeOutput()), promise: nil)
    }

    private func fail(_ error: WireError, _ context: ChannelHandlerContext) {
        guard self.state != .closed else { return }
        self.state = .closed
        self.sendOutput(context)
        context.fireErrorCaught(error)
        context.close(mode: .all, promise: nil)
    }
}

extension TLSSession.ReadStep {
    fileprivate var isData: Bool {
        if case .bytes = self { true } else { false }
    }
}
