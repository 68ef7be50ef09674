import SupervisedPool
import Synchronization

/// Decides when the next broadcast to each channel may be sent: one after the other, one spacing apart. Pure.
///
/// Apple publishes no limit. Its engineers advise about one update per second for each channel; APNs responds to more
/// with 429 `TooManyRequests`.
struct BroadcastPaceMachine {
    struct Channel: Hashable {
        var bundleID: String
        var id: String
    }

    enum Reservation: Equatable {
        /// The broadcast may be sent at this instant, which may be now.
        case at(MonotonicInstant)
        /// The send time would be this instant, after the deadline. No send time was reserved.
        case tooLate(MonotonicInstant)
    }

    /// The last send time reserved for each channel.
    private var last: [Channel: MonotonicInstant] = [:]
    /// The longest spacing requested so far. Send times longer ago affect no decision.
    private var longest = Duration.zero
    /// Above this count, channels with old send times are forgotten.
    private var limit = BroadcastPaceMachine.smallest
    private static let smallest = 1024

    var count: Int { self.last.count }

    /// Reserves the channel's next send time, after all waiting broadcasts.
    ///
    /// - Parameter spacing: The minimum time since the previous send time. Zero: now, before all waiting broadcasts.
    mutating func take(
        _ channel: Channel,
        spacing: Duration,
        now: MonotonicInstant,
        deadline: MonotonicInstant
    ) -> Reservation {
        self.longest = max(self.longest, spacing)
        let before = spacing > .zero ? self.last[channel] : nil
        let sendTime = before.map { max(now, $0.advanced(by: spacing)) } ?? now
        // A broadcast whose send time equals its deadline could not be sent in time.
        guard sendTime == now || sendTime < deadline else { return .tooLate(sendTime) }
        self.forgetIdle(now)
        self.last[channel] = max(sendTime, self.last[channel] ?? sendTime)
        return .at(sendTime)
    }

    /// Releases a send time that was not used. Only the last one can be reserved again.
    mutating func cancel(_ channel: Channel, sendTime: MonotonicInstant, spacing: Duration) {
        guard self.last[channel] == sendTime else { return }
        self.last[channel] = sendTime.advanced(by: .zero - spacing)
    }

    private mutating func forgetIdle(_ now: MonotonicInstant) {
        guard self.last.count >= self.limit else { return }
        self.last = self.last.filter { $0.value.advanced(by: self.longest) > now }
        self.limit = max(Self.smallest, self.last.count * 2)
    }
}

/// Shares one `BroadcastPaceMachine` among all callers of a client.
final class BroadcastPacer: Sendable {
    private let machine = Mutex(BroadcastPaceMachine())

    func take(
        _ channel: BroadcastPaceMachine.Channel,
        spacing: Duration,
        now: MonotonicInstant,
        deadline: MonotonicInstant
    ) -> BroadcastPaceMachine.Reservation {
        self.machine.withLock { $0.take(channel, spacing: spacing, now: now, deadline: deadline) }
    }

    func cancel(_ channel: BroadcastPaceMachine.Channel, sendTime: MonotonicInstant, spacing: Duration) {
        self.machine.withLock { $0.cancel(channel, sendTime: sendTime, spacing: spacing) }
    }
}
