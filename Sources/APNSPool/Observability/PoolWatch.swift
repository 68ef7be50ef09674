import Logging
import SupervisedPool
import Synchronization

/// What a push pool's events say beyond its status. Called on the pool's thread.
final class PoolWatch: Sendable {
    private struct State {
        var configurationFault: String?
        var lastFault: String?
    }

    private let state = Mutex(State())
    private let observer: ClientObserver

    init(_ observer: ClientObserver) {
        self.observer = observer
    }

    /// Why no connection can be made as configured, until there is one.
    var configurationFault: String? { self.state.withLock { $0.configurationFault } }

    /// Why a connection was last lost or refused, until there is one.
    var lastFault: String? { self.state.withLock { $0.lastFault } }

    func see(_ event: PoolEvent) {
        switch event {
        case .reported(_, .latency), .reported(_, .capacity), .askedToConnect, .askedToDisconnect, .missed:
            return
        case .reported(_, .ready):
            self.state.withLock { $0 = State() }
            self.observer.connected()
        case .reported(_, .backingOff(_, let fault)):
            if let fault { self.state.withLock { $0.lastFault = fault.description } }
        case .unavailable(_, let fault):
            if let fault { self.state.withLock { $0.lastFault = fault.description } }
        case .configurationFault(let fault, _):
            self.state.withLock { $0.configurationFault = fault.description }
        case .reported, .registered, .available, .invariantBroken:
            break
        }
        self.observer.poke()
    }
}
