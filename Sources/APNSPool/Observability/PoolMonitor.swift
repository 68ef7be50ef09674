import Logging
import SupervisedPool
import Synchronization

/// Logs the events of one pool without repeating a fault constantly, and reports to the client's monitor. Called by the
/// pool's actor.
final class PoolMonitor: Sendable {
    private struct State {
        var faults = FaultLog<String>()
        var configurationFault: String?
        var lastFault: String?
        /// When each worker began to connect.
        var connecting: [Int: MonotonicInstant] = [:]
        /// Workers that have had a connection.
        var connected: Set<Int> = []
    }

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
        let line = self.note(event)
        switch (event, line) {
        case (_, .first?):
            self.logger.log(event)
        case (.reported(_, .backingOff(_, let fault)), .again(let time, let count)?),
            (.reported(_, .lost(let fault)), .again(let time, let count)?):
            self.logger.notice(
                "connections are still lost or refused",
                metadata: ["fault": "\(Self.text(fault))", "lasted": "\(time.rounded)", "count": "\(count)"]
            )
        case (.reported(let id, .backingOff(_, let fault)), nil), (.reported(let id, .lost(let fault)), nil):
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
    /// - Returns: How to log the event; nil for a fault that was logged recently.
    private func note(_ event: PoolEvent) -> FaultLog<String>.Line? {
        var line: FaultLog<String>.Line? = .first
        switch event {
        case .reported(_, .latency), .reported(_, .capacity), .askedToConnect, .askedToDisconnect:
            return line
        case .reported(let id, .connecting):
            self.beganConnecting(id.index)
        case .reported(let id, .ready):
            self.connected(id.index)
        case .reported(let id, .backingOff(_, let fault)):
            self.state.withLock { $0.connecting[id.index] = nil }
            line = self.lost(fault)
        case .reported(let id, .lost(let fault)):
            line = self.lost(fault)
            self.beganConnecting(id.index)
        case .unavailable(_, let fault):
            if let fault { self.state.withLock { $0.lastFault = fault.description } }
        case .configurationFault(let fault, _):
            self.state.withLock { $0.configurationFault = fault.description }
        case .reported, .registered, .available, .invariantBroken:
            break
        }
        self.client?.signal()
        return line
    }

    private func beganConnecting(_ index: Int) {
        guard let began = self.client?.connectTimes.begin(at: self.clock.now) else { return }
        self.state.withLock { $0.connecting[index] = began }
    }

    private func lost(_ fault: PoolFault?) -> FaultLog<String>.Line? {
        let now = self.clock.now
        self.client?.reportLoss(fault?.description)
        return self.state.withLock { state in
            if let fault { state.lastFault = fault.description }
            return state.faults.seen(Self.text(fault), now: now)
        }
    }

    private func connected(_ index: Int) {
        let (began, isFirst) = self.state.withLock { state in
            state.faults.ended()
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
