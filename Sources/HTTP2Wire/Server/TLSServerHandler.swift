public import NIOCore

/// TLS on the server's side of a channel: decrypts what is read, and encrypts what is written.
///
/// The peer's `close_notify` is passed on as `ChannelEvent.inputClosed`, so that a client that has sent its last request
/// still gets the response. Errors of TLS are sent to the peer as an alert, and close the channel.
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

    /// The size of the plaintext in one TLS record (RFC 8446, section 5.1).
    private static let recordSize = 16_384
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
        self.tls.feed(self.unwrapInboundIn(data))
        if self.state == .handshaking { self.stepHandshake(context) }
        while self.state == .open, self.readRecord(context) {}
        // What TLS itself has to say: its part of the handshake, or the reply to a key update.
        self.sendOutput(context)
    }

    private func stepHandshake(_ context: ChannelHandlerContext) {
        switch self.tls.handshake() {
        case .incomplete: break
        case .complete: self.state = .open
        case .failed(let error): self.fail(error, context)
        }
    }

    /// Passes one record's data on.
    ///
    /// - Returns: Whether there may be more.
    private func readRecord(_ context: ChannelHandlerContext) -> Bool {
        var bytes = context.channel.allocator.buffer(capacity: Self.recordSize)
        var step = TLSSession.ReadStep.needsMore
        bytes.writeWithUnsafeMutableBytes(minimumWritableBytes: Self.recordSize) { space in
            step = self.tls.read(into: space)
            if case .bytes(let count) = step { return count }
            return 0
        }
        switch step {
        case .bytes:
            context.fireChannelRead(self.wrapInboundOut(bytes))
            return true
        case .needsMore:
            return false
        case .closeNotify:
            self.state = .inputClosed
            context.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
            return false
        case .failed(let error):
            self.fail(error, context)
            return false
        }
    }

    public func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if let event = event as? ChannelEvent, event == .inputClosed {
            // After a close_notify, it has been passed on before.
            guard self.state != .inputClosed else { return }
            self.state = .inputClosed
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
