import APNSModel
import SupervisedPool
import Synchronization

/// Orders all pushes of a client that have a ``SupersedeKey``.
final class SupersedeQueue: Sendable {
    struct Key: Hashable, Sendable {
        var deviceToken: DeviceToken
        var topic: String
        var key: SupersedeKey
    }

    /// The timestamp that was filled in for a push, and a function that prepares the push again with another one.
    struct Dated: Sendable {
        var timestamp: Int64
        var prepared: @Sendable (Int64) throws(ValidationError) -> PreparedPush
    }

    private struct State {
        var machine = SupersedeMachine<Key>()
        /// The pushes that wait for their turns.
        var waiters: [UInt64: SupersedeEntry] = [:]
    }

    private let state = Mutex(State())

    /// The number of pushes that wait for their turns.
    var waiterCount: Int { self.state.withLock { $0.waiters.count } }

    /// The number of keys with a push that has no outcome yet.
    var keyCount: Int { self.state.withLock { $0.machine.keyCount } }

    /// The number of pushes with a key so far.
    var arrivalCount: UInt64 { self.state.withLock { $0.machine.arrivalCount } }

    /// Adds a push to the queue of its key.
    ///
    /// - Returns: the push's entry, and the timestamp to fill in; nil if none was requested.
    func arrive(_ key: Key, isFinal: Bool, timestamp: Int64?) -> (entry: SupersedeEntry, timestamp: Int64?) {
        let (entry, stamp, replaced) = self.state.withLock { state in
            let arrival = state.machine.arrive(key, isFinal: isFinal, timestamp: timestamp)
            let entry = SupersedeEntry(queue: self, key: key, ticket: arrival.ticket)
            if arrival.hasTurn {
                entry.latch.open()
            } else {
                state.waiters[arrival.ticket] = entry
            }
            return (entry, arrival.timestamp, arrival.superseded.flatMap { state.waiters.removeValue(forKey: $0) })
        }
        replaced?.latch.open()
        return (entry, stamp)
    }

    fileprivate func claim(_ entry: SupersedeEntry) -> SupersedeMachine<Key>.Standing {
        self.state.withLock { state in
            state.waiters[entry.ticket] = nil
            return state.machine.claim(entry.key, entry.ticket)
        }
    }

    fileprivate func beginWrite(_ entry: SupersedeEntry) -> Bool {
        self.state.withLock { $0.machine.beginWrite(entry.key, entry.ticket) }
    }

    fileprivate func end(_ entry: SupersedeEntry) {
        let next = self.state.withLock { state -> SupersedeEntry? in
            guard let successor = state.machine.end(entry.key, entry.ticket) else { return nil }
            // A push whose wait has ended, but that has not called `claim` yet, is still in `waiters`. Its `claim` then
            // finds that it has the turn.
            let next = state.waiters.removeValue(forKey: successor.ticket)
            if successor.isHeir { next?.inherit() }
            return next
        }
        next?.latch.open()
    }
}

/// The entry of one push in the queue.
final class SupersedeEntry: Sendable {
    private let queue: SupersedeQueue
    fileprivate let key: SupersedeQueue.Key
    fileprivate let ticket: UInt64
    /// Opens when the wait is over.
    fileprivate let latch = Latch()
    private let hasInherited = Atomic<Bool>(false)

    fileprivate init(queue: SupersedeQueue, key: SupersedeQueue.Key, ticket: UInt64) {
        self.queue = queue
        self.key = key
        self.ticket = ticket
    }

    fileprivate func inherit() { self.hasInherited.store(true, ordering: .releasing) }

    /// Whether the push may go to the front of the pool's queue, because it inherits the place of a superseded push.
    var isHeir: Bool { self.hasInherited.load(ordering: .acquiring) }

    /// Waits for the turn, until the deadline or the task's cancellation.
    func wait(until deadline: MonotonicInstant, clock: any MonotonicClock) async
        -> SupersedeMachine<SupersedeQueue.Key>.Standing
    {
        _ = await self.latch.wait(until: deadline, clock: clock)
        return self.queue.claim(self)
    }

    /// Records that the push is about to be written. Returns false if a newer push superseded it: do not write it.
    func beginWrite() -> Bool { self.queue.beginWrite(self) }

    /// Ends the turn after the push has its outcome. Has no effect if the push never had the turn.
    func end() { self.queue.end(self) }

    /// Removes the push from the queue, whether it waits or has the turn.
    func leave() {
        if self.queue.claim(self) == .hasTurn { self.end() }
    }

    static let message = "a newer push with the same key replaced it"
}

extension SupersedeQueue {
    /// Adds a push to the queue of its key. Returns immediately; `SupersedeEntry.wait` waits for the turn.
    ///
    /// - Throws: the error from preparing the push with another timestamp.
    func arrive(
        _ push: PreparedPush,
        to token: DeviceToken,
        key: SupersedeKey,
        dated: Dated?
    ) throws(ValidationError) -> (entry: SupersedeEntry, push: PreparedPush) {
        let (entry, timestamp) = self.arrive(
            Key(deviceToken: token, topic: push.topic, key: key),
            isFinal: push.endsActivity,
            timestamp: dated?.timestamp
        )
        guard let dated, let timestamp, timestamp != dated.timestamp else { return (entry, push) }
        do {
            return (entry, try dated.prepared(timestamp))
        } catch {
            entry.leave()
            throw error
        }
    }
}
