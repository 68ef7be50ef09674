import Logging
import NIOCore
import Synchronization

/// An event that asks a connection to end if it is idle.
struct MakeRoom: Sendable {
    /// Called if the connection ends.
    var willClose: @Sendable () -> Void
}

/// The open connections of the API. It closes those that ``ConnectionTable`` names.
final class OpenConnections: Sendable {
    private struct State {
        var table: ConnectionTable<ObjectIdentifier>
        var channels: [ObjectIdentifier: any Channel] = [:]
        var isSweepScheduled = false
        /// The number of connections that were closed since the last log line.
        var closed = 0
        var nextLine = NIODeadline.now()
    }

    private let logger: Logger
    private let state: Mutex<State>

    /// - Parameters:
    ///   - settings: the limits.
    ///   - logger: logs closed connections, at most one line a minute.
    init(_ settings: HTTPSettings, logger: Logger) {
        self.logger = logger
        let limit = max(1, settings.maxConnections)
        let limitOfAddress = max(1, settings.maxConnectionsPerAddress ?? limit / 2)
        let table = ConnectionTable<ObjectIdentifier>(
            limit: limit,
            limitOfAddress: limitOfAddress,
            grace: TimeAmount(settings.grace)
        )
        self.state = Mutex(State(table: table))
    }

    /// Adds an active connection.
    ///
    /// - Returns: whether it may stay. If not, close it.
    func open(_ channel: any Channel) -> Bool {
        let id = ObjectIdentifier(channel)
        let address = Self.key(channel.remoteAddress)
        let now = NIODeadline.now()
        let (isAdmitted, sweep) = self.state.withLock { state -> (Bool, NIODeadline?) in
            let isAdmitted = state.table.open(id, from: address, at: now)
            if isAdmitted { state.channels[id] = channel }
            guard !state.isSweepScheduled, state.table.isFull(for: address) else { return (isAdmitted, nil) }
            state.isSweepScheduled = true
            return (isAdmitted, now + state.table.grace)
        }
        if !isAdmitted { self.didClose(now) }
        if let sweep { self.scheduleSweep(on: channel.eventLoop, at: sweep) }
        return isAdmitted
    }

    /// Records that a connection has sent a request with a caller's token.
    func prove(_ channel: any Channel) { self.state.withLock { $0.table.prove(ObjectIdentifier(channel)) } }

    /// Removes a connection that has ended.
    func close(_ channel: any Channel) {
        self.state.withLock { state in
            state.table.close(ObjectIdentifier(channel))
            state.channels[ObjectIdentifier(channel)] = nil
        }
    }

    private func scheduleSweep(on loop: any EventLoop, at deadline: NIODeadline) {
        loop.scheduleTask(deadline: deadline) { self.sweep(on: loop) }
    }

    private func sweep(on loop: any EventLoop) {
        let now = NIODeadline.now()
        let (channels, next) = self.state.withLock { state -> ([any Channel], NIODeadline?) in
            let (idle, next) = state.table.sweep(at: now)
            state.isSweepScheduled = next != nil
            return (idle.compactMap { state.channels[$0] }, next)
        }
        // Busy connections stay, and are asked again later.
        let event = MakeRoom { self.didClose(.now()) }
        for channel in channels { channel.pipeline.fireUserInboundEventTriggered(event) }
        if let next { self.scheduleSweep(on: loop, at: next) }
    }

    private func didClose(_ now: NIODeadline) {
        let closed = self.state.withLock { state -> Int? in
            state.closed += 1
            guard now >= state.nextLine else { return nil }
            defer { (state.closed, state.nextLine) = (0, now + .seconds(60)) }
            return state.closed
        }
        guard let closed else { return }
        self.logger.warning(
            "Too many connections: closing those without a valid request and those above the limit of an address",
            metadata: ["closed": "\(closed)"]
        )
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
