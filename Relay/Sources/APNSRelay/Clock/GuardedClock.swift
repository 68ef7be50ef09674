package import PushQueue
import Synchronization

/// A clock that lets nothing expire after an implausible jump ahead. ``ClockGuard`` decides what is plausible.
package final class GuardedClock: QueueClock {
    private let base: any QueueClock
    private let state: Mutex<ClockGuard>

    /// - Parameters:
    ///   - base: the machine's clock.
    ///   - longestJump: the longest plausible jump ahead.
    package init(_ base: any QueueClock = SystemQueueClock(), longestJump: Duration) {
        self.base = base
        self.state = Mutex(ClockGuard(longestJump: longestJump, now: base.now, lease: base.lease))
    }

    package var now: QueueTime { self.base.now }
    package var lease: QueueTime { self.base.lease }
    package var expiry: QueueTime { self.state.withLock { $0.expiry(now: self.base.now, lease: self.base.lease) } }

    /// How far the time of day is ahead of what is plausible; nil if it is plausible.
    var jump: Duration? { self.state.withLock { $0.jump(now: self.base.now, lease: self.base.lease) } }

    func confirm() { self.state.withLock { $0.confirm(now: self.base.now, lease: self.base.lease) } }

    // MARK: The time at which the queue was last in use

    private static let key = "clock"

    /// Compares the clock with the time that the queue stores.
    func resume(_ queue: any PushQueue) async throws(QueueError) {
        guard let stored = try await queue.value(forKey: Self.key),
            let number = Int64(String(decoding: stored, as: UTF8.self))
        else { return }
        let lastSeen = QueueTime(millisecondsSince1970: number)
        self.state.withLock { $0.resume(after: lastSeen, now: self.base.now, lease: self.base.lease) }
    }

    /// Stores the time in the queue if it is plausible.
    func store(in queue: any PushQueue) async throws(QueueError) {
        let now = self.now
        guard self.jump == nil else { return }
        try await queue.setValue(Array(String(now.millisecondsSince1970).utf8), forKey: Self.key)
    }
}
