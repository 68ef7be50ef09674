import NIOCore
import NIOPosix

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// Looks a host up afresh by `getaddrinfo`, on NIO's thread pool, and puts each family's addresses in an order of its
/// own: NIO's Happy Eyeballs (RFC 8305) starts with the first, so connections spread over what DNS returns, and avoid
/// what their siblings use.
final class SystemResolver: Resolver, Sendable {
    /// All addresses of a host. May block.
    typealias LookUp = @Sendable (_ host: String, _ port: Int) -> Result<[SocketAddress], WireError>

    private let loop: any EventLoop
    private let entry: AddressBook.Entry
    private let lookUp: LookUp
    private let v4: EventLoopPromise<[SocketAddress]>
    private let v6: EventLoopPromise<[SocketAddress]>

    /// - Parameters:
    ///   - entry: the connection's, in the book that it shares with its siblings.
    ///   - lookUp: in place of `getaddrinfo`.
    init(loop: any EventLoop, entry: AddressBook.Entry, lookUp: LookUp? = nil) {
        self.loop = loop
        self.entry = entry
        self.lookUp = lookUp ?? { Self.lookUp(host: $0, port: $1) }
        self.v4 = loop.makePromise()
        self.v6 = loop.makePromise()
    }

    func initiateAAAAQuery(host: String, port: Int) -> EventLoopFuture<[SocketAddress]> {
        // NIO asks for AAAA first and for A right behind it; one call of getaddrinfo answers both.
        NIOThreadPool.singleton.submit { [v4, v6, entry, lookUp] state in
            guard case .active = state else {
                let error = WireError(.nameResolutionFailed, "the thread pool for look-ups is shut down")
                v4.fail(error)
                v6.fail(error)
                return
            }
            switch lookUp(host, port) {
            case .success(let addresses):
                var generator = SystemRandomNumberGenerator()
                v4.succeed(entry.order(addresses.filter { $0.protocol == .inet }, using: &generator))
                v6.succeed(entry.order(addresses.filter { $0.protocol == .inet6 }, using: &generator))
            case .failure(let error):
                v4.fail(error)
                v6.fail(error)
            }
        }
        return self.v6.futureResult
    }

    func initiateAQuery(host: String, port: Int) -> EventLoopFuture<[SocketAddress]> {
        self.v4.futureResult
    }

    func cancelQueries() {}

    static func lookUp(host: String, port: Int) -> Result<[SocketAddress], WireError> {
        var hints = addrinfo()
        hints.ai_family = AF_UNSPEC
        #if canImport(Glibc)
            hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        #else
            hints.ai_socktype = SOCK_STREAM
        #endif
        var list: UnsafeMutablePointer<addrinfo>?
        let code = getaddrinfo(host, nil, &hints, &list)
        guard code == 0 else {
            let text = gai_strerror(code).map { String(cString: $0) } ?? "error \(code)"
            if code == EAI_NONAME {
                return .failure(WireError(.hostNotFound, "the host '\(host)' does not exist: \(text)"))
            }
            return .failure(WireError(.nameResolutionFailed, "the host '\(host)' could not be looked up: \(text)"))
        }
        defer { freeaddrinfo(list) }
        var addresses: [SocketAddress] = []
        var next = list
        while let entry = next {
            let info = entry.pointee
            // Where the address lies in sockaddr_in and sockaddr_in6 is the same on all platforms.
            let place: (offset: Int, count: Int)? =
                info.ai_family == AF_INET ? (4, 4) : info.ai_family == AF_INET6 ? (8, 16) : nil
            if let address = info.ai_addr, let place, Int(info.ai_addrlen) >= place.offset + place.count {
                let bytes = UnsafeRawBufferPointer(
                    start: UnsafeRawPointer(address) + place.offset,
                    count: place.count
                )
                if let found = try? SocketAddress(packedIPAddress: ByteBuffer(bytes: bytes), port: port) {
                    addresses.append(found)
                }
            }
            next = info.ai_next
        }
        return .success(addresses)
    }
}
