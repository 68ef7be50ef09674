import Logging
import NIOCore
import Synchronization

/// Counts the open connections of the API for each address, and refuses those above the limit of an address.
///
/// The limit of all connections is that of the listening socket, which accepts no more. Idle connections end by their
/// timeout.
final class OpenConnections: Sendable {
    private struct State {
        var ofAddress: [[UInt8]: Int] = [:]
        /// The number of connections that were refused since the last log line.
        var refused = 0
        var nextLine = NIODeadline.now()
    }

    private let limit: Int
    private let logger: Logger
    private let state = Mutex(State())

    /// - Parameters:
    ///   - settings: the limits.
    ///   - logger: logs refused connections, at most one line a minute.
    init(_ settings: HTTPSettings, logger: Logger) {
        self.logger = logger
        self.limit = max(1, settings.maxConnectionsPerAddress ?? max(1, settings.maxConnections) / 2)
    }

    /// Counts a connection.
    ///
    /// - Returns: the key with which ``close(_:)`` must be called at its end; nil if its address has too many connections,
    ///   so that it must be closed now.
    func open(_ address: SocketAddress?) -> [UInt8]? {
        let key = Self.key(address)
        let now = NIODeadline.now()
        let (isOpen, refused) = self.state.withLock { state -> (Bool, Int?) in
            guard state.ofAddress[key, default: 0] >= self.limit else {
                state.ofAddress[key, default: 0] += 1
                return (true, nil)
            }
            state.refused += 1
            guard now >= state.nextLine else { return (false, nil) }
            defer { (state.refused, state.nextLine) = (0, now + .seconds(60)) }
            return (false, state.refused)
        }
        if let refused {
            self.logger.warning(
                "Connections were refused, because their address has http.maxConnectionsPerAddress of them",
                metadata: ["refused": "\(refused)"]
            )
        }
        return isOpen ? key : nil
    }

    /// Removes a connection that has ended.
    func close(_ key: [UInt8]) {
        self.state.withLock { state in
            let left = state.ofAddress[key, default: 1] - 1
            state.ofAddress[key] = left == 0 ? nil : left
        }
    }

    /// The key of the limit for each address: the IPv4 address, or the IPv6 network of 64 bits, because one host may
    /// have a whole network.
    static func key(_ address: SocketAddress?) -> [UInt8] {
        guard let address else { return [] }
        let bytes = address.withSockAddr { [UInt8](UnsafeRawBufferPointer(start: $0, count: $1)) }
        // struct sockaddr_in: family, port, address. struct sockaddr_in6: family, port, flow, address.
        switch address {
        case .v4: return Array(bytes.dropFirst(4).prefix(4))
        case .v6:
            let address = bytes.dropFirst(8).prefix(16)
            let isIPv4 = address.starts(with: [UInt8](repeating: 0, count: 10) + [0xFF, 0xFF])
            return Array(isIPv4 ? address.suffix(4) : address.prefix(8))
        case .unixDomainSocket: return []
        }
    }
}
