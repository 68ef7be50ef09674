import SupervisedPool
import Synchronization

/// The lifecycle of a client: whether it accepts pushes, and when it can stop. All three ways to run a client use this
/// state machine.
///
/// ```
/// notStarted ──run──▶ running ──drain──▶ draining ──▶ stopped
///      └──────────────drain──────────────────────────────▲
/// ```
///
/// Not shown: a run that is cancelled or fails goes from `running` to `stopped`.
final class ClientLifecycle: Sendable {
    enum State: UInt8, AtomicRepresentable, Sendable {
        /// `run()` has not been called yet. Pushes wait until their deadlines.
        case notStarted
        case running
        /// Accepts no new pushes. Pushes already in the client continue.
        case draining
        case stopped

        var takesPushes: Bool { self == .running || self == .notStarted }
    }

    struct DrainRequest: Sendable {
        var within: Duration
    }

    /// The kinds of work that are counted. Bulk calls are counted separately, because it is unknown when their consumer
    /// asks for the next outcome.
    enum Work: Int {
        case push = 1
        case bulk = 0x1_0000_0000
    }

    private let state = Atomic<State>(.notStarted)
    /// Advanced when the client stops sending.
    private let version: SendRouteVersion
    /// The number of pushes in the lower half and of bulk calls in the upper half, so that one read shows whether any
    /// work is left.
    private let inFlight = Atomic<Int>(0)
    private let drain = Mutex<DrainRequest?>(nil)
    /// Opens when the run begins, or when the client ends without ever running.
    let running = Latch()
    /// Opens when a pool starts for the first time, when there is no credential to start one for, or when the client
    /// has ended.
    let serving = Latch()
    let drainRequested = Latch()
    /// Opens after a drain has begun, when the last push has its outcome and the last bulk call has ended.
    let idle = Latch()
    /// Opens when the supervision tree has ended for good. Waiting for connections is pointless from then on.
    let ended = Latch()
    /// Opens after `ended`, when the last push has its outcome. Bulk calls do not count.
    let quiet = Latch()
    /// Opens last: when `run()` has nothing left to wait for, or when a client that never ran is shut down. The state
    /// is `stopped` earlier, from `ended` on.
    let stopped = Latch()
    /// Wakes waiting bulk calls when the drain begins or the tree ends.
    let listeners = Listeners()

    init(version: SendRouteVersion = SendRouteVersion()) {
        self.version = version
    }

    // `enter` increments the count and then reads the state; `beginDrain` and `end` set the state and then read the
    // count. Sequential consistency guarantees that at least one side sees the other's change.
    var current: State { self.state.load(ordering: .sequentiallyConsistent) }
    private var count: Int { self.inFlight.load(ordering: .sequentiallyConsistent) }
    /// The number of pushes and bulk calls that have no outcome yet. A bulk call counts as one.
    var pushesInFlight: Int { self.singlePushesInFlight + self.callsInFlight }
    /// The number of single pushes that have no outcome yet.
    var singlePushesInFlight: Int { Self.pushes(self.count) }
    /// The number of bulk calls, and of other calls of a group, that have not ended.
    var callsInFlight: Int { self.count / Work.bulk.rawValue }
    private static func pushes(_ count: Int) -> Int { count % Work.bulk.rawValue }
    var drainTime: Duration? { self.drain.withLock { $0?.within } }

    /// Starts the run. Returns true once; a client can be run only once.
    func beginRun() -> Bool {
        guard self.change(.notStarted, to: .running) else { return false }
        self.running.open()
        return true
    }

    /// Returns whether the state was the expected one.
    private func change(_ expected: State, to next: State) -> Bool {
        self.state.compareExchange(expected: expected, desired: next, ordering: .sequentiallyConsistent).exchanged
    }

    /// Stops accepting work. The time limit of the first call applies.
    func beginDrain(within time: Duration) {
        self.drain.withLock { $0 = $0 ?? DrainRequest(within: time) }
        // Again if the run begins at the same moment.
        while !self.change(.running, to: .draining) {
            if self.change(.notStarted, to: .stopped) {
                self.end()
                self.stopped.open()
            }
            if !self.current.takesPushes { break }
        }
        self.drainRequested.open()
        self.listeners.signal()
        if self.count == 0 { self.idle.open() }
    }

    /// Records that the supervision tree has ended for good.
    func end() {
        self.state.store(.stopped, ordering: .sequentiallyConsistent)
        self.version.advance()
        self.running.open()
        self.serving.open()
        self.drainRequested.open()
        self.ended.open()
        self.listeners.signal()
        if Self.pushes(self.count) == 0 { self.quiet.open() }
        if self.count == 0 { self.idle.open() }
    }

    /// Called last by `run()`.
    func finish() {
        self.stopped.open()
    }

    /// Counts a push or bulk call in. Returns false if the client does not accept work any more.
    func enter(_ work: Work = .push) -> Bool {
        self.inFlight.wrappingAdd(work.rawValue, ordering: .sequentiallyConsistent)
        switch self.current {
        case .notStarted, .running:
            return true
        case .draining, .stopped:
            self.leave(work)
            return false
        }
    }

    func leave(_ work: Work = .push) {
        self.afterLeaving(self.countOut(work))
    }

    /// The first step of `leave`.
    ///
    /// - Returns: the work that is left.
    func countOut(_ work: Work) -> Int {
        self.inFlight.wrappingSubtract(work.rawValue, ordering: .sequentiallyConsistent).newValue
    }

    /// The second step of `leave`.
    func afterLeaving(_ left: Int) {
        guard Self.pushes(left) == 0 else { return }
        let state = self.current
        guard !state.takesPushes else { return }
        // Counted again: between the two steps, another push may have entered, before the state changed.
        let count = self.count
        if state == .stopped, Self.pushes(count) == 0 { self.quiet.open() }
        if count == 0, self.drainRequested.isOpen { self.idle.open() }
    }
}
