import NIOCore
import NIOPosix

/// The owner of a `WireHandler`: a client's or a server's connection. All calls are made on the event loop.
protocol WireOwner: AnyObject {
    /// TLS is established. Returns a new HTTP/2 session.
    func makeSession() throws(WireError) -> HTTP2Session
    /// Frames can be sent. The first frames of the session are sent with the next flush.
    func wireIsOpen()
    /// Frames that had to wait are about to be written.
    func wireResumesWriting()
    /// All bytes of this tick have been processed. There may be results and events.
    func wireDidRead()
    /// The connection has ended. Called once. By then, every stream of the session has its result.
    func wireIsClosed(_ error: WireError)
}

/// Moves bytes between a NIO channel, a `TLSSession` and an `HTTP2Session`. Confined to the channel's event loop.
final class WireHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private enum State {
        /// The TLS handshake is in progress.
        case handshaking
        /// Frames are exchanged.
        case open
        case closed
    }

    /// The size of one TLS record. Input is processed in pieces of this size, with output between them, because one
    /// large read full of PINGs would reach nghttp2's limit of unsent acknowledgements.
    private static let pieceSize = 16384
    /// When more encrypted bytes than this wait to be written, encryption continues in a later loop tick, so that one
    /// connection does not delay the others on its loop.
    private static let outputLimit = 256 * 1024
    /// The maximum number of bytes that may wait for a channel that is not writable. No frames are encrypted in that
    /// state, so further bytes are only records that TLS sends by itself, in reply to the peer's.
    private static let waitingLimit = 512 * 1024

    private let tls: TLSSession
    private let clock: any LoopClock
    private var owner: (any WireOwner)?
    private var session: HTTP2Session?
    private var state = State.handshaking
    private var context: ChannelHandlerContext?
    private var isFlushScheduled = false
    /// Plaintext, either incoming or outgoing, never both at once.
    private let piece: UnsafeMutableRawBufferPointer

    init(
        tls: TLSSession,
        clock: any LoopClock = EventLoopClock(),
        owner: any WireOwner
    ) {
        self.tls = tls
        self.clock = clock
        self.owner = owner
        self.piece = .allocate(byteCount: Self.pieceSize, alignment: 16)
    }

    deinit {
        self.piece.deallocate()
    }

    /// The result of the TLS handshake so far.
    var handshakeReport: HandshakeReport { self.tls.report }

    // MARK: Channel

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        if context.channel.isActive { self.begin() }
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.end(WireError(.closedLocally, "the connection was taken down"))
        self.context = nil
    }

    func channelActive(context: ChannelHandlerContext) {
        self.begin()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard self.state != .closed else { return }
        self.tls.feed(self.unwrapInboundIn(data))
        self.processInput()
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        if self.state == .open { self.owner?.wireDidRead() }
        self.flush()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        if context.channel.isWritable { self.resumeWriting() }
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.end(WireError(.closedByPeer, "the peer closed the connection"))
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        self.fail(Self.ioError(error))
    }

    // MARK: For the owner

    /// Sends the session's frames: one write for what was submitted in this tick, up to `outputLimit`.
    func flush() {
        guard let context, self.state != .closed else { return }
        if self.state == .open {
            do {
                try self.encrypt(context)
            } catch {
                self.fail(error)
                return
            }
        }
        self.writeOutput(context)
        if self.state == .open, self.session?.isFinished == true {
            self.fail(self.session?.violation ?? WireError(.closedLocally, "the HTTP/2 session is finished"))
        }
    }

    /// Ends the connection: sends the buffered bytes and a `close_notify`, then closes the channel.
    func fail(_ error: WireError) {
        guard self.state != .closed else { return }
        if let context {
            // Encrypted frames count as written, even if the peer no longer reads them. Therefore the requests that are
            // not encrypted yet are given up first: they end as not sent.
            self.session?.giveUpUnwritten(cause: error.streamCause)
            if self.state == .open { try? self.encrypt(context) }
            self.tls.closeNotify()
            // Written even if the channel is not writable: the channel is closed next, so its buffer grows no further.
            self.write(context)
            self.end(error)
            context.close(mode: .all, promise: nil)
        } else {
            self.drop(error)
        }
    }

    /// Ends the connection without notifying the peer: no GOAWAY, no `close_notify`.
    func drop(_ error: WireError) {
        guard self.state != .closed else { return }
        self.end(error)
        self.context?.close(mode: .all, promise: nil)
    }

    // MARK: Bytes and frames

    private func begin() {
        guard self.state == .handshaking, self.session == nil else { return }
        self.stepHandshake()
        self.flush()
    }

    private func processInput() {
        if self.state == .handshaking { self.stepHandshake() }
        guard self.state == .open, let session, let context else { return }
        let now = self.clock.now(on: context.eventLoop)
        var hasData = false
        while self.state == .open {
            switch self.tls.read(into: self.piece) {
            case .bytes(let count):
                hasData = true
                do {
                    try session.receive(
                        UnsafeRawBufferPointer(rebasing: self.piece[..<count]),
                        self.tls.overhead,
                        now: now
                    )
                    try self.encrypt(context)
                } catch {
                    self.fail(error)
                    return
                }
            case .needsMore:
                if hasData { return }
                do {
                    try session.receivedNothing(now: now)
                } catch {
                    self.fail(error)
                }
                return
            case .closeNotify:
                self.fail(WireError(.closedByPeer, "the peer closed the connection"))
            case .failed(let error):
                self.fail(error)
            }
        }
    }

    private func stepHandshake() {
        switch self.tls.handshake() {
        case .incomplete:
            return
        case .failed(let error):
            // This also sends the alert that OpenSSL made for the peer.
            self.fail(error)
        case .complete:
            do {
                self.session = try self.owner?.makeSession()
                self.state = .open
                self.owner?.wireIsOpen()
            } catch {
                self.fail(error)
            }
        }
    }

    /// Encrypts frames into TLS records while the channel is writable.
    private func encrypt(_ context: ChannelHandlerContext) throws(WireError) {
        guard let session else { return }
        // Nothing is written to the channel before the end of this function, so it stays writable.
        guard context.channel.isWritable else { return }
        var filled = 0
        while true {
            if self.tls.outputCount + filled > Self.outputLimit {
                self.scheduleFlush(context)
                break
            }
            let frame = try session.nextFrame()
            if frame.isEmpty { break }
            if filled + frame.count > self.piece.count {
                try self.writeRecord(UnsafeRawBufferPointer(rebasing: self.piece[..<filled]))
                filled = 0
            }
            if frame.count > self.piece.count {
                try self.writeRecord(frame)
            } else if let base = self.piece.baseAddress, let source = frame.baseAddress {
                (base + filled).copyMemory(from: source, byteCount: frame.count)
                filled += frame.count
            }
        }
        try self.writeRecord(UnsafeRawBufferPointer(rebasing: self.piece[..<filled]))
    }

    private func writeRecord(_ bytes: UnsafeRawBufferPointer) throws(WireError) {
        if let error = self.tls.write(bytes) { throw error }
    }

    /// Passes the encrypted bytes to the channel if it is writable.
    private func writeOutput(_ context: ChannelHandlerContext) {
        if context.channel.isWritable {
            self.write(context)
        } else if self.tls.outputCount > Self.waitingLimit {
            self.drop(WireError(.flooded, "the peer makes TLS send replies, but does not read them"))
        }
    }

    private func write(_ context: ChannelHandlerContext) {
        guard self.tls.outputCount > 0 else { return }
        context.writeAndFlush(self.wrapOutboundOut(self.tls.takeOutput()), promise: nil)
    }

    private func scheduleFlush(_ context: ChannelHandlerContext) {
        guard !self.isFlushScheduled else { return }
        self.isFlushScheduled = true
        context.eventLoop.assumeIsolated().execute {
            self.isFlushScheduled = false
            self.resumeWriting()
        }
    }

    private func resumeWriting() {
        if self.state == .open { self.owner?.wireResumesWriting() }
        self.flush()
    }

    private func end(_ error: WireError) {
        guard self.state != .closed else { return }
        self.state = .closed
        let owner = self.owner
        self.owner = nil
        self.session?.concludeAll(cause: error.streamCause)
        owner?.wireIsClosed(error)
    }

    static func ioError(_ error: any Error) -> WireError {
        if let error = error as? WireError { return error }
        if let error = error as? IOError {
            switch error.errnoCode {
            case ECONNREFUSED: return WireError(.connectRefused, "the port is closed (connection refused)")
            case ECONNRESET, EPIPE: return WireError(.connectionReset, "the peer reset the connection")
            case ETIMEDOUT: return WireError(.connectTimeout, "the peer did not respond (TCP timed out)")
            default: return WireError(.connectFailed, "\(error)")
            }
        }
        if case .connectTimeout = error as? ChannelError {
            return WireError(.connectTimeout, "the peer did not respond in time (TCP connect)")
        }
        return WireError(.connectFailed, "\(error)")
    }
}
