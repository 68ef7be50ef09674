import Logging
import SupervisedPool
import Synchronization

/// The current pool of a supervision tree. A pool exists before the first run, so that work can wait in it. When its
/// child restarts, a new pool replaces it.
final class CurrentPool: Sendable {
    private struct State {
        var configuration: PoolConfiguration
        var pool: Pool<ConnectionActor>
    }

    private let clock: any MonotonicClock
    private let logger: Logger
    let monitor: PoolMonitor
    private let state: Mutex<State>
    private let version: SendRouteVersion
    private let isInitialPoolUsed = Atomic<Bool>(false)

    /// - Parameter version: advanced when a new pool replaces the current one.
    init(
        _ configuration: PoolConfiguration,
        clock: any MonotonicClock,
        logger: Logger,
        client: ClientMonitor? = nil,
        version: SendRouteVersion = SendRouteVersion()
    ) {
        self.clock = clock
        self.logger = logger
        self.monitor = PoolMonitor(logger, clock: clock, client: client)
        self.version = version
        self.state = Mutex(State(configuration: configuration, pool: Self.make(configuration, clock, self.monitor)))
    }

    private static func make(
        _ configuration: PoolConfiguration,
        _ clock: any MonotonicClock,
        _ monitor: PoolMonitor
    ) -> Pool<ConnectionActor> {
        Pool(configuration: configuration, clock: clock) { monitor.report($0) }
    }

    var current: Pool<ConnectionActor> { self.state.withLock { $0.pool } }

    /// Returns the pool for a started or restarted child. The first child uses the initial pool, in which work may
    /// already wait.
    func forChild() -> Pool<ConnectionActor> {
        let isFirst = self.isInitialPoolUsed.compareExchange(
            expected: false,
            desired: true,
            ordering: .acquiringAndReleasing
        ).exchanged
        if isFirst { return self.current }
        defer { self.version.advance() }
        return self.state.withLock { state in
            state.pool = Self.make(state.configuration, self.clock, self.monitor)
            return state.pool
        }
    }

    /// Reconfigures the current pool and all later ones. The client has validated the settings.
    func reconfigure(_ configuration: PoolConfiguration) {
        self.state.withLock { state in
            do throws(PoolConfigurationError) {
                try state.pool.reconfigure(configuration)
                state.configuration = configuration
            } catch {
                self.logger.error("the pool rejected its settings", metadata: ["error": "\(error)"])
            }
        }
    }
}
