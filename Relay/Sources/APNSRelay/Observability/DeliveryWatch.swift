import APNSModel
import PushQueue
import ServiceLifecycle
import Synchronization

/// Looks each second whether pushes are being delivered, and every five seconds whether outcomes reach the webhooks. Keeps the counters of the last minutes for the page.
final class DeliveryWatch: Service {
    /// Returns the apps and environments whose clients deliver nothing.
    typealias ReadFailures = @Sendable () async -> [DeliveryProblem.AppEnvironment: DeliveryFailure]

    /// Returns the states of the webhooks.
    typealias ReadWebhooks = @Sendable () async -> [WebhookStatus]

    /// The counters at a time.
    struct Sample: Sendable, Hashable {
        var time: QueueTime
        var totals: RelayTotals
    }

    private struct State {
        var problems: [DeliveryProblem] = []
        /// When each problem was first seen.
        var since: [Key: QueueTime] = [:]
        var samples: [Sample] = []
        var webhooks: [WebhookStatus] = []
    }

    private struct Key: Hashable {
        var cause: DeliveryProblem.Cause
        var app: DeliveryProblem.AppEnvironment?
        var batch: APNSID?
    }

    /// The time between two samples, and their number: five minutes.
    static let interval = Duration.seconds(5)
    static let samples = 61

    private let queue: any PushQueue
    private let clock: any QueueClock
    private let storage: StorageWatch
    private let readTotals: @Sendable () -> RelayTotals
    private let readFailures: ReadFailures
    private let readWebhooks: ReadWebhooks
    private let unreadableBatches: @Sendable () -> Set<APNSID>
    private let state = Mutex(State())

    init(
        queue: any PushQueue,
        clock: any QueueClock,
        storage: StorageWatch,
        totals: @escaping @Sendable () -> RelayTotals,
        failures: @escaping ReadFailures,
        webhooks: @escaping ReadWebhooks,
        unreadableBatches: @escaping @Sendable () -> Set<APNSID>
    ) {
        self.queue = queue
        self.clock = clock
        self.storage = storage
        self.readTotals = totals
        self.readFailures = failures
        self.readWebhooks = webhooks
        self.unreadableBatches = unreadableBatches
    }

    /// What keeps pushes from being delivered or accepted now, or outcomes from a webhook.
    var problems: [DeliveryProblem] { self.state.withLock { $0.problems } }

    /// The counters of the last five minutes, the oldest first.
    var history: [Sample] { self.state.withLock { $0.samples } }

    func run() async throws {
        await cancelWhenGracefulShutdown {
            await withDiscardingTaskGroup { group in
                group.addTask {
                    repeat { await self.update() } while (try? await Task.sleep(for: .seconds(1))) != nil
                }
                // On its own, because it may wait for the storage.
                group.addTask {
                    repeat { await self.updateWebhooks() } while (try? await Task.sleep(for: Self.interval)) != nil
                }
            }
        }
        try? await gracefulShutdown()
    }

    func update() async {
        let failures = await self.readFailures()
        let now = self.clock.now
        let totals = self.readTotals()
        var found: [(key: Key, message: String)] = []
        if let problem = self.storage.problem {
            found.append((Key(cause: .storage), problem))
        } else {
            // Not while the storage hangs.
            do throws(QueueError) {
                try await self.queue.requireRoom()
            } catch {
                if error.code == .unavailable { found.append((Key(cause: .disk), error.message)) }
            }
        }
        for webhook in self.state.withLock({ $0.webhooks }) {
            if let fault = webhook.fault {
                found.append((Key(cause: .webhook), fault))
            } else if webhook.isStuck(now: self.clock.lease) {
                found.append((Key(cause: .webhook), Self.message(webhook)))
            }
        }
        for batch in self.unreadableBatches() {
            let message = "The batch \(batch) cannot be read: it is damaged, or a newer version wrote it."
            found.append((Key(cause: .batch, batch: batch), message))
        }
        for (app, failure) in failures { found.append((Key(cause: failure.cause, app: app), failure.message)) }
        self.state.withLock { state in
            let since = found.map { ($0.key, state.since[$0.key] ?? now) }
            state.since = Dictionary(since) { $1 }
            state.problems = Self.grouped(found, state.since)
            if let last = state.samples.last, last.time.duration(to: now) < Self.interval, last.time <= now { return }
            state.samples.append(Sample(time: now, totals: totals))
            state.samples.removeFirst(max(state.samples.count - Self.samples, 0))
        }
    }

