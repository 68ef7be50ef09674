package import NIOCore
import NIOPosix
import Synchronization

/// Looks up names for all connections of the process, on a few threads of its own. `getaddrinfo` may block for many
/// seconds, which would occupy threads of NIO's or Swift's pool in the host program.
///
/// All requests for one name share one look-up, even if it has already begun. A name is not looked up if no request
/// waits for it any more.
package final class NameResolver: Sendable {
    /// Returns all addresses of a host. May block.
    package typealias LookUp = @Sendable (_ host: String, _ port: Int) -> Result<[SocketAddress], WireError>
    package typealias Completion = @Sendable (Result<[SocketAddress], WireError>) -> Void

    /// Identifies a request that waits for a result.
    struct Ticket: Sendable {
        fileprivate var name: Name
        fileprivate var waiter: UInt64
    }

    fileprivate struct Name: Hashable {
        var host: String
        var port: Int
    }

    private struct State {
        /// The requests for each name that is looked up or waits for a thread.
        var waiters: [Name: [UInt64: Completion]] = [:]
        var lastWaiter: UInt64 = 0
    }

    /// The resolver that uses `getaddrinfo`.
    package static let system = NameResolver(lookUp: systemLookUp)

    private let lookUp: LookUp
    private let threads: NIOThreadPool
    private let state = Mutex(State())

    /// Creates a resolver.
    ///
    /// - Parameters:
    ///   - threads: The number of names that are looked up at the same time.
    ///   - lookUp: Looks up the addresses of one name.
    package init(threads: Int = 4, lookUp: @escaping LookUp) {
        self.lookUp = lookUp
        self.threads = NIOThreadPool(numberOfThreads: threads)
        self.threads.start()
    }

    deinit { self.threads.shutdownGracefully { _ in } }

    /// Looks up a name. `completion` is called once, on another thread, unless `cancel` is called first.
    func resolve(host: String, port: Int, completion: @escaping Completion) -> Ticket {
        let name = Name(host: host, port: port)
        let (ticket, isNew) = self.state.withLock { state in
            state.lastWaiter += 1
            let isNew = state.waiters[name] == nil
            state.waiters[name, default: [:]][state.lastWaiter] = completion
            return (Ticket(name: name, waiter: state.lastWaiter), isNew)
        }
        if isNew { self.threads.submit { _ in self.serve(name) } }
        return ticket
    }

    /// Cancels a request.
    ///
    /// - Returns: Whether the request was cancelled, so that its completion will not be called.
    func cancel(_ ticket: Ticket) -> Bool {
        self.state.withLock { $0.waiters[ticket.name]?.removeValue(forKey: ticket.waiter) != nil }
    }

    private func serve(_ name: Name) {
        let isAwaited = self.state.withLock { state in
            if state.waiters[name]?.isEmpty ?? true { state.waiters[name] = nil }
            return state.waiters[name] != nil
        }
        guard isAwaited else { return }
        let result = self.lookUp(name.host, name.port)
        let waiters = self.state.withLock { $0.waiters.removeValue(forKey: name) ?? [:] }
        for completion in waiters.values { completion(result) }
    }

    // MARK: getaddrinfo

    /// Calls `getaddrinfo` once.
    package static let systemLookUp: LookUp = { host, port in
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
            // The offset of the address in sockaddr_in and sockaddr_in6 is the same on all platforms.
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
