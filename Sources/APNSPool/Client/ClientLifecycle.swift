import SupervisedPool
import Synchronization

/// Whether a client takes pushes, and when it may end: one state machine under all three ways to own it.
///
/// ```
/// notStarted ──run──▶ running ──drain──▶ draining ──▶ stopped
///      └──────────────drain──────────────────────────────▲
/// ```
final class ClientLifecycle: Sendable {
    enum State: UInt8, AtomicRepresentable, Sendable {
        /// Nobody has called `run()` yet: pushes wait within their deadlines.
        case notStarted
        case running
        /// No new pushes; those that are there go on.
        case draining
        case stopped

        var takesPushes: Bool { self == .running || self == .notStarted }
    }

    struct DrainRequest: Sendable {
        var within: Duration
    }

    /// What comes in. Bulk calls are counted apart: nobody knows when their consumer asks for the next outcome.
    enum Work: Int {
        case push = 1
        case bulk = 0x1_0000_0000
    }

    private let state = Atomic<State>(.notStarted)
    /// Advanced when nothing is sent any more.
    private let version: SendRouteVersion
    /// Pushes in the lower half, bulk calls in the upper: whether any is left is one look at one number.
    private let inFlight = Atomic<Int>(0)
    private let drain = Mutex<DrainRequest?>(nil)
    /// Opens when the run begins, or when the client ends without one.
    let running = Latch()
    /// Opens when the pool has been started once, or the client has ended.
    let serving = Latch()
    let drainRequested = Latch()
    /// Opens when, after the drain began, the last push has its outcome.
    let idle = Latch()
    /// Opens when the tree is gone for good: nobody need wait for anything any longer.
    let ended = Latch()
    /// Opens when, after `ended`, the last push (bulk calls aside) has its outcome.
    let quiet = Latch()
    let stopped = Latch()
    /// Bulk calls, which the beginning of the drain and the end of the tree must reach wherever they wait.
    let listeners = Listeners()

    init(version: SendRouteVersion = SendRouteVersion()) {
        self.version = version
    }

    // `enter` counts, then looks at the state; who ends the client sets the state, then looks at the count. That one of
    // them sees the other takes sequential consistency.
    var current: State { self.state.load(ordering: .sequentiallyConsistent) }
    private var count: Int { self.inFlight.load(ordering: .sequentiallyConsistent) }
    var pushesInFlight: Int { Self.pushes(self.count) + self.count / Work.bulk.rawValue }
    private static func pushes(_ count: Int) -> Int { count % Work.bulk.rawValue }
    var drainTime: Duration? { self.drain.withLock { $0?.within } }

    /// Whether the caller may run the client; only one may, once.
    func beginRun() -> Bool {
        let done = self.state.compareExchange(
            expected: .notStarted,
            desired: .running,
            ordering: .acquiringAndReleasing
        ).exchanged
        if done { self.running.open() }
        return done
    }

    /// Closes the intake. The first caller's time counts.
    func beginDrain(within time: Duration) {
        self.drain.withLock { $0 = $0 ?? DrainRequest(within: time) }
        let wasRunning = self.state.compareExchange(
            expected: .running,
            desired: .draining,
            ordering: .sequentiallyConsistent
        ).exchanged
        if !wasRunning,
            self.state.compareExchange(
                expected: .notStarted,
                desired: .stopped,
                ordering: .sequentiallyConsistent
            ).exchanged
        {
            self.end()
            self.stopped.open()
        }
        self.drainRequested.open()
        self.listeners.signal()
        if self.count == 0 { self.idle.open() }
    }

    /// The tree is gone for good.
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

    /// `run()` returns.
    func finish() {
        self.stopped.open()
    }

    /// A push (or bulk call) comes in. False: the client takes none any more.
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
        let left = self.inFlight.wrappingSubtract(work.rawValue, ordering: .sequentiallyConsistent).newValue
        guard Self.pushes(left) == 0 else { return }
        let state = self.current
        if state == .stopped { self.quiet.open() }
        if left == 0, state != .running, self.drainRequested.isOpen { self.idle.open() }
    }
}
