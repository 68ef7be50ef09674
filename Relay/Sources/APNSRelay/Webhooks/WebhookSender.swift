import Logging
import PushQueue
import Synchronization

/// Performs the decisions of one webhook's machine.
///
/// One loop handles all events, so writes to the storage never overlap. Only requests and timers run concurrently.
final class WebhookSender: Sendable {
    private enum Event: Sendable {
        case signal
        case timer
        /// A request ended. The body is kept for the next attempt.
        case sent(WebhookMachine.Result, WebhookExtent, WebhookRequest?)
        /// This relay has changed the stored position, because an operator has skipped a request.
        case changed
    }

    /// The loop's own state.
    private struct Loop {
        var machine: WebhookMachine
        var store: WebhookStore
        /// The end of the last gap in the feed whose outcomes were counted as lost.
        var countedGap = Int64.min
        /// The request that is being sent.
        var sending: WebhookExtent?
        /// The body of the current request.
        var body: (first: Int64, request: WebhookRequest)?
        var timer: Task<Void, Never>?
    }

    private let settings: WebhookSettings
    private let queue: any PushQueue
    private let client: CurlClient
    private let metrics: RelayMetrics
    private let clock: any QueueClock
    private let logger: Logger
    private let retry: WebhookMachine.Retry
    private let events: AsyncStream<Event>
    private let continuation: AsyncStream<Event>.Continuation
    private let state: Mutex<(status: WebhookStatus, isSignalled: Bool)>

    init(
        _ settings: WebhookSettings,
        queue: any PushQueue,
        client: CurlClient,
        metrics: RelayMetrics,
        clock: any QueueClock,
        logger: Logger,
        retry: WebhookMachine.Retry
    ) {
        var logger = logger
        logger[metadataKey: "webhook"] = "\(settings.name)"
        self.settings = settings
        self.queue = queue
        self.client = client
        self.metrics = metrics
        self.clock = clock
        self.logger = logger
        self.retry = retry
        (self.events, self.continuation) = AsyncStream.makeStream()
        self.state = Mutex((WebhookMachine(name: settings.name).status(url: settings.url), false))
    }

    var name: String { self.settings.name }

    /// The state of the webhook.
    var status: WebhookStatus { self.state.withLock { $0.status } }

    /// Signals that there may be new outcomes. Signals that have not been handled yet count as one.
    func signal() {
        let isNew = self.state.withLock { state in
            defer { state.isSignalled = true }
            return !state.isSignalled
        }
        if isNew { self.continuation.yield(.signal) }
    }

    /// Signals that an operator has skipped a request.
    func positionChanged() { self.continuation.yield(.changed) }

    // MARK: The loop

    /// Posts outcomes until the task is cancelled. Call it once.
    func run() async {
        await withDiscardingTaskGroup { group in
            var loop = Loop(machine: self.machine, store: WebhookStore(self.queue, name: self.name))
            await self.perform(&loop, in: &group)
            for await event in self.events {
                self.handle(event, &loop)
                self.publish(loop.machine)
                await self.perform(&loop, in: &group)
            }
            loop.timer?.cancel()
        }
    }

    private var machine: WebhookMachine {
        WebhookMachine(
            name: self.settings.name,
            apps: self.settings.apps,
            onlyInvalidTokens: self.settings.onlyInvalidTokens,
            retry: self.retry
        )
    }

    private func handle(_ event: Event, _ loop: inout Loop) {
        switch event {
        case .timer: break
        case .signal:
            self.state.withLock { $0.isSignalled = false }
            loop.machine.signal()
        case .sent(let result, let extent, let request): self.didSend(result, extent, request, &loop)
        case .changed: loop.machine.mayHaveChanged()
        }
    }

    /// Performs actions until the machine waits.
    private func perform(_ loop: inout Loop, in group: inout DiscardingTaskGroup) async {
        while !Task.isCancelled {
            switch loop.machine.next(now: self.clock.lease) {
            case .restore: await self.restore(&loop)
            case .read(let position): await self.read(after: position, &loop)
            case .store(let position): await self.store(position, &loop)
            case .send(let extent):
                let request = loop.body.flatMap { $0.first == extent.first ? $0.request : nil }
                loop.sending = extent
                group.addTask { await self.send(extent, request) }
            case .wait(let until):
                self.setTimer(until, &loop)
                self.publish(loop.machine)
                return
            }
            self.publish(loop.machine)
        }
    }

