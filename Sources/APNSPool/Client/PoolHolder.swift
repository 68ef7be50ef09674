import Logging
import SupervisedPool
import Synchronization

/// The pool of a tree as it now stands. There is one before the first run, so that work can wait in it; a restart of
/// its child makes a new one.
final class PoolHolder: Sendable {
    let configuration: PoolConfiguration
    private let clock: any MonotonicClock
    private let logger: Logger
    /// Nil: nobody watches it.
    let watch: PoolWatch?
    private let pool: Mutex<Pool<ConnectionActor>>
    private let isInitialPoolUsed = Atomic<Bool>(false)

    init(_ configuration: PoolConfiguration, clock: any MonotonicClock, logger: Logger, watch: PoolWatch? = nil) {
        self.configuration = configuration
        self.clock = clock
        self.logger = logger
        self.watch = watch
        self.pool = Mutex(Self.make(configuration, clock, logger, watch))
    }

    private static func make(
        _ configuration: PoolConfiguration,
        _ clock: any MonotonicClock,
        _ logger: Logger,
        _ watch: PoolWatch?
    ) -> Pool<ConnectionActor> {
        let log = PoolLog(logger, clock: clock)
        return Pool(configuration: configuration, clock: clock) { event in
            log.see(event)
            watch?.see(event)
        }
    }

    var current: Pool<ConnectionActor> { self.pool.withLock { $0 } }

    /// The pool for a (re)started child: the first one takes over the pool that work may already wait in.
    func forChild() -> Pool<ConnectionActor> {
        let isFirst = self.isInitialPoolUsed.compareExchange(
            expected: false,
            desired: true,
            ordering: .acquiringAndReleasing
        ).exchanged
        if isFirst { return self.current }
        let pool = Self.make(self.configuration, self.clock, self.logger, self.watch)
        self.pool.withLock { $0 = pool }
        return pool
    }
}
