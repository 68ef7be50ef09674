@_spi(Relay) import APNSTransport
import Hummingbird
import HummingbirdCore
import Logging
import NIOCore
import Synchronization

/// TLS for the API's listener. New files apply to new connections.
final class ListenerTLS: Sendable {
    private let files: Mutex<TLSFiles>

    init(_ files: TLSFiles) {
        self.files = Mutex(files)
    }

    var current: TLSFiles { self.files.withLock { $0 } }

    func set(_ files: TLSFiles) { self.files.withLock { $0 = files } }
}

/// A connection with TLS around another kind of connection.
struct TLSConnection<Base: ServerChildChannel & HTTPChannelHandler>: HTTPChannelHandler {
    let base: Base
    let tls: ListenerTLS

    var responder: Responder { self.base.responder }

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Base.Value> {
        channel.eventLoop.makeCompletedFuture {
            try channel.pipeline.syncOperations.addHandler(self.tls.current.server.makeHandler())
        }
        .flatMap { self.base.setup(channel: channel, logger: logger) }
    }

    func handle(value: Base.Value, logger: Logger) async { await self.base.handle(value: value, logger: logger) }
}
