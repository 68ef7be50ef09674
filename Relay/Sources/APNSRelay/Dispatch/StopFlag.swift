import Synchronization

/// A flag that is set once, when the relay begins to stop.
final class StopFlag: Sendable {
    private let state = Mutex(false)

    var isSet: Bool { self.state.withLock { $0 } }

    func set() { self.state.withLock { $0 = true } }
}
