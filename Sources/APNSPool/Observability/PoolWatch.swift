import Logging
import SupervisedPool
import Synchronization

/// What a push pool's events say beyond its status. Called on the pool's thread.
final class PoolWatch: Sendable {
    private struct State {
        var configurationFault: String?
        var lastFault: String?
        /// Since when workers connect.
        var connecting: [Int: MonotonicInstant] = [:]
        /// Workers that had a connection once.
        var connected: Set<Int> = []
    }

    private let state = Mutex(State())
    private let observer: ClientObserver
    private let clock: any MonotonicClock

    init(_ observer: ClientObserver, clock: any MonotonicClock) {
        self.observer = observer
        self.clock = clock
    }

    /// Why no connection can be made as configured, until there is one.
    var configurationFault: String? { self.state.withLock { $0.configurationFault } }

    /// Why a connection was last lost or refused, until there is one.
    var lastFault: String? { self.state.withLock { $0.lastFault } }

    func see(_ event: PoolEvent) {
        switch event {
        case .reported(_, .latency), .reported(_, .capacity), .askedToConnect, .askedToDisconnect, .missed:
            return
        case .reported(let id, .connecting):
            guard let began = self.observer.connectTimes.begin(self.clock) else { break }
            self.state.withLock { $0.connecting[id.slot] = began }
        case .reported(let id, .ready):
            self.connected(id.slot)
        case .reported(let id, .backingOff(_, let fault)):
            self.observer.connectionLosses.wrappingAdd(1, ordering: .relaxed)
            self.state.withLock { state in
                state.connecting[id.slot] = nil
                if let fault { state.lastFault = fault.description }
            }
            if let fault { self.observer.recentFaults.add(fault.description, now: self.clock.now) }
        case .unavailable(_, let fault):
            if let fault { self.state.withLock { $0.lastFault = fault.description } }
        case .configurationFault(let fault, _):
            self.state.withLock { $0.configurationFault = fault.description }
        case .reported, .registered, .available, .invariantBroken:
            break
        }
        self.observer.poke()
    }

    private func connected(_ slot: Int) {
        let (began, isFirst) = self.state.withLock { state in
            state.configurationFault = nil
            state.lastFault = nil
            return (state.connecting.removeValue(forKey: slot), state.connected.insert(slot).inserted)
        }
        self.observer.connectTimes.end(began, self.clock)
        self.observer.connects.wrappingAdd(1, ordering: .relaxed)
        if !isFirst { self.observer.reconnects.wrappingAdd(1, ordering: .relaxed) }
        self.observer.connected()
    }
}
