import PushQueue
import SupervisedPool

/// Decides the next action of one webhook: which outcomes a request contains, and when it is sent again.
/// `WebhookSender` performs the actions. It calls `next` after each event.
///
/// The machine sends one request at a time, in the order of the feed. It repeats the request until the receiver
/// acknowledges it, or until an operator skips it. The extent of a request is stored before the request is first sent,
/// so a retry has the same outcomes, even after a restart. The new position is stored together with the next request's
/// extent, or at the end of the feed. So a crash repeats at most one request.
///
/// Any relay may store that a request is skipped. While a request fails, the machine reads the stored position at an
/// interval, and so finds the skip.
struct WebhookMachine: Sendable {
    /// When requests are sent again.
    struct Retry: Sendable, Hashable {
        /// The delays after failed attempts.
        var delays = Backoff(.doubling(randomPercent: 20), minimum: .seconds(1), maximum: .seconds(300))
        /// The longest delay that a receiver can ask for by `retry-after`.
        var maxRetryAfter = Duration.seconds(3_600)
        /// The delay after an error of the storage.
        var storageDelay = Duration.seconds(1)
        /// How often the feed is read without a signal, and the stored position while a request fails.
        var poll = Duration.seconds(10)
    }

    /// An action for the shell.
    enum Action: Sendable, Hashable {
        /// Read the stored position, then call `didRestore`.
        case restore
        /// Read outcomes of the feed after a position, then call `didRead`.
        case read(after: Int64?)
        /// Store the position, then call `didStore`.
        case store(WebhookPosition)
        /// Begin to send a request. Call `didSend` when it has ended, which may be after other actions.
        case send(WebhookExtent)
        /// Do nothing until this time or the next event.
        case wait(until: QueueTime?)
    }

    /// The contents of a page of the feed.
    struct Page: Sendable, Hashable {
        /// The positions of the first and the last outcome; nil if there is none.
        var outcomes: ClosedRange<Int64>?
        /// The generation of the feed when the page was read.
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
        /// The queue no longer has any of the outcomes.
        case nothingLeft
        /// The outcomes could not be read.
        case storage(QueueError)
    }

    let name: String
    private let apps: [String]?
    private let onlyInvalidTokens: Bool
    private let retry: Retry

    /// The position of the last outcome that was acknowledged or skipped, or that is not for this webhook.
    private(set) var position: Int64?
    /// The current request.
    private(set) var current: WebhookExtent?
    /// The number of failed attempts of the current request.
    private(set) var failures = 0
    private(set) var lastError: String?
    /// When the current request is sent again.
    private(set) var nextAttempt: QueueTime?

    private var isRestored = false
    /// What was read or stored last.
    private var lastStored: WebhookPosition?
    /// Why the stored position cannot be used.
    private var fault: String?
    /// The position that must be stored next.
    private var pending: WebhookPosition?
    private var isSending = false
    /// The storage is not used before this time.
    private var pausedUntil: QueueTime?
    /// The feed had nothing new. It is read again at this time.
    private var idleUntil: QueueTime?
    /// When the stored position is read again while the current request fails.
    private var restoreAt = QueueTime(millisecondsSince1970: .min)
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

    /// The id of a request. Its retries have the same id, and no other request has it, not even one of another queue.
    func id(of extent: WebhookExtent) -> String {
        "\(self.name)-\(FeedCursor(position: extent.first, generation: extent.generation).text)"
    }

    // MARK: Actions

    /// Returns the next action. Call it again after each action except `wait`, and after each event.
    mutating func next(now: QueueTime) -> Action {
        if self.fault != nil || self.isSending { return .wait(until: nil) }
        if let pausedUntil = self.pausedUntil {
            if now < pausedUntil { return .wait(until: pausedUntil) }
            self.pausedUntil = nil
        }
        guard self.isRestored else { return .restore }
        if let pending = self.pending { return .store(pending) }
        if let current = self.current {
            if self.failures > 0, now >= self.restoreAt { return .restore }
            if let nextAttempt = self.nextAttempt, now < nextAttempt {
                return .wait(until: min(self.restoreAt, nextAttempt))
            }
            self.isSending = true
            return .send(current)
        }
        if let idleUntil = self.idleUntil, now < idleUntil { return .wait(until: idleUntil) }
        return .read(after: self.position)
    }

