import Logging
import NATSPushQueue
import PushQueue
import ServiceLifecycle
import Synchronization

/// Publishes the outcomes of the feed to a stream that other programs read.
///
/// The stream has the outcomes in the order of the feed, each once. The cursor of its last message is the position, so
/// nothing else is stored, and a relay that takes over continues where the last one ended. An empty stream begins with the
/// oldest outcome that is kept.
///
/// Relays that publish at the same time do no harm: the stream takes a message only after the one before it. This would
/// fail only if outcomes that the stream does not have yet were deleted from the feed between the readings of two such
/// relays, so the stream must have been behind by the whole retention.
final class OutcomePublisher: Sendable {
    private struct State {
        /// When the oldest outcome that is not published was settled or, if that is not known, since when publishing has
        /// failed.
        var oldest: QueueTime?
        var isFailing = false
    }

    /// The messages of a call, and when the first one was settled.
    private struct Batch: Sendable {
        var messages: [OutcomeMessage] = []
        var oldest: QueueTime?
    }

    /// The most messages of a call.
    private static let batchSize = 1_000
    /// The longest wait for a signal, and the wait after an error.
    private static let interval = Duration.seconds(1)

    private let stream: any OutcomeStream
    private let queue: any PushQueue
    private let metrics: RelayMetrics
    private let clock: any QueueClock
    private let logger: Logger
    private let retention: Duration
    private let wakeup = Wakeup()
    private let state = Mutex(State())

    /// - Parameters:
    ///   - stream: where to.
    ///   - queue: the queue whose outcomes are published.
    ///   - metrics: counts errors of the queue.
    ///   - clock: the times.
    ///   - logger: gets a line when publishing begins or ceases to fail.
    ///   - retention: the retention of the stream's messages and of the feed's outcomes.
    init(
        _ stream: any OutcomeStream,
        queue: any PushQueue,
        metrics: RelayMetrics,
        clock: any QueueClock,
        logger: Logger,
        retention: Duration
    ) {
        self.stream = stream
        self.queue = queue
        self.metrics = metrics
        self.clock = clock
        self.logger = logger
        self.retention = retention
    }

    /// When the oldest outcome that is not published was settled or, if that is not known, since when publishing has
    /// failed; nil if there is none, or another relay publishes.
    var oldest: QueueTime? { self.state.withLock { $0.oldest } }

    /// Whether the last attempt has failed.
    var isFailing: Bool { self.state.withLock { $0.isFailing } }

    /// There may be new outcomes. Never waits.
    func signal() { self.wakeup.signal() }

    /// Publishes outcomes until the task is cancelled. May be called again after it has returned.
    func run() async {
        var end: OutcomeStreamEnd?
        while !Task.isCancelled {
            let result = await self.publishAll(after: end)
            switch result {
            case .success(let newEnd):
                end = newEnd
                self.didSucceed()
                await self.waitForSignal()
            case .failure(let error):
                end = nil
                self.didFail(error)
                try? await Task.sleep(for: Self.interval)
            }
        }
        await self.stream.close()
        self.state.withLock { $0 = State() }
    }

    /// Outcomes that another relay has stored cause no signal.
    private func waitForSignal() async {
        let timer = Task {
            try await Task.sleep(for: Self.interval)
            self.wakeup.signal()
        }
        await self.wakeup.wait()
        timer.cancel()
    }

    // MARK: Publishing

    /// - Parameter known: where the stream ends; nil to read it.
    private func publishAll(after known: OutcomeStreamEnd?) async -> Result<OutcomeStreamEnd, QueueError> {
        do throws(QueueError) {
            var end: OutcomeStreamEnd
            if let known { end = known } else { end = try await self.stream.end() }
            var batch = try await self.batch(after: end).get()
            while let last = batch.messages.last, !Task.isCancelled {
                self.state.withLock { $0.oldest = batch.oldest }
                let newEnd = OutcomeStreamEnd(
                    sequence: end.sequence &+ UInt64(batch.messages.count),
                    cursor: last.cursor
                )
                async let next = self.batch(after: newEnd)
                if try await self.stream.append(batch.messages, after: end.sequence) {
                    end = newEnd
                    batch = try await next.get()
                } else {
                    let present = try await self.stream.end()
                    guard present != end else { throw Self.refusal(of: batch) }
                    end = present
                    batch = try await self.batch(after: end).get()
                }
            }
            return .success(end)
        } catch {
            return .failure(error)
        }
    }

    private static func refusal(of batch: Batch) -> QueueError {
        QueueError(
            code: .unavailable,
            message:
                "The stream refuses the outcome with the cursor \(batch.messages.first?.cursor ?? 0) although it is "
                + "the next one. If messages were deleted, the broker takes the same ones again two minutes after it "
                + "had stored them."
        )
    }

    private func batch(after end: OutcomeStreamEnd) async -> Result<Batch, QueueError> {
        // The stream has had messages, and each was deleted because of its age: the feed may keep them a little longer.
        let hasAged = end.cursor == nil && end.sequence > 0
        let start = hasAged ? self.clock.now.advanced(by: .zero - self.retention) : nil
        var batch = Batch()
        var cursor = end.cursor.map { FeedCursor(position: $0) }
        do throws(QueueError) {
            while batch.messages.isEmpty {
                let page = try await self.queue.outcomes(
                    after: cursor,
                    apps: nil,
                    kind: .outcomes,
                    limit: Self.batchSize
                )
                for entry in page.entries where start.map({ entry.push.settledAt ?? $0 >= $0 }) ?? true {
                    batch.oldest = batch.oldest ?? entry.push.settledAt
                    batch.messages.append(OutcomeMessage(entry))
                }
                guard let end = page.cursor, end != cursor else { break }
                cursor = end
            }
            return .success(batch)
        } catch {
            self.metrics.storageFailed(error)
            return .failure(error)
        }
    }

    // MARK: State

    private func didSucceed() {
        let wasFailing = self.state.withLock { state in
            defer { state = State() }
            return state.isFailing
        }
        if wasFailing { self.logger.notice("Outcomes are published again") }
    }

    private func didFail(_ error: QueueError) {
        guard !Task.isCancelled else { return }
        let now = self.clock.now
        let isNew = self.state.withLock { state in
            defer { state.isFailing = true }
            state.oldest = state.oldest ?? now
            return !state.isFailing
        }
        guard isNew else { return }
        self.logger.warning("Outcomes cannot be published; trying again", metadata: ["error": "\(error)"])
    }
}

/// The publisher, while this relay has the duty to publish.
struct OutcomeService: Service {
    let publisher: OutcomePublisher
    let fleet: Fleet

    func run() async {
        await cancelWhenGracefulShutdown {
            let publisher = self.publisher
            await self.fleet.perform(.outcomes) { await publisher.run() }
        }
    }
}
