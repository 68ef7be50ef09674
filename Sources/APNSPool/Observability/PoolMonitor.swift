import Logging
import SupervisedPool
import Synchronization

/// Logs the events of one pool without repeating a fault constantly, and reports to the client's monitor. Called by the
/// pool's actor.
final class PoolMonitor: Sendable {
    private struct State {
        /// The faults that were logged since a connection was last ready.
        var loggedFaults: Set<String> = []
        var configurationFault: String?
        var lastFault: String?
        /// When each worker began to connect.
        var connecting: [Int: MonotonicInstant] = [:]
        /// Workers that have had a connection.
        var connected: Set<Int> = []
    }

    /// The maximum number of faults remembered at once.
    private static let room = 64
    private let state = Mutex(State())
    private let logger: Logger
    private let clock: any MonotonicClock
    /// Nil for a pool that does not count for health and metrics.
    private let client: ClientMonitor?

    init(_ logger: Logger, clock: any MonotonicClock, client: ClientMonitor? = nil) {
        self.logger = logger
        self.clock = clock
        self.client = client
    }

    /// The reason why no connection can be opened with this configuration; nil once a connection is ready.
    var configurationFault: String? { self.state.withLock { $0.configurationFault } }

    /// The reason why a connection was last lost or refused; nil once a connection is ready.
    var lastFault: String? { self.state.withLock { $0.lastFault } }

    func report(_ event: PoolEvent) {
        let isKnown = self.note(event)
        switch event {
        case .reported(let id, .backingOff(_, let fault)) where isKnown,
            .reported(let id, .lost(let fault)) where isKnown:
            self.logger.debug(
                "connection lost or refused again",
                metadata: ["connection": "\(id)", "fault": "\(Self.text(fault))"]
            )
        default:
            self.logger.log(event)
        }
    }

    /// Records the changes caused by the event.
    ///
    /// - Returns: Whether it is a fault that was logged since a connection was last ready.
    private func note(_ event: PoolEvent) -> Bool {
        var isKnown = false
        switch event {
        case .reported(_, .latency), .reported(_, .capacity), .askedToConnect, .askedToDisconnect:
            return false
        case .reported(let id, .connecting):
            self.beganConnecting(id.index)
        case .reported(let id, .ready):
            self.connected(id.index)
        case .reported(let id, .backingOff(_, let fault)):
            self.state.withLock { $0.connecting[id.index] = nil }
            isKnown = self.lost(fault)
        case .reported(let id, .lost(let fault)):
            isKnown = self.lost(fault)
            self.beganConnecting(id.index)
        case .unavailable(_, let fault):
            if let fault { self.state.withLock { $0.lastFault = fault.description } }
        case .configurationFault(let fault, _):
            self.state.withLock { $0.configurationFault = fault.description }
        case .reported, .registered, .available, .invariantBroken:
            break
        }
        self.client?.signal()
        return isKnown
    }

    private func beganConnecting(_ index: Int) {
        guard let began = self.client?.connectTimes.begin(at: self.clock.now) else { return }
        self.state.withLock { $0.connecting[index] = began }
    }

    private func lost(_ fault: PoolFault?) -> Bool {
        self.client?.reportLoss()
        return self.state.withLock { state in
            if let fault { state.lastFault = fault.description }
            // The texts of a fault may vary without end.
            if state.loggedFaults.count >= Self.room { state.loggedFaults = [] }
            return !state.loggedFaults.insert(Self.text(fault)).inserted
        }
    }

    private func connected(_ index: Int) {
        let (began, isFirst) = self.state.withLock { state in
            state.loggedFaults = []
            state.configurationFault = nil
            state.lastFault = nil
            return (state.connecting.removeValue(forKey: index), state.connected.insert(index).inserted)
        }
        guard let client else { return }
        client.connectTimes.end(began, at: self.clock.now)
        client.reportConnected(isFirst: isFirst)
    }

    private static func text(_ fault: PoolFault?) -> String { fault.map { "\($0)" } ?? "unknown" }
}

extension Duration {
    /// Rounded down to whole seconds, for readable messages.
    var rounded: Duration { .seconds(self.components.seconds) }
}
