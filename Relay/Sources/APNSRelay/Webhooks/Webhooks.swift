import Logging
import NIOSSL
import PushQueue

/// Posts outcomes to the webhooks of the settings.
///
/// Each webhook has its own task, so a receiver that hangs does not delay the others. Each outcome is posted at least
/// once, in the order of the feed. A webhook with a new name begins with the oldest outcome that is kept. To start a
/// webhook over, rename it.
final class Webhooks: Sendable {
    private let senders: [WebhookSender]
    private let client: WebhookClient

    /// - Parameters:
    ///   - settings: the webhooks. Of several with the same name, only the first is used.
    ///   - queue: whose outcomes are posted; it also stores the positions.
    ///   - metrics: counts the requests.
    ///   - clock: the times.
    ///   - logger: gets a line when a webhook begins or ceases to fail, and for each request that is parked.
    ///   - tls: how the certificates of receivers are verified; nil for the system's authorities.
    ///   - retry: the delays. `giveUpAfter` comes from the settings.
    init(
        _ settings: [WebhookSettings],
        queue: any PushQueue,
        metrics: RelayMetrics,
        clock: any QueueClock,
        logger: Logger,
        tls: TLSConfiguration? = nil,
        retry: WebhookMachine.Retry = WebhookMachine.Retry()
    ) {
        var names: Set<String> = []
        let client = WebhookClient(tls: tls)
        self.client = client
        self.senders = settings.filter { names.insert($0.name).inserted }.map {
            WebhookSender(
                $0,
                queue: queue,
                client: client,
                metrics: metrics,
                clock: clock,
                logger: logger,
                retry: retry
            )
        }
    }

    /// Posts outcomes until the task is cancelled. Call it once. A request that is then in flight is sent again at the
    /// next start, with the same id.
    func run() async {
        await withDiscardingTaskGroup { group in
            for sender in self.senders { group.addTask { await sender.run() } }
            // A service must not return before the shutdown, so wait for the cancellation.
            if self.senders.isEmpty {
                group.addTask {
                    let (events, continuation) = AsyncStream<Never>.makeStream()
                    for await _ in events {}
                    continuation.finish()
                }
            }
        }
        await self.client.shutDown()
    }

    /// What each webhook is doing, in the order of the settings.
    func statuses() -> [WebhookStatus] { self.senders.map(\.status) }

    /// There may be new outcomes. Never waits.
    func signal() {
        for sender in self.senders { sender.signal() }
    }

    /// Sends a parked request once more, as soon as the webhook's request in flight has ended. If the attempt fails,
    /// the request stays parked with the new error. A restart of the relay forgets the retry.
    ///
    /// - Parameters:
    ///   - webhook: the webhook's name.
    ///   - id: the request's id, as its status has it.
    /// - Returns: whether there is such a request.
    func retry(_ webhook: String, _ id: String) async throws(QueueError) -> Bool {
        guard let sender = self.senders.first(where: { $0.name == webhook }) else { return false }
        return try await sender.retryParked(id)
    }

    /// Forgets a parked request. The outcomes stay in the feed.
    ///
    /// - Parameters:
    ///   - webhook: the webhook's name.
    ///   - id: the request's id, as its status has it.
    /// - Returns: whether there was such a request. If so, it is durably forgotten.
    func drop(_ webhook: String, _ id: String) async throws(QueueError) -> Bool {
        guard let sender = self.senders.first(where: { $0.name == webhook }) else { return false }
        return try await sender.dropParked(id)
    }
}