    private func publish(_ machine: WebhookMachine) {
        self.state.withLock { $0.status = machine.status(url: self.settings.url) }
    }

    private func setTimer(_ until: QueueTime?, _ loop: inout Loop) {
        loop.timer?.cancel()
        loop.timer = until.map { until in
            let delay = min(max(self.clock.lease.duration(to: until), .zero), .seconds(3_600))
            return Task { [continuation] in
                do {
                    try await Task.sleep(for: delay)
                    continuation.yield(.timer)
                } catch {}  // Another timer has replaced this one.
            }
        }
    }

    // MARK: Storage

    private func restore(_ loop: inout Loop) async {
        do {
            guard let stored = try await loop.store.read() else {
                let message =
                    "The stored position of webhook \(self.name) cannot be read: it is damaged, or was written "
                    + "by a newer version. Nothing is posted. Update the relay, or give the webhook another name to begin "
                    + "with the oldest outcome."
                self.logger.error("\(message)")
                loop.machine.cannotRestore(message)
                return
            }
            loop.machine.didRestore(stored, now: self.clock.lease)
        } catch {
            self.failed(error, &loop.machine)
        }
    }

    private func read(after position: Int64?, _ loop: inout Loop) async {
        loop.body = nil
        do {
            let page = try await self.queue.outcomes(
                after: position.map { FeedCursor(position: $0) },
                apps: self.settings.apps,
                kind: self.settings.onlyInvalidTokens ? .invalidTokens : .outcomes,
                limit: min(max(self.settings.batch, 1), 1_000)
            )
            self.count(page.gap, &loop)
            var summary = WebhookMachine.Page(count: page.entries.count, end: page.cursor?.position)
            if let first = page.entries.first, let last = page.entries.last, first.cursor <= last.cursor {
                summary.outcomes = first.cursor.position...last.cursor.position
                summary.generation = page.generation
                summary.oldest = first.push.settledAt
                if let request = try? WebhookRequest(page.entries) { loop.body = (first.cursor.position, request) }
            }
            loop.machine.didRead(summary, now: self.clock.lease)
        } catch {
            self.failed(error, &loop.machine)
        }
    }

    /// Counts the outcomes of a gap as lost, unless that gap was already counted.
    private func count(_ gap: FeedGap?, _ loop: inout Loop) {
        guard let gap, gap.reason == .deleted, gap.last > loop.countedGap else { return }
        let first = max(gap.first, loop.countedGap &+ 1)
        loop.countedGap = gap.last
        // A restore skips 10⁹ positions, which no outcome has had. Those of the lost time count: their outcomes are gone.
        let lost = Int(clamping: (gap.last &- first &+ 1) % 1_000_000_000)
        self.metrics.webhookLost(self.name, lost)
        self.logger.error(
            "Outcomes were deleted before the webhook read them. Some of them may not have been for this webhook",
            metadata: ["outcomes": "\(lost)", "first": "\(first)", "last": "\(gap.last)"]
        )
    }

    /// Stores the position. If another relay or an operator has changed it, the machine starts again from the stored one.
    private func store(_ position: WebhookPosition, _ loop: inout Loop) async {
        do {
            if try await loop.store.write(position) {
                loop.machine.didStore()
            } else {
                self.logger.notice(
                    "The webhook's position was changed, by another relay or an operator; reading it again"
                )
                (loop.machine, loop.sending, loop.body) = (self.machine, nil, nil)
            }
        } catch {
            self.failed(error, &loop.machine)
        }
    }

    private func failed(_ error: QueueError, _ machine: inout WebhookMachine) {
        self.metrics.storageFailed(error)
        machine.storageFailed(error, now: self.clock.lease)
    }

    // MARK: Requests

