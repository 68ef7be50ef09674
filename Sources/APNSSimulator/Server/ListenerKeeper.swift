internal import APNSTransport
internal import Synchronization

/// Keeps the simulator's port open, and can close it for a time.
final class ListenerKeeper: Sendable {
    private struct State {
        var listener: Listener?
        /// Increases with each change. A later change invalidates earlier plans.
        var generation = 0
        var isStopped = false
    }

    let port: Int
    private let bind: @Sendable (_ port: Int) async throws(WireError) -> Listener
    private let state: Mutex<State>

    /// - Parameter port: the port; 0 for any free port, which is then kept.
    init(
        port: Int,
        bind: @escaping @Sendable (_ port: Int) async throws(WireError) -> Listener
    ) async throws(WireError) {
        let listener = try await bind(port)
        self.port = listener.port
        self.bind = bind
        self.state = Mutex(State(listener: listener))
    }

    /// Closes the port. Connections are refused once this returns.
    ///
    /// - Returns: the generation to pass to `open(_:)`.
    @discardableResult
    func close() async -> Int {
        let (listener, generation) = self.state.withLock { state in
            state.generation += 1
            let listener = state.listener
            state.listener = nil
            return (listener, state.generation)
        }
        await listener?.close()
        return generation
    }

    /// Opens the port again. If another program has taken it, waits until it is free.
    ///
    /// - Parameter generation: the value from `close()`. Nothing happens if the port was opened or closed since then.
    ///   Nil: opens the port in any case.
    func open(_ generation: Int? = nil) async {
        let wanted = self.state.withLock { state -> Int? in
            guard !state.isStopped, state.listener == nil else { return nil }
            if let generation, generation != state.generation { return nil }
            state.generation += 1
            return state.generation
        }
        guard let wanted else { return }
        while self.state.withLock({ $0.generation == wanted && !$0.isStopped }) {
            if let listener = try? await self.bind(self.port) {
                let isKept = self.state.withLock { state in
                    guard state.generation == wanted, !state.isStopped else { return false }
                    state.listener = listener
                    return true
                }
                if !isKept { await listener.close() }
                return
            }
            try? await Task.sleep(for: .milliseconds(20))
            if Task.isCancelled { return }
        }
    }

    /// Closes the port for a time, and returns when it is open again.
    func close(for duration: Duration) async {
        let generation = await self.close()
        try? await Task.sleep(for: duration)
        await self.open(generation)
    }

    func stop() async {
        self.state.withLock { $0.isStopped = true }
        await self.close()
    }
}
