package import PushQueue
import Synchronization

/// The clock of the journal's storage, as far as a process can know it. All processes that share a queue agree on it,
/// however wrong their own clocks are.
///
/// The clock is slow by the time between the storing and the receiving of an entry. To keep the error small, it uses
/// the fastest entry of the last one to two minutes. Before the first entry, it is the clock of this machine.
package final class JournalClock: QueueClock {
    /// The time of the storage minus that of this machine.
    private struct State {
        var previous: Duration?
        var current: Duration?
        var currentSince: QueueTime

        var offset: Duration {
            switch (self.previous, self.current) {
            case (let previous?, let current?): max(previous, current)
            case (let one, let other): one ?? other ?? .zero
            }
        }
    }

    private static let window = Duration.seconds(60)

    private let system: any QueueClock
    private let state: Mutex<State>

    package init(system: any QueueClock = SystemQueueClock()) {
        self.system = system
        self.state = Mutex(State(currentSince: system.lease))
    }

    package var now: QueueTime { self.system.lease.advanced(by: self.offset) }
    package var lease: QueueTime { self.now }

    /// The time; nil before the first entry.
    var knownNow: QueueTime? {
        let isKnown = self.state.withLock { $0.current != nil || $0.previous != nil }
        return isKnown ? self.now : nil
    }

    /// How far the clock of the storage is ahead of this machine's.
    private var offset: Duration { self.state.withLock { $0.offset } }

    /// How far the clock of the storage is ahead of this machine's time of day.
    package var offsetOfDay: Duration { self.system.now.duration(to: self.now) }

    func observe(_ entry: JournalEntry) {
        let local = self.system.lease.advanced(by: .zero - entry.received.duration(to: .now))
        let offset = local.duration(to: entry.time)
        self.state.withLock { state in
            if state.currentSince.advanced(by: Self.window) <= local {
                state.previous = state.current
                state.current = nil
                state.currentSince = local
            }
            state.current = state.current.map { max($0, offset) } ?? offset
        }
    }
}
