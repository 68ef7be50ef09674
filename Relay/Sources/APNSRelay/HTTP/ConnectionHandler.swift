import HTTPTypes
import NIOCore
import NIOHTTPTypes

/// Enforces the time limits of a connection of the API, which ``ConnectionMachine`` decides, and the limits on the
/// number of connections (``OpenConnections``).
///
/// Add it to the pipeline between the HTTP codec and the handler that passes requests on.
final class ConnectionHandler: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias InboundOut = HTTPRequestPart
    typealias OutboundIn = HTTPResponsePart
    typealias OutboundOut = HTTPResponsePart

    private let connections: OpenConnections
    private var machine: ConnectionMachine
    /// What `connections` counts this connection by; nil before it is active, and if it was refused.
    private var address: [UInt8]?
    private var timer: Scheduled<Void>?
    private var timerDeadline = NIODeadline.distantFuture
    /// Whether the response that is being written ends the connection.
    private var ends = false

    init(_ limits: ConnectionMachine.Limits, _ connections: OpenConnections) {
        self.connections = connections
        self.machine = ConnectionMachine(limits, now: .now())
    }

    func handlerAdded(context: ChannelHandlerContext) { self.schedule(context) }

    func handlerRemoved(context: ChannelHandlerContext) { self.timer?.cancel() }

    func channelActive(context: ChannelHandlerContext) {
        self.address = self.connections.open(context.channel.remoteAddress)
        if self.address == nil { context.close(promise: nil) }
        context.fireChannelActive()
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.timer?.cancel()
        if let address = self.address.take() { self.connections.close(address) }
        context.fireChannelInactive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if self.ends { return }
        switch Self.unwrapInboundIn(data) {
        case .head(let head): self.machine.receivedHead(.now(), isLong: BatchRoutes.isUpload(head))
        case .body: self.machine.receivedBody(.now())
        case .end: self.machine.receivedEnd()
        }
        context.fireChannelRead(data)
        self.schedule(context)
    }

    func read(context: ChannelHandlerContext) {
        self.machine.beginReading(.now())
        self.schedule(context)
        context.read()
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        // The later handlers no longer see received bytes and so no longer read. This handler must read instead.
        if self.machine.isLingering { context.read() }
        context.fireChannelReadComplete()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if event is ChannelShouldQuiesceEvent, self.machine.shutDown(.now()) {
            context.fireErrorCaught(RequestFault.shuttingDown)
            self.schedule(context)
        }
        context.fireUserInboundEventTriggered(event)
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        switch Self.unwrapOutboundIn(data) {
        case .head(var head) where head.status.kind != .informational:
            if self.machine.beginResponse(.now()) { head.headerFields[.connection] = "close" }
            context.write(Self.wrapOutboundOut(.head(head)), promise: promise)
        case .head, .body:
            context.write(data, promise: promise)
        case .end:
            let ends = self.machine.endResponse(.now())
            self.ends = ends
            let written = promise ?? context.eventLoop.makePromise()
            let bound = NIOLoopBound((handler: self, context: context), eventLoop: context.eventLoop)
            written.futureResult.whenComplete { _ in
                let (handler, context) = bound.value
                handler.responseWritten(context, ends: ends)
            }
            context.write(data, promise: written)
            if ends { context.flush() }
        }
        self.schedule(context)
    }

    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        // While the rest of a request is discarded, only the timer or the caller closes the connection.
        guard self.ends else { return context.close(mode: mode, promise: promise) }
        context.channel.closeFuture.cascade(to: promise)
    }

    private func responseWritten(_ context: ChannelHandlerContext, ends: Bool) {
        guard context.channel.isActive else { return }
        self.machine.responseWritten(.now(), ends: ends)
        self.schedule(context)
        if ends {
            context.close(mode: .output, promise: nil)
            context.read()
        }
    }

    /// Sets the timer so that it fires at the machine's deadline or earlier. If it fires earlier, it is set again.
    private func schedule(_ context: ChannelHandlerContext) {
        guard let deadline = self.machine.deadline, deadline < self.timerDeadline else { return }
        self.timer?.cancel()
        self.timerDeadline = deadline
        self.timer = context.eventLoop.assumeIsolated().scheduleTask(deadline: deadline) {
            self.timerDeadline = .distantFuture
            switch self.machine.timerFired(.now()) {
            case .close: return context.close(promise: nil)
            case .failRequest: context.fireErrorCaught(RequestFault.tooSlow)
            case nil: break
            }
            self.schedule(context)
        }
    }
}

@available(*, unavailable)
extension ConnectionHandler: Sendable {}
