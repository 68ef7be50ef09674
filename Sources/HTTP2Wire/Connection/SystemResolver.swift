import NIOCore
import NIOPosix
import Synchronization

/// Looks a host up afresh for one connection, and puts each family's addresses in an order of its own: NIO's Happy
/// Eyeballs (RFC 8305) starts with the first, so connections spread over what DNS returns, and avoid what their siblings
/// use.
final class SystemResolver: Resolver, Sendable {
    private let names: NameResolver
    private let entry: AddressBook.Entry
    private let v4: EventLoopPromise<[SocketAddress]>
    private let v6: EventLoopPromise<[SocketAddress]>
    private let query = Mutex(Query.notAsked)

    private enum Query {
        case notAsked
        case asked(NameResolver.Ticket)
        case cancelled
    }

    /// - Parameter entry: the connection's, in the book that it shares with its siblings.
    init(loop: any EventLoop, entry: AddressBook.Entry, names: NameResolver) {
        self.names = names
        self.entry = entry
        self.v4 = loop.makePromise()
        self.v6 = loop.makePromise()
    }

    func initiateAAAAQuery(host: String, port: Int) -> EventLoopFuture<[SocketAddress]> {
        // NIO asks for AAAA first and for A right behind it; one look-up answers both.
        guard case .notAsked = self.query.withLock({ $0 }) else {
            self.fail()
            return self.v6.futureResult
        }
        let ticket = self.names.resolve(host: host, port: port) { [v4, v6, entry] result in
            switch result {
            case .success(let addresses):
                var generator = SystemRandomNumberGenerator()
                v4.succeed(entry.order(addresses.filter { $0.protocol == .inet }, using: &generator))
                v6.succeed(entry.order(addresses.filter { $0.protocol == .inet6 }, using: &generator))
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

    /// The connection waits no more. May be called at any time on the connection's loop, also more than once.
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
