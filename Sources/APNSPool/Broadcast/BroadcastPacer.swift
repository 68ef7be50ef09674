import SupervisedPool
import Synchronization

/// When the next broadcast to each channel may go: one after the other, a spacing apart. Pure.
///
/// Apple publishes no limit; about one update a second for each channel is its engineers' advice, and more is answered
/// 429 `TooManyRequests`.
struct BroadcastPaceMachine {
    struct Channel: Hashable {
        var bundleID: String
        var id: String
    }

    enum Answer: Equatable {
        /// Its turn is at this instant, which may be now.
        case at(MonotonicInstant)
        /// Its turn would come at this instant, after its deadline. It got none.
        case tooLate(MonotonicInstant)
    }

    /// The last turn that was given.
    private var last: [Channel: MonotonicInstant] = [:]
    /// The longest spacing that was asked for: what is older decides nothing any more.
    private var longest = Duration.zero
    /// Above so many, channels whose turns are long over are forgotten.
    private var limit = BroadcastPaceMachine.smallest
    private static let smallest = 1024

    var count: Int { self.last.count }

    /// Gives a turn of the channel away, behind all others that wait.
    ///
    /// - Parameter spacing: the least time since the turn before it. Zero: at once, whoever waits.
    mutating func take(
        _ channel: Channel,
        spacing: Duration,
        now: MonotonicInstant,
        deadline: MonotonicInstant
    ) -> Answer {
        self.longest = max(self.longest, spacing)
        let before = spacing > .zero ? self.last[channel] : nil
        let sendTime = before.map { max(now, $0.advanced(by: spacing)) } ?? now
        // At the deadline itself nothing could be sent any more.
        guard sendTime == now || sendTime < deadline else { return .tooLate(sendTime) }
        self.forgetIdle(now)
        self.last[channel] = max(sendTime, self.last[channel] ?? sendTime)
        return .at(sendTime)
    }

    /// The one whose turn it was has gone before it came. Only the last turn can be given anew.
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

/// The same for all callers of a client.
final class BroadcastPacer: Sendable {
    private let machine = Mutex(BroadcastPaceMachine())

    func take(
        _ channel: BroadcastPaceMachine.Channel,
        spacing: Duration,
        now: MonotonicInstant,
        deadline: MonotonicInstant
    ) -> BroadcastPaceMachine.Answer {
        self.machine.withLock { $0.take(channel, spacing: spacing, now: now, deadline: deadline) }
    }

    func cancel(_ channel: BroadcastPaceMachine.Channel, sendTime: MonotonicInstant, spacing: Duration) {
        self.machine.withLock { $0.cancel(channel, sendTime: sendTime, spacing: spacing) }
    }
}
