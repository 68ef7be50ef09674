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
    }

    struct DrainRequest: Sendable {
        var within: Duration
    }

    private let state = Atomic<State>(.notStarted)
    private let inFlight = Atomic<Int>(0)
    private let drain = Mutex<DrainRequest?>(nil)
    /// Opens when the client has run at least once.
    let running = Gate()
    let drainRequested = Gate()
    /// Opens when, after the drain began, the last push has its outcome.
    let idle = Gate()
    let stopped = Gate()

    var current: State { self.state.load(ordering: .acquiring) }
    var pushesInFlight: Int { self.inFlight.load(ordering: .relaxed) }
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
            ordering: .acquiringAndReleasing
        ).exchanged
        if !wasRunning,
            self.state.compareExchange(
                expected: .notStarted,
                desired: .stopped,
                ordering: .acquiringAndReleasing
            ).exchanged
        {
            self.running.open()
            self.stopped.open()
        }
        self.drainRequested.open()
        if self.pushesInFlight == 0 { self.idle.open() }
    }

    func finish() {
        self.state.store(.stopped, ordering: .releasing)
        self.running.open()
        self.drainRequested.open()
        self.stopped.open()
    }

    /// A push (or bulk call) comes in. False: the client takes none any more.
    func enter() -> Bool {
        self.inFlight.wrappingAdd(1, ordering: .acquiringAndReleasing)
        switch self.current {
        case .notStarted, .running:
            return true
        case .draining, .stopped:
            self.leave()
            return false
        }
    }

    func leave() {
        let left = self.inFlight.wrappingSubtract(1, ordering: .acquiringAndReleasing).newValue
        if left == 0, self.current != .running, self.drainRequested.isOpen { self.idle.open() }
    }
}
