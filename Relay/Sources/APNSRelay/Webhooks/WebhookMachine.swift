import PushQueue
import SupervisedPool

/// Decides the next action of one webhook: which outcomes a request contains, when it is sent again, and when it is
/// given up. `WebhookSender` performs the actions. It calls `next` after each event.
///
/// The machine sends one request at a time, in the order of the feed. The extent of a request is stored before the
/// request is first sent, so a retry has the same outcomes, even after a restart. The new position is stored together
/// with the next request's extent, or at the end of the feed. So a crash repeats at most one request.
///
/// If the receiver refuses a request (4xx), the next request has half as many outcomes. This is repeated until the
/// refused outcome is alone. Then that outcome is parked, and the machine continues with the feed. A status that may
/// concern the receiver rather than the request, such as 404, is first retried like any other failure. After
/// `maxRefused` refused outcomes without an acknowledgement in between, the receiver seems to refuse everything. A
/// refusal then counts like any other failure.
///
/// A request that fails for too long is parked. If `maxParked` requests are already parked, the request is not skipped.
/// It is retried with the longest delay until it is acknowledged, or until an operator drops a parked request.
struct WebhookMachine: Sendable {
    /// When requests are sent again.
    struct Retry: Sendable, Hashable {
        /// The delays after failed attempts.
        var delays = Backoff(.doubling(randomPercent: 20), minimum: .seconds(1), maximum: .seconds(3_600))
        /// The longest delay that a receiver can ask for by `retry-after`.
        var maxRetryAfter = Duration.seconds(3_600)
        /// How long a failed request is retried before it is parked.
        var giveUpAfter = Duration.seconds(86_400)
        /// The maximum number of refused outcomes that are parked without an acknowledgement in between.
        var maxRefused = 10
        /// How often a request is repeated after a refusal that may concern the receiver, before the refusal counts.
        var doubtfulAttempts = 5
        /// The maximum number of parked requests.
        var maxParked = 1_000
        /// The delay after an error of the storage.
        var storageDelay = Duration.seconds(1)
        /// How often the feed is read without a signal.
        var poll = Duration.seconds(10)
    }

    /// An action for the shell.
    enum Action: Sendable, Hashable {
        /// Read the stored state, then call `didRestore`.
        case restore
        /// Read at most `limit` outcomes of the feed after a position, then call `didRead`. If `limit` is nil, the
        /// settings limit the number of outcomes.
        case read(after: Int64?, limit: Int?)
        /// Store the values in this order, then call `didStore`.
        case store([Write])
        /// Begin to send a request. Call `didSend` when it has ended, which may be after other actions.
        case send(WebhookExtent)
        /// Do nothing until this time or the next event.
        case wait(until: QueueTime?)
    }

    enum Write: Sendable, Hashable {
        case position(WebhookPosition)
        case parked([ParkedWebhook])
    }

    /// The contents of a page of the feed.
    struct Page: Sendable, Hashable {
        /// The positions of the first and the last outcome; nil if there is none.
        var outcomes: ClosedRange<Int64>?
        /// The generation of the first outcome's cursor.
        var generation: UInt32 = 0
        var count: Int
        /// When the first outcome was settled.
        var oldest: QueueTime?
        /// The position at which the page ends; nil if the feed is empty.
        var end: Int64?
    }

    /// How an attempt ended.
    enum Result: Sendable, Hashable {
        case acknowledged
        /// With an error, and with the wait that the receiver asks for.
        case failed(String, retryAfter: Duration?)
        /// With an error that the same request would cause again. If `isInDoubt`, a repetition may succeed.
        case refused(String, isInDoubt: Bool)
        /// The queue no longer has any of the outcomes.
        case nothingLeft
        /// The outcomes could not be read.
        case storage(QueueError)
    }

    private enum Pending: Sendable, Hashable {
        case position
        case begin(WebhookExtent)
        case park(ParkedWebhook)
        case unpark(String)
    }

