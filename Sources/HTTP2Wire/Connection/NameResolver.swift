package import NIOCore
import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// Looks up names for all connections of the process, on a few threads of its own. `getaddrinfo` may block for many
/// seconds, which would occupy threads of NIO's or Swift's pool in the host program. A thread ends when there is
/// nothing more to look up.
package final class NameResolver: Sendable {
    /// Returns all addresses of a host. May block.
    package typealias LookUp = @Sendable (_ host: String, _ port: Int) -> Result<[SocketAddress], WireError>
    typealias Completion = @Sendable (Result<[SocketAddress], WireError>) -> Void

    /// Identifies a request that waits for a result.
    struct Ticket: Sendable {
        fileprivate var name: LookUpQueue.Name
        fileprivate var waiter: UInt64
    }

    private struct State {
        var queue: LookUpQueue
        var completions: [UInt64: Completion] = [:]
        var lastWaiter: UInt64 = 0
    }

    /// The resolver that uses `getaddrinfo`.
    package static let system = NameResolver(lookUp: systemLookUp)

    private let lookUp: LookUp
    private let state: Mutex<State>

    /// Creates a resolver.
    ///
    /// - Parameters:
    ///   - threads: The maximum number of names that are looked up at the same time.
    ///   - lookUp: Looks up the addresses of one name.
    package init(threads: Int = 4, lookUp: @escaping LookUp) {
        self.lookUp = lookUp
        self.state = Mutex(State(queue: LookUpQueue(threadLimit: threads)))
    }

    /// The current number of threads. For tests.
    package var threadCount: Int { self.state.withLock { $0.queue.threadCount } }

    /// Looks up a name. `completion` is called once, on another thread, unless `cancel` is called first. If no thread
    /// can be started, it may be called on the caller's thread, before this method returns.
    func resolve(host: String, port: Int, completion: @escaping Completion) -> Ticket {
        let name = LookUpQueue.Name(host: host, port: port)
        let (ticket, needsThread) = self.state.withLock { state in
            state.lastWaiter += 1
            state.completions[state.lastWaiter] = completion
            let needsThread = state.queue.ask(name, waiter: state.lastWaiter)
            return (Ticket(name: name, waiter: state.lastWaiter), needsThread)
        }
        if needsThread, !self.startThread() {
            let failed = self.state.withLock { state in
                state.queue.threadFailed().compactMap { state.completions.removeValue(forKey: $0) }
            }
            for completion in failed {
                completion(.failure(WireError(.nameResolutionFailed, "cannot start a thread for the look-up")))
            }
        }
        return ticket
    }

    /// Cancels a request.
    ///
    /// - Returns: Whether the request was cancelled, so that its completion will not be called.
    func cancel(_ ticket: Ticket) -> Bool {
        self.state.withLock { state in
            guard state.completions.removeValue(forKey: ticket.waiter) != nil else { return false }
            state.queue.withdraw(ticket.name, waiter: ticket.waiter)
            return true
        }
    }

    // MARK: Threads

    private func work() {
        while let name = self.state.withLock({ $0.queue.next() }) {
            let result = self.lookUp(name.host, name.port)
            let completions = self.state.withLock { state in
                state.queue.finish(name).compactMap { state.completions.removeValue(forKey: $0) }
            }
            for completion in completions { completion(result) }
        }
    }

    private func startThread() -> Bool {
        // The thread owns a reference.
        let reference = Unmanaged.passRetained(self)
        #if canImport(Darwin)
            var thread: pthread_t?
            let code = pthread_create(
                &thread,
                nil,
                {
                    pthread_detach(pthread_self())
                    Unmanaged<NameResolver>.fromOpaque($0).takeRetainedValue().work()
                    return nil
                },
                reference.toOpaque()
            )
        #else
            #if canImport(Musl)
                var thread: pthread_t?
            #else
                var thread = pthread_t()
            #endif
            let code = pthread_create(
                &thread,
                nil,
                {
                    pthread_detach(pthread_self())
                    if let data = $0 { Unmanaged<NameResolver>.fromOpaque(data).takeRetainedValue().work() }
                    return nil
                },
                reference.toOpaque()
            )
        #endif
        if code != 0 { reference.release() }
        return code == 0
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
