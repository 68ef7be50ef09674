import PushQueue
import Synchronization

/// Merges calls that store one push each. One transaction at a time stores pushes, and the next ones gather meanwhile.
final class SinglePushes: Sendable {
    typealias Store = @Sendable ([NewPush]) async throws(QueueError) -> [EnqueueResult]

    private struct Waiting {
        var push: NewPush
        var continuation: CheckedContinuation<Result<EnqueueResult, QueueError>, Never>
    }

    private struct State {
        var waiting: [Waiting] = []
        var isRunning = false
    }

    /// The most pushes in a transaction.
    private static let maximumPushes = 500

    private let state = Mutex(State())

    /// Stores a push, together with those of other callers.
    ///
    /// - Parameter store: stores pushes in one transaction.
    func store(_ push: NewPush, _ store: @escaping Store) async throws(QueueError) -> EnqueueResult {
        let result = await withCheckedContinuation { continuation in
            let mayStart = self.state.withLock { state in
                state.waiting.append(Waiting(push: push, continuation: continuation))
                defer { state.isRunning = true }
                return !state.isRunning
            }
            if mayStart { Task { await self.run(store) } }
        }
        return try result.get()
    }

    private func run(_ store: @escaping Store) async {
        while true {
            let group = self.state.withLock { state in
                let group = Array(state.waiting.prefix(Self.maximumPushes))
                state.waiting.removeFirst(group.count)
                if group.isEmpty { state.isRunning = false }
                return group
            }
            if group.isEmpty { return }
            await Self.store(group, store)
        }
    }

    private static func store(_ group: [Waiting], _ store: @escaping Store) async {
        do throws(QueueError) {
            let results = try await store(group.map(\.push))
            for (waiting, result) in zip(group, results) { waiting.continuation.resume(returning: .success(result)) }
        } catch {
            // There may be room for some of them, or one of them may be the cause.
            guard group.count > 1, error.code == .full || error.code == .unusable else {
                for waiting in group { waiting.continuation.resume(returning: .failure(error)) }
                return
            }
            await withTaskGroup { tasks in
                for waiting in group { tasks.addTask { await Self.store([waiting], store) } }
            }
        }
    }
}