    private enum Sending: Sendable, Hashable {
        case current
        case parked(String)
    }

    let name: String
    private let apps: [String]?
    private let onlyInvalidTokens: Bool
    private let retry: Retry

    /// The position of the last outcome that was acknowledged, parked, or skipped because it is not for this webhook.
    private(set) var position: Int64?
    /// The current request.
    private(set) var current: WebhookExtent?
    private(set) var failures = 0
    private(set) var lastError: String?
    /// When the current request is sent again.
    private(set) var nextAttempt: QueueTime?
    private(set) var parked: [ParkedWebhook] = []

    /// The maximum number of outcomes in the next request while the machine isolates a refused one; nil for the limit
    /// of the settings.
    private var limit: Int?
    /// The last outcome of the request that was refused first.
    private var refusedEnd = Int64.min
    /// The number of refused outcomes that were parked since the last acknowledgement.
    private var refused = 0
    private(set) var isRestored = false
    /// Why the stored state cannot be used.
    private var fault: String?
    private var pending: Pending?
    private var sending: Sending?
    /// The ids of parked requests that an operator wants to send now.
    private var retries: [String] = []
    /// The storage is not used before this time.
    private var pausedUntil: QueueTime?
    /// The feed had nothing new. It is read again at this time.
    private var idleUntil: QueueTime?
    private var storedPosition: Int64?
    private var isPositionDirty = false

    /// - Parameters:
    ///   - name: the webhook's name.
    ///   - apps: the apps whose outcomes it receives; nil for all.
    ///   - onlyInvalidTokens: whether it receives only outcomes that invalidate a device token.
    ///   - retry: when requests are sent again.
    init(name: String, apps: Set<String>? = nil, onlyInvalidTokens: Bool = false, retry: Retry = Retry()) {
        self.name = name
        self.apps = apps?.sorted()
        self.onlyInvalidTokens = onlyInvalidTokens
        self.retry = retry
    }

    /// When the next attempt of the current request begins, or the next attempt to use the storage.
    var dueAt: QueueTime? { self.sending == nil ? self.pausedUntil ?? self.nextAttempt : nil }

    /// The id of a request. Its retries have the same id, and no other request has it, not even one of another queue.
    func id(of extent: WebhookExtent) -> String {
        "\(self.name)-\(FeedCursor(position: extent.first, generation: extent.generation).text)"
    }

    // MARK: Actions

    /// Returns the next action. Call it again after each action except `wait`, and after each event.
    mutating func next(now: QueueTime) -> Action {
        if self.fault != nil { return .wait(until: nil) }
        if let pausedUntil = self.pausedUntil {
            if now < pausedUntil { return .wait(until: pausedUntil) }
            self.pausedUntil = nil
        }
        guard self.isRestored else { return .restore }
        if let pending = self.pending { return .store(self.writes(of: pending)) }
        if self.sending != nil { return .wait(until: nil) }
        while let id = self.retries.first {
            self.retries.removeFirst()
            if let parked = self.parked.first(where: { self.id(of: $0.extent) == id }) {
                self.sending = .parked(id)
                return .send(parked.extent)
            }
        }
        if let current = self.current {
            if let nextAttempt = self.nextAttempt, now < nextAttempt { return .wait(until: nextAttempt) }
            self.sending = .current
            return .send(current)
        }
        if let idleUntil = self.idleUntil, now < idleUntil { return .wait(until: idleUntil) }
        return .read(after: self.position, limit: self.limit)
    }

    private func writes(of pending: Pending) -> [Write] {
        switch pending {
        case .position: return [.position(WebhookPosition(position: self.position, extent: nil))]
        case .begin(let extent): return [.position(WebhookPosition(position: self.position, extent: extent))]
        case .park(let request):
            // The order matters: after a crash between the two writes, the request is among the parked ones.
            return [
                .parked(self.parked + [request]),
                .position(WebhookPosition(position: request.extent.last, extent: nil)),
            ]
        case .unpark(let id): return [.parked(self.parkedWithout(id) ?? self.parked)]
        }
    }

