import Hummingbird
import NIOCore
import Synchronization

/// The context of one request.
struct RelayContext: RequestContext {
    var coreContext: CoreRequestContextStorage
    /// The request's connection.
    let channel: any Channel
    /// The number of bytes of the body that were read.
    let bodyBytes = ByteCount()

    init(source: ApplicationRequestContextSource) {
        self.coreContext = CoreRequestContextStorage(source: source)
        self.channel = source.channel
    }

    /// A number that the handler sets and the middleware reads.
    final class ByteCount: Sendable {
        private let count = Mutex(0)

        var value: Int {
            get { self.count.withLock { $0 } }
            set { self.count.withLock { $0 = newValue } }
        }
    }
}
