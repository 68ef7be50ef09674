import SupervisedPool

/// Who keeps the number of a session's workers: told when it may not be what the settings say.
final class PoolResizer: Sendable {
    /// The supervisor of the connections, as it now is.
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

    /// Workers were ended: others may be wanted in their places by now.
    func signalStarts() { self.starting.yield() }

    func finish() {
        self.starting.finish()
        self.ending.finish()
    }
}

extension ClientRuntime {
    /// Keeps as many workers under a session's supervisor as the settings say, until the session ends. The supervisor itself
    /// begins with as many as they said when it was made. Starts and ends apart: a worker that is to go may be busy for
    /// as long as a push takes.
    func keepWorkerCount(_ session: CredentialSession) async {
        await withDiscardingTaskGroup { group in
            group.addTask {
                for await _ in session.workers.starts { await self.startWorkers(session) }
            }
            group.addTask {
                var surplus = SurplusWorkers()
                for await _ in session.workers.ends { await self.endWorkers(session, &surplus) }
            }
        }
    }

    private func startWorkers(_ session: CredentialSession) async {
        guard let supervisor = session.workers.supervisor.current else { return }
        let pool = session.pool
        let there = Set(await supervisor.whichChildren().map(\.id))
        var index = 0
        while index < self.workerCount {
            defer { index += 1 }
            let id = ClientTree.workerID(index)
            guard !there.contains(id) else { continue }
            do {
                try await supervisor.startChild(ClientTree.worker(self, session, index, pool: pool))
                guard index >= self.workerCount else { continue }
                // The settings changed while it started, so whoever ends surplus workers may have found none here.
                try await supervisor.terminateChild(id)
                try await supervisor.deleteChild(id)
                session.workers.signal()
            } catch {
                // It ends, or has not begun. Another one, or its beginning, signals again.
                return
            }
        }
    }

    /// As many workers as the settings now say.
    private var workerCount: Int {
        let settings = self.live.settings.pool
        return settings.size + settings.maxOverflow
    }

    /// Ends workers that the pool does not need any more, when their last push has its outcome.
    private func endWorkers(_ session: CredentialSession, _ surplus: inout SurplusWorkers) async {
        while !Task.isCancelled {
            let pool = session.pool
            surplus.belong(to: pool)
            if surplus.places.isEmpty {
                guard let found = try? await pool.retireSurplus(), !found.isEmpty else { return }
                surplus.places = found
            }
            guard let supervisor = session.workers.supervisor.current else { return }
            while let index = surplus.places.last {
                let id = ClientTree.workerID(index)
                do throws(SupervisorError) {
                    try await supervisor.terminateChild(id)
                    pool.ended([index])
                    try await supervisor.deleteChild(id)
                } catch {
                    // It was never started, or else the supervisor ends: its successor signals again.
                    guard error.code == .childNotFound else { return }
                    pool.ended([index])
                }
                surplus.places.removeLast()
                session.workers.signalStarts()
            }
        }
    }
}

/// Places that a pool has given up, and whose workers are to be ended.
private struct SurplusWorkers {
    private var pool: Pool<ConnectionActor>?
    var places: [Int] = []

    /// Another pool knows nothing of what the one before it gave up.
    mutating func belong(to pool: Pool<ConnectionActor>) {
        guard self.pool !== pool else { return }
        self.pool = pool
        self.places = []
    }
}
