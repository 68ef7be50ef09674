import Logging
import PushQueue
import Synchronization

/// Posts outcomes to the webhooks of the settings.
///
/// Each webhook has its own task, so a receiver that hangs does not delay the others. Each outcome is posted at least
/// once, in the order of the feed. A webhook with a new name begins with the oldest outcome that is kept. So if you
/// rename a webhook, it starts from the beginning.
final class Webhooks: Sendable {
    private let queue: any PushQueue
    private let metrics: RelayMetrics
    private let clock: any QueueClock
    private let logger: Logger
    private let authorities: String?
    private let retry: WebhookMachine.Retry
    private let changed = Wakeup()
    private let state: Mutex<State>

    private struct State {
        var settings: [WebhookSettings]
        var senders: [WebhookSender] = []
        /// Whether this relay is the one of the fleet that posts.
        var isPosting = true
        var isRunning = false
    }

    /// - Parameters:
    ///   - settings: the webhooks. If several have the same name, only the first is used.
    ///   - queue: the queue whose outcomes are posted. It also stores the positions.
    ///   - metrics: counts the requests.
    ///   - clock: the times.
    ///   - logger: logs when a webhook begins to fail and when it works again.
    ///   - authorities: the authorities (PEM) of receivers' certificates; nil for the system's.
    ///   - retry: the delays.
    init(
        _ settings: [WebhookSettings],
        queue: any PushQueue,
        metrics: RelayMetrics,
        clock: any QueueClock,
        logger: Logger,
        authorities: String? = nil,
        retry: WebhookMachine.Retry = WebhookMachine.Retry()
    ) {
        self.state = Mutex(State(settings: Self.unique(settings)))
        self.queue = queue
        self.metrics = metrics
        self.clock = clock
        self.logger = logger
        self.authorities = authorities
        self.retry = retry
    }

    private static func unique(_ settings: [WebhookSettings]) -> [WebhookSettings] {
        var names: Set<String> = []
        return settings.filter { names.insert($0.name).inserted }
    }

    private var settings: [WebhookSettings] { self.state.withLock { $0.settings } }

    /// Replaces the webhooks. A webhook whose name stays continues at its position.
    func set(_ settings: [WebhookSettings]) {
        let settings = Self.unique(settings)
        let isNew = self.state.withLock { state in
            defer { state.settings = settings }
            return state.settings != settings
        }
        if isNew { self.changed.signal() }
    }

    /// Sets whether this relay posts. A request in flight ends early, and the relay that posts sends it again with the
    /// same id.
    func set(isPosting: Bool) {
        let isNew = self.state.withLock { state in
            defer { state.isPosting = isPosting }
            return state.isPosting != isPosting
        }
        if isNew { self.changed.signal() }
    }

    /// Posts outcomes from the stored positions on, while this relay is the one that posts, until the task is cancelled.
    /// You may call it again after it has returned. A request that was in flight at the end is then sent again, with the
    /// same id.
    func run() async {
        while !Task.isCancelled {
            guard self.state.withLock({ $0.isPosting && !$0.settings.isEmpty }) else {
                await self.changed.wait()
                continue
            }
            await withTaskGroup { group in
                group.addTask { await self.post() }
                group.addTask { await self.changed.wait() }
                await group.next()
                group.cancelAll()
            }
        }
    }

    /// Posts to the present webhooks, until the task is cancelled.
    private func post() async {
        let settings = self.settings
        let senders = settings.map {
            WebhookSender(
                $0,
                queue: self.queue,
                client: CurlClient(authorities: self.authorities),
                metrics: self.metrics,
                clock: self.clock,
                logger: self.logger,
                retry: self.retry
            )
        }
        self.state.withLock { state in
            state.senders = senders
            state.isRunning = true
        }
        await withDiscardingTaskGroup { group in
            for sender in senders { group.addTask { await sender.run() } }
        }
        self.state.withLock { state in
            state.senders = []
            state.isRunning = false
        }
    }

    /// Whether this relay posts to the webhooks now.
    var isRunning: Bool { self.state.withLock { $0.isRunning } }

    private var senders: [WebhookSender] { self.state.withLock { $0.senders } }

    /// The states of the webhooks, in the order of the settings. A relay that does not post to them reads their stored
    /// positions. It does not know failed attempts.
    func statuses() async -> [WebhookStatus] {
        let running = self.state.withLock { $0.isRunning ? $0.senders : nil }
        if let running { return running.map(\.status) }
        return await self.storedStatuses()
    }

    /// The stored positions of the webhooks. A webhook whose position cannot be read is shown as new.
    func storedStatuses() async -> [WebhookStatus] {
        var statuses: [WebhookStatus] = []
        for webhook in self.settings {
            var machine = WebhookMachine(name: webhook.name)
            var store = WebhookStore(self.queue, name: webhook.name)
            do {
                if let stored = try await store.read() {
                    machine.didRestore(stored, now: self.clock.lease)
                }
            } catch {
                self.metrics.storageFailed(error)
            }
            statuses.append(machine.status(url: webhook.url))
        }
        return statuses
    }

    /// Signals that there may be new outcomes. Never waits.
    func signal() {
        for sender in self.senders { sender.signal() }
    }

    /// Skips the current request of a webhook: it is not sent again. Its outcomes stay in the feed. Any relay of a fleet
    /// can do that.
    ///
    /// - Parameters:
    ///   - name: the webhook's name.
    ///   - id: the id of the request in the webhook's status.
    /// - Returns: the number of its outcomes; nil if this is not the current request. The skip is durable.
    func skip(_ name: String, _ id: String) async throws(QueueError) -> Int? {
        guard self.settings.contains(where: { $0.name == name }) else { return nil }
        let machine = WebhookMachine(name: name)
        var store = WebhookStore(self.queue, name: name)
        while let extent = try await store.read()?.extent, machine.id(of: extent) == id {
            guard try await store.write(WebhookPosition(position: extent.last)) else { continue }
            for sender in self.senders where sender.name == name { sender.positionChanged() }
            return extent.count
        }
        return nil
    }
}