    /// Reads the states of the webhooks, for the next `update`.
    func updateWebhooks() async {
        let webhooks = await self.readWebhooks()
        self.state.withLock { $0.webhooks = webhooks }
    }

    private static func message(_ webhook: WebhookStatus) -> String {
        let request = webhook.request.map { "request \($0.id)" } ?? "a request"
        return "The receiver of the webhook \(webhook.name) has not acknowledged \(request) for an hour or more."
    }

    /// One problem for all apps with the same cause and message.
    private static func grouped(
        _ found: [(key: Key, message: String)],
        _ since: [Key: QueueTime]
    ) -> [DeliveryProblem] {
        struct Group: Hashable {
            var cause: DeliveryProblem.Cause
            var message: String
        }
        let groups = Dictionary(grouping: found) { Group(cause: $0.key.cause, message: $0.message) }
        return groups.map { group, members in
            let apps = members.compactMap(\.key.app).sorted { ($0.app, $0.environment) < ($1.app, $1.environment) }
            let first = members.compactMap { since[$0.key] }.min() ?? QueueTime(millisecondsSince1970: 0)
            return DeliveryProblem(
                cause: group.cause,
                apps: apps,
                batch: members.first?.key.batch,
                message: group.message,
                since: first
            )
        }
        .sorted { ($0.since, $0.message) < ($1.since, $1.message) }
    }
}

/// Whether the queue responds, as the calls of the dispatcher show each second, and whether it stores what the sending of
/// pushes changes: a full disk or a locked table lets reads succeed.
final class StorageWatch: Sendable {
    private struct State {
        /// When the running call began; nil if none runs.
        var began: ContinuousClock.Instant?
        var error: QueueError?
    }

    /// The errors of the calls that change something and whose last try failed, by purpose, with their times.
    private let failing = Mutex<[String: (error: QueueError, time: ContinuousClock.Instant)]>([:])

    /// After this time without another try, an error is no problem any more: its call was given up, and may not be needed
    /// again for days. A call that is refused is tried again within a minute. While the queue is away, tries may take longer,
    /// but then reads fail, too.
    static let memory = Duration.seconds(90)

    /// After this time, a call that is still running is a problem.
    private static let patience = Duration.seconds(2)

    private let state = Mutex(State())

    /// Makes a call, and notes whether it succeeds.
    func observing<Value>(_ call: () async throws(QueueError) -> Value) async throws(QueueError) -> Value {
        self.state.withLock { $0.began = $0.began ?? .now }
        do throws(QueueError) {
            let value = try await call()
            self.state.withLock { $0 = State() }
            return value
        } catch {
            self.state.withLock { $0 = State(error: error) }
            throw error
        }
    }

    /// Notes how a call that changes something has ended.
    ///
    /// - Parameters:
    ///   - purpose: what it does. A success ends only the errors with the same purpose.
    ///   - error: its error; nil if it has succeeded.
    func note(_ purpose: String, _ error: QueueError?, at time: ContinuousClock.Instant = .now) {
        self.failing.withLock { $0[purpose] = error.map { ($0, time) } }
    }

    /// Why the queue cannot be used; nil if the last calls succeeded.
    var problem: String? {
        let failing = self.failing.withLock { failing in
            failing = failing.filter { $0.value.time.duration(to: .now) < Self.memory }
            return failing.min { $0.key < $1.key }?.value.error
        }
        if let failing { return failing.message }
        return self.state.withLock { state in
            if let error = state.error { return error.message }
            guard let began = state.began else { return nil }
            let time = began.duration(to: .now)
            return time < Self.patience ? nil : "The queue has not responded for \(time.components.seconds) s."
        }
    }
}