    /// Sends a request, and reports its end.
    private func send(_ extent: WebhookExtent, _ kept: WebhookRequest?) async {
        var request = kept
        if request == nil {
            do {
                let entries = try await WebhookRequest.entries(of: extent, settings: self.settings, queue: self.queue)
                guard !entries.isEmpty else {
                    self.continuation.yield(.sent(.nothingLeft, extent, nil))
                    return
                }
                request = try? WebhookRequest(entries)
            } catch {
                self.metrics.storageFailed(error)
                self.continuation.yield(.sent(.storage(error), extent, nil))
                return
            }
        }
        guard let request else {
            self.continuation.yield(.sent(.failed("the outcomes cannot be encoded", retryAfter: nil), extent, nil))
            return
        }
        self.continuation.yield(.sent(await self.post(request, extent), extent, request))
    }

    private func post(_ request: WebhookRequest, _ extent: WebhookExtent) async -> WebhookMachine.Result {
        let id = self.machine.id(of: extent)
        let timestamp = "\(self.clock.now.millisecondsSince1970 / 1_000)"
        let signature = WebhookSignature.sign(
            id: id,
            timestamp: timestamp,
            body: request.body,
            secrets: self.settings.secrets
        )
        let response: CurlClient.Response
        do {
            response = try await self.client.perform(
                CurlClient.Request(
                    url: self.settings.url,
                    body: .bytes(request.body),
                    headers: [
                        ("content-type", "application/json"), ("user-agent", "apns-relay"), ("webhook-id", id),
                        ("webhook-timestamp", timestamp), ("webhook-signature", signature),
                    ],
                    timeout: self.settings.timeout,
                    // The body is ignored. If it is longer, the next request needs a new connection.
                    maxResponseBytes: 4_096
                )
            )
        } catch CurlClient.Failure.cancelled {
            return .failed("the relay is shutting down", retryAfter: nil)
        } catch CurlClient.Failure.timeout {
            self.metrics.webhookRequest(self.name, .timeout)
            return .failed("the receiver did not respond within \(self.settings.timeout)", retryAfter: nil)
        } catch {
            self.metrics.webhookRequest(self.name, .failed)
            return .failed("no connection to the receiver: \(error)", retryAfter: nil)
        }
        let status = response.status
        if (200..<300).contains(status) {
            self.metrics.webhookRequest(self.name, .acknowledged)
            return .acknowledged
        }
        self.metrics.webhookRequest(self.name, .refused)
        let text = "the receiver responded with status \(status)"
        if (300..<400).contains(status) {
            // A secret may be in the query.
            let place = response.location.map { " to \($0.prefix { $0 != "?" })" } ?? ""
            return .failed(
                "\(text), which redirects\(place). The relay does not follow redirects: set webhook.\(self.name).url to the "
                    + "address that accepts the requests",
                retryAfter: response.retryAfter
            )
        }
        return .failed(text, retryAfter: response.retryAfter)
    }

    private func didSend(
        _ result: WebhookMachine.Result,
        _ extent: WebhookExtent,
        _ request: WebhookRequest?,
        _ loop: inout Loop
    ) {
        // Ignores the end of a request that was sent before the machine started again from the stored values.
        guard extent == loop.sending else { return }
        loop.sending = nil
        let failures = loop.machine.failures
        loop.body = request.map { (extent.first, $0) }
        var random = SystemRandomNumberGenerator()
        loop.machine.didSend(result, now: self.clock.lease, using: &random)
        if loop.machine.failures > 0, failures == 0 {
            self.logger.warning("Requests to a webhook fail", metadata: ["error": "\(loop.machine.lastError ?? "")"])
        } else if loop.machine.failures == 0, failures > 0, result == .acknowledged {
            self.logger.notice("A webhook acknowledges requests again", metadata: ["failures": "\(failures)"])
        }
        let left = result == .nothingLeft ? 0 : request?.count ?? extent.count
        if result == .acknowledged || result == .nothingLeft, left < extent.count {
            let lost = extent.count - left
            self.metrics.webhookLost(self.name, lost)
            self.logger.error(
                "Outcomes were deleted before the webhook acknowledged them",
                metadata: ["outcomes": "\(lost)", "id": "\(loop.machine.id(of: extent))"]
            )
        }
    }
}
