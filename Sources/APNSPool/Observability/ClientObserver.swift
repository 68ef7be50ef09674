// This folder: health, log lines, metrics, spans and the diagnosis. It reads what the other folders count and say, and
// decides nothing about pushes, connections or credentials.

import SupervisedPool
import Synchronization

/// What a client knows about itself for those who watch it. Whoever changes something that the health follows from pokes
/// it, from any thread; a task of the client then looks.
final class ClientObserver: Sendable {
    let pokes: AsyncStream<Void>
    private let poking: AsyncStream<Void>.Continuation
    let changes = EventHub<APNSHealth>()
    let pushes = PushCounters()
    let reminder = HealthReminder()
    let recentFaults = RecentFaults()
    /// Connections that became ready.
    let connects = Atomic<Int>(0)
    /// Those of them that came in the place of an earlier one.
    let reconnects = Atomic<Int>(0)
    /// Connections lost, and connects that failed.
    let connectionLosses = Atomic<Int>(0)
    let queueTimes = TimeSamples()
    let connectTimes = TimeSamples()
    private let told = Mutex(APNSHealth.starting)
    private let isConnectedOnce = Atomic<Bool>(false)

    init() {
        (self.pokes, self.poking) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    func poke() { self.poking.yield() }

    /// A connection is ready.
    func connected() { self.isConnectedOnce.store(true, ordering: .relaxed) }

    var hasConnected: Bool { self.isConnectedOnce.load(ordering: .relaxed) }

    /// Tells the readers if it is another one than they know. By the client's task alone, so that they see the order.
    func tell(_ health: APNSHealth) {
        let isNew = self.told.withLock { told in
            defer { told = health }
            return told != health
        }
        if isNew { self.changes.post(health) }
    }

    func finish() {
        self.tell(.stopped)
        self.changes.finish()
    }
}
