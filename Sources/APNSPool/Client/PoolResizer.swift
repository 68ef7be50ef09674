import SupervisedPool

/// Wakes the tasks that start and end the workers of a credential session, when there may be more or fewer workers than
/// the settings require.
final class PoolResizer: Sendable {
    /// The current supervisor of the connections.
    let supervisor = ChildRef<Supervisor>()
    let starts: AsyncStream<Void>
    let ends: AsyncStream<Void>
    private let starting: AsyncStream<Void>.Continuation
    private let ending: AsyncStream<Void>.Continuation

    init() {
        (self.starts, self.starting) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
        (self.ends, self.ending) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    func signal() {
        self.starting.yield()
        self.ending.yield()
    }

    /// Signals that workers have ended, so new ones may now be needed in their place.
    func signalStarts() { self.starting.yield() }

    func finish() {
        self.starting.finish()
        self.ending.finish()
    }
}

extension ClientRuntime {
    /// Keeps the number of a session's workers equal to the settings until the session ends.
    ///
    /// The supervisor starts with the number of workers that the settings had when it was made. Workers are started and
    /// ended by separate tasks, because a surplus worker may be busy for as long as a push takes.
    func keepWorkerCount(_ session: CredentialSession) async {
        await withDiscardingTaskGroup { group in
            group.addTask {
                for await _ in session.resizer.starts { await self.startWorkers(session) }
            }
            group.addTask {
                var surplus = SurplusWorkers()
                for await _ in session.resizer.ends { await self.endWorkers(session, &surplus) }
            }
        }
    }

    private func startWorkers(_ session: CredentialSession) async {
        guard let supervisor = session.resizer.supervisor.current else { return }
        let pool = session.pool
        let existingIDs = Set(await supervisor.whichChildren().map(\.id))
        var index = 0
        while index < self.workerCount {
            defer { index += 1 }
            let id = ClientTree.workerID(index)
            guard !existingIDs.contains(id) else { continue }
            do {
                try await supervisor.startChild(ClientTree.worker(self, session, index, pool: pool))
                guard index >= self.workerCount else { continue }
                // The settings changed while the worker started. The task that ends surplus workers may have missed
                // this worker.
                try await supervisor.terminateChild(id)
                try await supervisor.deleteChild(id)
                session.resizer.signal()
            } catch {
                // The supervisor has not started, and signals when it does; or it is ending, and the next supervisor
                // signals.
                return
            }
        }
    }

    /// The number of workers that the settings require now.
    private var workerCount: Int { self.live.settings.pool.workerCount }

    /// Ends the workers that the pool no longer needs, after the last push of each has its outcome.
    private func endWorkers(_ session: CredentialSession, _ surplus: inout SurplusWorkers) async {
        while !Task.isCancelled {
            let pool = session.pool
            surplus.discardIndices(unlessFrom: pool)
            if surplus.workerIndices.isEmpty {
                guard let found = try? await pool.retireSurplus(), !found.isEmpty else { return }
                surplus.workerIndices = found
            }
            guard let supervisor = session.resizer.supervisor.current else { return }
            while let index = surplus.workerIndices.last {
                let id = ClientTree.workerID(index)
                do throws(SupervisorError) {
                    try await supervisor.terminateChild(id)
                    pool.ended([index])
                    try await supervisor.deleteChild(id)
                } catch {
                    // Either the worker was never started, or the supervisor is ending; then the next supervisor
                    // signals again.
                    guard error.code == .childNotFound else { return }
                    pool.ended([index])
                }
                surplus.workerIndices.removeLast()
                session.resizer.signalStarts()
            }
        }
    }
}

/// Indices of workers that a pool has retired and that must be ended.
private struct SurplusWorkers {
    private var pool: Pool<ConnectionActor>?
    var workerIndices: [Int] = []

    /// Discards the indices if they come from a previous pool: a new pool does not know them.
    mutating func discardIndices(unlessFrom pool: Pool<ConnectionActor>) {
        guard self.pool !== pool else { return }
        self.pool = pool
        self.workerIndices = []
    }
}
