import APNSModel
import Logging
import PushQueue
import SupervisedPool
import Synchronization

/// Stores the results of attempts. While one batch is being stored, the next one gathers.
///
/// If several relays share the queue, every call is a transaction of the database, so the outbox pauses between two
/// batches.
/// Places of the window then also become free in batches, and so claims and marks come in batches, too.
///
/// A result stays in the outbox until it is durable. For example, the outbox retries while the disk is full.
/// `InFlightWindow` limits the number of results.
final class Outbox: Sendable {
    /// The result of one attempt.
    struct Entry: Sendable {
        /// The route's sender, which gets the place of the push back once the result is durable.
        var sender: RouteSend
        var claim: Claim
        /// The outcome of the attempt; nil if the push returns to the queue without one.
        var outcome: PushOutcome?
        var decision: RetryRules.Decision

        var route: Route { self.sender.route }
    }

    private struct State {
        var entries: [Entry] = []
        var isClosed = false
        /// The number of batches that could not be stored at once and are being retried.
        var late = 0
    }

    /// The time between the starts of two batches if several relays share the queue.
    private static let spacing = Duration.milliseconds(5)

    /// Whether the queue can be used, as the calls of the outbox and of the dispatcher show.
    let storage = StorageWatch()
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

    /// Whether results wait, because they could not be stored at once.
    var isBehind: Bool { self.state.withLock { $0.late > 0 } }

    /// Stores results until the outbox is closed and everything is stored. After the task is cancelled, each batch is
    /// tried only once. Pushes whose result is not stored keep their marks.
    func run() async {
        var last: ContinuousClock.Instant?
        while true {
            if self.queue.isShared, let last, !self.state.withLock({ $0.isClosed }) {
                try? await Task.sleep(until: last.advanced(by: Self.spacing), clock: .continuous)
            }
            let (entries, isClosed) = self.state.withLock { state in
                defer { state.entries = [] }
                return (state.entries, state.isClosed)
            }
            if !entries.isEmpty {
                last = .now
                await self.store(entries)
            } else if isClosed {
                return
            } else {
                await self.wakeup.wait()
            }
        }
    }

    private func store(_ entries: [Entry]) async {
        var settled: [Entry] = []
        var released: [Entry] = []
        var parked: [Entry] = []
        for entry in entries {
            switch entry.decision {
            case .settle: settled.append(entry)
            case .release: released.append(entry)
            case .park: parked.append(entry)
            }
        }
        async let settling: Void = self.store("settle", settled) { entries throws(QueueError) in
            try await self.settle(entries)
        }
        async let releasing: Void = self.store("release", released) { entries throws(QueueError) in
            try await self.release(entries)
        }
        async let parking: Void = self.store("park", parked) { entries throws(QueueError) in
            try await self.park(entries)
        }
        _ = await (settling, releasing, parking)
    }

    /// Calls the queue until the call succeeds, and then gives the places of the entries back.
    private func store(
        _ purpose: String,
        _ entries: [Entry],
        _ call: @Sendable ([Entry]) async throws(QueueError) -> Void
    ) async {
        var delays = Backoff(.doubling(), minimum: .milliseconds(50), maximum: .seconds(5))
        var isLate = false
        defer { if isLate { self.state.withLock { $0.late -= 1 } } }
        while !entries.isEmpty {
            do throws(QueueError) {
                try await call(entries)
                self.storage.note(purpose, nil)
                break
            } catch {
                self.storage.note(purpose, error)
                let isFinal = error.code == .closed || error.code == .unusable
                self.metrics.storageFailed(error)
                self.logger.error(
                    "The queue cannot \(purpose) pushes\(isFinal ? "" : "; trying again")",
                    metadata: ["error": "\(error)", "pushes": "\(entries.count)"]
                )
                if isFinal {
                    // A damaged row must not prevent the other results from being stored.
                    if error.code == .unusable, entries.count > 1 {
                        for entry in entries { await self.store(purpose, [entry], call) }
                        return
                    }
                    break
                }
            }
            if !isLate {
                isLate = true
                self.state.withLock { $0.late += 1 }
            }
            try? await Task.sleep(for: delays.next())
            if Task.isCancelled { break }
        }
        // All places at once, so that the next claim is not for a few pushes only.
        for entries in Dictionary(grouping: entries, by: { ObjectIdentifier($0.sender) }).values {
            entries[0].sender.giveBack(entries.count)
        }
    }

    private func release(_ entries: [Entry]) async throws(QueueError) {
        try await self.queue.release(entries.compactMap(\.release))
        for entry in entries { self.metrics.retried(entry.route) }
    }

    private func park(_ entries: [Entry]) async throws(QueueError) {
        try await self.queue.park(entries.compactMap(\.settlement))
        for entry in entries { self.metrics.parked(entry.route) }
    }

    private func settle(_ entries: [Entry]) async throws(QueueError) {
        let results = try await self.queue.settle(entries.compactMap(\.settlement))
        self.whenSettled()
        // By sender, so that a metric is changed once for many pushes.
        var settled: [ObjectIdentifier: (route: Route, counts: [Certainty: Int])] = [:]
        for (entry, result) in zip(entries, results) {
            guard let outcome = entry.outcome else { continue }
            switch result {
            // The second case: the first call reported an error, but had stored the outcome.
            case .settled, .alreadySettled(outcome):
                settled[ObjectIdentifier(entry.sender), default: (entry.route, [:])].counts[
                    outcome.certainty,
                    default: 0
                ] += 1
            case .alreadySettled(let first):
                self.metrics.late(entry.route)
                self.logger.warning(
                    "A late outcome is ignored, because the push already has one",
                    metadata: [
                        "id": "\(entry.claim.id)", "first": "\(first.certainty.rawValue)",
                        "late": "\(outcome.certainty.rawValue)",
                    ]
                )
            case .stale:
                self.metrics.late(entry.route)
                self.logger.warning(
                    "A late outcome is ignored, because the claim of the push has ended",
                    metadata: ["id": "\(entry.claim.id)", "late": "\(outcome.certainty.rawValue)"]
                )
            }
        }
        for (route, counts) in settled.values {
            for (certainty, count) in counts { self.metrics.settled(certainty, count, route) }
        }
    }
}

extension Outbox.Entry {
    fileprivate var settlement: Settlement? {
        self.outcome.map { Settlement(claim: self.claim, outcome: $0) }
    }

    fileprivate var release: Release? {
        guard case .release(let time, let countsAttempt) = self.decision else { return nil }
        return Release(claim: self.claim, notBefore: time, outcome: self.outcome, countsAttempt: countsAttempt)
    }
}
