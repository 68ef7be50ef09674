import SupervisedPool

/// Wakes the task that starts the workers of a credential session, when there may be fewer workers than the settings
/// require. Workers that the settings no longer require stay: an idle worker is an actor without a socket.
final class PoolResizer: Sendable {
    /// The current supervisor of the connections.
    let supervisor = ChildRef<Supervisor>()
    let starts: AsyncStream<Void>
    private let starting: AsyncStream<Void>.Continuation

    init() {
        (self.starts, self.starting) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    func signal() { self.starting.yield() }

    func finish() { self.starting.finish() }
}

extension ClientRuntime {
    /// Starts the workers that the settings require, until the session ends.
    ///
    /// The supervisor starts with the number of workers that the settings had when it was made.
    func startMissingWorkers(_ session: CredentialSession) async {
        for await _ in session.resizer.starts {
            guard let supervisor = session.resizer.supervisor.current else { continue }
            let pool = session.pool
            let existingIDs = Set(await supervisor.whichChildren().map(\.id))
            for index in 0..<self.live.settings.pool.workerCount {
                guard !existingIDs.contains(ClientTree.workerID(index)) else { continue }
                do {
                    try await supervisor.startChild(ClientTree.worker(self, session, index, pool: pool))
                } catch {
                    // The supervisor has not started, and signals when it does; or it is ending, and the next supervisor
                    // signals.
                    break
                }
            }
        }
    }
}
