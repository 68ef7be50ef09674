import NIOCore

/// Requests a tunnel from the proxy at the other end of a channel, reports the result, and leaves the pipeline.
/// Confined to the channel's event loop.
final class ProxyHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private var machine: ProxyConnect
    /// Whether the request was sent. The channel may become active before or after this handler is added, and the
    /// request must be sent once.
    private var hasAsked = false
    /// Called once. On success, it adds the handler of the origin's bytes after this one.
    private var completion: ((Result<Void, WireError>) -> Void)?

    init(_ machine: ProxyConnect, completion: @escaping (Result<Void, WireError>) -> Void) {
        self.machine = machine
        self.completion = completion
    }

    func handlerAdded(context: ChannelHandlerContext) {
        if context.channel.isActive { self.ask(context) }
    }

    func channelActive(context: ChannelHandlerContext) {
        self.ask(context)
        context.fireChannelActive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard self.completion != nil else {
            context.fireChannelRead(data)
            return
        }
        switch self.machine.receive(Array(self.unwrapInboundIn(data).readableBytesView)) {
        case .wait:
            break
        case .open(let rest):
            self.finish(.success(()))
            if !rest.isEmpty { context.fireChannelRead(self.wrapInboundOut(ByteBuffer(bytes: rest))) }
            context.pipeline.syncOperations.removeHandler(self, promise: nil)
        case .fail(let error):
            self.fail(error, context)
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.finish(.failure(self.machine.end()))
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard self.completion != nil else {
            context.fireErrorCaught(error)
            return
        }
        self.fail(self.machine.end(), context)
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.finish(.failure(self.machine.end()))
    }

    private func ask(_ context: ChannelHandlerContext) {
        guard !self.hasAsked else { return }
        self.hasAsked = true
        context.writeAndFlush(self.wrapOutboundOut(ByteBuffer(bytes: self.machine.request)), promise: nil)
    }

    private func fail(_ error: WireError, _ context: ChannelHandlerContext) {
        self.finish(.failure(error))
        context.close(mode: .all, promise: nil)
    }

    private func finish(_ result: Result<Void, WireError>) {
        let completion = self.completion
        self.completion = nil
        completion?(result)
    }
}
