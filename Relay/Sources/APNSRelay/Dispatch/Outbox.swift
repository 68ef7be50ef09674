import APNSModel
import Logging
import PushQueue
import Synchronization

/// Stores the results of attempts. While one batch is being stored, the next one gathers.
///
/// A result stays here until it is durable: if the disk is full, the outbox tries again until it is not. The window
/// limits how many there can be.
final class Outbox: Sendable {
    /// The result of one attempt.
    struct Entry: Sendable {
        var route: Route
        var claim: Claim
        var outcome: PushOutcome
        var decision: RetryRules.Decision
        /// Called once the result is durable.
        var whenStored: @Sendable () -> Void
    }

    private struct State {
        var entries: [Entry] = []
        var isClosed = false
    }

    private let queue: any PushQueue
    private let metrics: RelayMetrics
    private let logger: Logger
    private let whenSettled: @Sendable () -> Void
    private let state = Mutex(State())
    private let wakeup = Wakeup()

    /// - Parameter whenSettled: called after outcomes have been stored.
    init(
        queue: any PushQueue,
        metrics: RelayMetrics,
        logger: Logger,
        whenSettled: @escaping @Sendable () -> Void = {}
    ) {
        self.queue = queue
        self.metrics = metrics
        self.logger = logger
        self.whenSettled = whenSettled
    }

    func add(_ entry: Entry) {
        let isFirst = self.state.withLock { state in
            state.entries.append(entry)
            return state.entries.count == 1
        }
        if isFirst { self.wakeup.signal() }
    }

    /// Lets `run()` return once everything is stored.
    func close() {
        self.state.withLock { $0.isClosed = true }
        self.wakeup.signal()
    }

    /// Stores results until the outbox is closed and empty, or the task is cancelled.
    func run() async {
        while true {
            let (entries, isClosed) = self.state.withLock { state in
                defer { state.entries = [] }
                return (state.entries, state.isClosed)
            }
            if entries.isEmpty {
                if isClosed || Task.isCancelled { return }
                await self.wakeup.wait()
            } else {
                guard await self.store(entries) else { return }
                for entry in entries { entry.whenStored() }
            }
        }
    }

    /// - Returns: false if the queue is closed or unusable, or the task was cancelled. The pushes then keep their marks.
    private func store(_ entries: [Entry]) async -> Bool {
        var settled: [Entry] = []
        var released: [Release] = []
        var parked: [Entry] = []
        for entry in entries {
            switch entry.decision {
            case .settle: settled.append(entry)
            case .release(let time):
                released.append(Release(claim: entry.claim, notBefore: time, outcome: entry.outcome))
            case .park: parked.append(entry)
            }
        }
        async let settling: Bool = self.settle(settled)
        async let releasing: Bool = self.store("take back", released) { queue, releases throws(QueueError) in
            try await queue.release(releases)
        }
        async let parking: Bool = self.store("park", parked.map(\.settlement)) { queue, parked throws(QueueError) in
            try await queue.park(parked)
        }
        let results = await (settling, releasing, parking)
        guard results.0, results.1, results.2 else { return false }
        for entry in entries {
            switch entry.decision {
            case .settle: break
            case .release: self.metrics.retried(entry.route)
            case .park: self.metrics.parked(entry.route)
            }
        }
        return true
    }

    private func settle(_ entries: [Entry]) async -> Bool {
        let results = Mutex<[SettleResult]>([])
        let isStored = await self.store("settle", entries.map(\.settlement)) { queue, settlements throws(QueueError) in
            let stored = try await queue.settle(settlements)
            results.withLock { $0 = stored }
        }
        guard isStored else { return false }
        if !entries.isEmpty { self.whenSettled() }
        for (entry, result) in zip(entries, results.withLock { $0 }) {
            switch result {
            case .settled:
                self.metrics.settled(entry.outcome, entry.route)
            case .alreadySettled(let first):
                self.metrics.late(entry.route)
                self.logger.warning(
                    "An outcome came after the push had one; the first one stays",
                    metadata: [
                        "id": "\(entry.claim.id)", "first": "\(first.certainty.rawValue)",
                        "late": "\(entry.outcome.certainty.rawValue)",
                    ]
                )
            case .stale:
                self.metrics.late(entry.route)
                self.logger.warning(
                    "An outcome came after another worker had taken the push",
                    metadata: ["id": "\(entry.claim.id)", "late": "\(entry.outcome.certainty.rawValue)"]
                )
            }
        }
        return true
    }

    /// Calls the queue until it succeeds.
    private func store<Item: Sendable>(
        _ purpose: String,
        _ items: [Item],
        _ call: @Sendable (any PushQueue, [Item]) async throws(QueueError) -> Void
    ) async -> Bool {
        guard !items.isEmpty else { return true }
        var delay = Duration.milliseconds(50)
        while true {
            do throws(QueueError) {
                try await call(self.queue, items)
                return true
            } catch {
                let isFinal = error.code == .closed || error.code == .unusable
                self.logger.error(
                    "The queue cannot \(purpose) pushes\(isFinal ? "" : "; trying again")",
                    metadata: ["error": "\(error)", "pushes": "\(items.count)"]
                )
                self.metrics.storageFailed(error)
                if isFinal { return false }
            }
            try? await Task.sleep(for: delay)
            if Task.isCancelled { return false }
            delay = min(delay * 2, .seconds(5))
        }
    }
}

extension Outbox.Entry {
    fileprivate var settlement: Settlement { Settlement(claim: self.claim, outcome: self.outcome) }
}