    // MARK: Storage

    /// Records that the stored position was read. If it has another request than the current one, an operator has
    /// skipped the current one, or another relay posts to the webhook.
    mutating func didRestore(_ stored: WebhookPosition, now: QueueTime) {
        self.isRestored = true
        self.restoreAt = now.advanced(by: self.retry.poll)
        // Nothing has changed. A request that was acknowledged since must not be sent again.
        if stored == self.lastStored { return }
        self.lastStored = stored
        if let extent = stored.extent, extent.first == self.current?.first, self.failures > 0 { return }
        self.position = stored.position
        self.isPositionDirty = false
        self.pending = nil
        self.finishCurrent()
        self.current = stored.extent.map { extent in
            var extent = extent
            // The clock may have been set back since the request was made.
            extent.formed = min(extent.formed, now)
            return extent
        }
    }

    /// Records that the stored position cannot be used. Nothing is sent, and the position is not overwritten.
    mutating func cannotRestore(_ message: String) {
        self.fault = message
        self.lastError = message
        self.failures = max(1, self.failures)
    }

    /// Records that the stored position may have changed, so that it is read again.
    mutating func mayHaveChanged() { self.isRestored = false }

    /// Records that the write that `next` requested has completed.
    mutating func didStore() {
        guard let pending = self.pending else { return }
        self.pending = nil
        self.lastStored = pending
        self.storageWorks()
        self.current = pending.extent
        self.isPositionDirty = false
    }

    /// Records that the storage failed during the action that `next` returned. The action is tried again after a delay.
    mutating func storageFailed(_ error: QueueError, now: QueueTime) {
        self.lastError = error.message
        self.pausedUntil = now.advanced(by: self.retry.storageDelay)
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
            let extent = WebhookExtent(
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
            self.pending = WebhookPosition(position: self.position, extent: extent)
            return
        }
        if let end = page.end, end > self.position ?? .min {
            // The page has only outcomes for others. Storing its position would cost a commit for each such page.
            self.position = end
            let (skipped, overflow) = end.subtractingReportingOverflow(self.lastStored?.position ?? 0)
            if overflow || skipped >= 10_000 { self.isPositionDirty = true }
            return
        }
        self.idleUntil = now.advanced(by: self.retry.poll)
        if self.isPositionDirty { self.pending = WebhookPosition(position: self.position, extent: nil) }
    }

    // MARK: Requests

    /// Records that an attempt ended.
    ///
    /// - Parameters:
    ///   - result: how it ended.
    ///   - now: the time.
    ///   - random: the source of the random part of the delay before the next attempt.
    mutating func didSend(_ result: Result, now: QueueTime, using random: inout some RandomNumberGenerator) {
        self.isSending = false
        guard let current = self.current else { return }
        switch result {
        case .acknowledged, .nothingLeft:
            self.position = current.last
            self.isPositionDirty = true
            self.finishCurrent()
        case .storage(let error): self.storageFailed(error, now: now)
        case .failed(let error, let retryAfter):
            self.failures += 1
            self.lastError = error
            let delay = self.retry.delays.wait(after: self.failures, using: &random)
            self.nextAttempt = now.advanced(by: max(delay, min(retryAfter ?? .zero, self.retry.maxRetryAfter)))
        }
    }

    private mutating func finishCurrent() {
        self.current = nil
        self.failures = 0
        self.lastError = nil
        self.nextAttempt = nil
        self.idleUntil = nil
    }

    /// The status for operators.
    func status(url: String) -> WebhookStatus {
        WebhookStatus(
            name: self.name,
            url: url,
            position: self.position ?? 0,
            failures: self.failures,
            lastError: self.lastError,
            fault: self.fault,
            nextAttempt: self.isSending ? nil : self.pausedUntil ?? self.nextAttempt,
            request: self.current.map {
                .init(id: self.id(of: $0), outcomes: $0.count, since: $0.formed, oldestOutcome: $0.oldest)
            }
        )
    }
}
