import NIOCore
import NIOPosix
import Synchronization

/// Looks up a host for one connection, without a cache, and shuffles each family's addresses. NIO's Happy Eyeballs
/// (RFC 8305) starts with the first address, so connections spread over the addresses that DNS returns.
final class ConnectionResolver: Resolver, Sendable {
    private let names: NameResolver
    private let v4: EventLoopPromise<[SocketAddress]>
    private let v6: EventLoopPromise<[SocketAddress]>
    private let query = Mutex(Query.notAsked)

    private enum Query {
        case notAsked
        case asked(NameResolver.Ticket)
        case cancelled
    }

    init(loop: any EventLoop, names: NameResolver) {
        self.names = names
        self.v4 = loop.makePromise()
        self.v6 = loop.makePromise()
    }

    func initiateAAAAQuery(host: String, port: Int) -> EventLoopFuture<[SocketAddress]> {
        // NIO requests AAAA first and A directly after it. One look-up serves both.
        guard case .notAsked = self.query.withLock({ $0 }) else {
            self.fail()
            return self.v6.futureResult
        }
        let ticket = self.names.resolve(host: host, port: port) { [v4, v6] result in
            switch result {
            case .success(let addresses):
                v4.succeed(addresses.filter { $0.protocol == .inet }.shuffled())
                v6.succeed(addresses.filter { $0.protocol == .inet6 }.shuffled())
            case .failure(let error):
                v4.fail(error)
                v6.fail(error)
            }
        }
        self.query.withLock { $0 = .asked(ticket) }
        return self.v6.futureResult
    }

    func initiateAQuery(host: String, port: Int) -> EventLoopFuture<[SocketAddress]> {
        self.v4.futureResult
    }

    /// Cancels the look-up. May be called at any time on the connection's loop, and more than once.
    func cancelQueries() {
        let query = self.query.withLock { query in
            defer { query = .cancelled }
            return query
        }
        if case .asked(let ticket) = query, self.names.cancel(ticket) { self.fail() }
    }

    private func fail() {
        let error = WireError(.closedLocally, "the look-up was cancelled")
        self.v4.fail(error)
        self.v6.fail(error)
    }
}