    // MARK: Storage

    /// Records that the stored state was read.
    mutating func didRestore(_ stored: WebhookPosition?, parked: [ParkedWebhook], now: QueueTime) {
        self.isRestored = true
        self.parked = parked
        self.position = stored?.position
        self.storedPosition = stored?.position
        guard var extent = stored?.extent else { return }
        if parked.contains(where: { $0.extent.first == extent.first }) {
            self.position = extent.last
            self.isPositionDirty = true
        } else {
            // The clock may have been set back since the request was made.
            extent.formed = min(extent.formed, now)
            self.current = extent
        }
    }

    /// Records that the stored state cannot be used. Nothing is sent, and the state is not overwritten.
    mutating func cannotRestore(_ message: String) {
        self.fault = message
        self.lastError = message
        self.failures = max(1, self.failures)
    }

    /// Records that the write that `next` requested has completed.
    mutating func didStore() {
        guard let pending = self.pending else { return }
        self.pending = nil
        self.storageWorks()
        switch pending {
        case .position: self.positionIsStored()
        case .begin(let extent):
            self.current = extent
            self.positionIsStored()
        case .park(let request):
            self.parked.append(request)
            self.finishCurrent()
            self.positionIsStored()
        case .unpark(let id): self.parked = self.parkedWithout(id) ?? self.parked
        }
    }

    /// Records that the storage failed during the action that `next` returned. The action is tried again after a delay.
    mutating func storageFailed(_ error: QueueError, now: QueueTime) {
        self.lastError = error.message
        self.pausedUntil = now.advanced(by: self.retry.storageDelay)
    }

    private mutating func positionIsStored() {
        self.storedPosition = self.position
        self.isPositionDirty = false
    }

    private mutating func storageWorks() {
        if self.failures == 0 { self.lastError = nil }
    }

    // MARK: Feed

    /// Records that there may be new outcomes.
    mutating func signal() { self.idleUntil = nil }

    /// Records that a page of the feed was read.
    mutating func didRead(_ page: Page, now: QueueTime) {
        self.storageWorks()
        if let outcomes = page.outcomes {
            self.pending = .begin(
                WebhookExtent(
                    after: self.position,
                    first: outcomes.lowerBound,
                    last: outcomes.upperBound,
                    generation: page.generation,
                    count: page.count,
                    apps: self.apps,
                    onlyInvalidTokens: self.onlyInvalidTokens,
                    oldest: page.oldest ?? now,
                    formed: now
                )
            )
            return
        }
        if let end = page.end, end > self.position ?? .min {
            // The page has only outcomes for others. Storing its position would cost a commit for each such page.
            self.position = end
            let (skipped, overflow) = end.subtractingReportingOverflow(self.storedPosition ?? 0)
            if overflow || skipped >= 10_000 { self.isPositionDirty = true }
            return
        }
        self.idleUntil = now.advanced(by: self.retry.poll)
        if self.isPositionDirty { self.pending = .position }
    }

    // MARK: Requests

    /// Records that an attempt ended.
    ///
    /// - Parameters:
    ///   - result: how it ended.
    ///   - now: the time.
    ///   - random: the source of the random part of the delay before the next attempt.
    mutating func didSend(_ result: Result, now: QueueTime, using random: inout some RandomNumberGenerator) {
        let sending = self.sending
        self.sending = nil
        switch sending {
        case .current: self.didSendCurrent(result, now: now, using: &random)
        case .parked(let id): self.didSendParked(id, result)
        case nil: break
        }
    }

    private mutating func didSendCurrent(
        _ result: Result,
        now: QueueTime,
        using random: inout some RandomNumberGenerator
    ) {
        guard let current = self.current else { return }
        switch result {
        case .acknowledged, .nothingLeft:
            if result == .acknowledged { self.refused = 0 }
            if current.last >= self.refusedEnd { self.limit = nil }
            self.finishCurrent()
            self.isPositionDirty = true
        case .refused(let error, let isInDoubt):
            let isTried = !isInDoubt || self.limit != nil || self.failures >= self.retry.doubtfulAttempts
            if self.refused >= self.retry.maxRefused || !isTried {
                self.currentFailed(current, error, retryAfter: nil, now: now, using: &random)
            } else if current.count > 1 {
                if self.limit == nil { self.refusedEnd = current.last }
                self.limit = current.count / 2
                self.current = nil
                self.failures = 0
                self.nextAttempt = nil
                self.lastError = error
            } else if self.parked.count < self.retry.maxParked {
                self.refused += 1
                self.limit = nil
                self.pending = .park(ParkedWebhook(extent: current, since: now, error: error))
            } else {
                self.currentFailed(current, error, retryAfter: nil, now: now, using: &random)
            }
        case .storage(let error): self.storageFailed(error, now: now)
        case .failed(let error, let retryAfter):
            self.currentFailed(current, error, retryAfter: retryAfter, now: now, using: &random)
        }
    }

    private mutating func currentFailed(
        _ current: WebhookExtent,
        _ error: String,
        retryAfter: Duration?,
        now: QueueTime,
        using random: inout some RandomNumberGenerator
    ) {
        self.failures += 1
        self.lastError = error
        let end = current.formed.advanced(by: self.retry.giveUpAfter)
        if now >= end {
            if self.parked.count < self.retry.maxParked {
                self.pending = .park(ParkedWebhook(extent: current, since: now, error: error))
                return
            }
            self.lastError =
                "\(error) (not given up, because \(self.parked.count) requests are already parked: "
                + "retry or drop them)"
        }
        let delay = self.retry.delays.wait(after: self.failures, using: &random)
        let next = now.advanced(by: max(delay, min(retryAfter ?? .zero, self.retry.maxRetryAfter)))
        self.nextAttempt = now < end ? min(next, end) : next
    }

    private mutating func finishCurrent() {
        self.position = self.current?.last ?? self.position
        self.current = nil
        self.failures = 0
        self.lastError = nil
        self.nextAttempt = nil
        self.idleUntil = nil
    }

    private mutating func didSendParked(_ id: String, _ result: Result) {
        guard let index = self.parked.firstIndex(where: { self.id(of: $0.extent) == id }) else { return }
        switch result {
        case .acknowledged:
            self.refused = 0
            self.pending = .unpark(id)
        case .failed(let error, _), .refused(let error, _): self.parked[index].error = error
        case .nothingLeft: self.parked[index].error = "its outcomes are no longer kept: drop the request"
        case .storage(let error): self.parked[index].error = error.message
        }
    }

    // MARK: Decisions of operators

    /// Sends a parked request once more, as soon as no other request is in flight. If it fails, it stays parked.
    ///
    /// - Returns: whether it is parked.
    mutating func retryParked(_ id: String) -> Bool {
        guard self.parked.contains(where: { self.id(of: $0.extent) == id }) else { return false }
        if !self.retries.contains(id) { self.retries.append(id) }
        return true
    }

    /// The parked requests without this one; nil if it is not parked. Store them, then call `didDropParked`.
    func parkedWithout(_ id: String) -> [ParkedWebhook]? {
        let rest = self.parked.filter { self.id(of: $0.extent) != id }
        return rest.count == self.parked.count ? nil : rest
    }

    /// Records that a parked request was dropped.
    mutating func didDropParked(_ id: String) { self.parked = self.parkedWithout(id) ?? self.parked }

    /// The status for operators.
    func status(url: String) -> WebhookStatus {
        WebhookStatus(
            name: self.name,
            url: url,
            position: self.position ?? 0,
            failures: self.failures,
            lastError: self.lastError,
            nextAttempt: self.dueAt,
            parked: self.parked.map {
                .init(id: self.id(of: $0.extent), outcomes: $0.extent.count, since: $0.since, error: $0.error)
            },
            oldestOutcome: self.current?.oldest
        )
    }
}
