import Logging
import SupervisedPool
import Synchronization

/// What a pool's events are worth in the log: a connection that fails again and again for the same reason is no news.
final class PoolLog: Sendable {
    private let logger: Logger
    private let clock: any MonotonicClock
    private let faults = Mutex(FaultLog<String>())

    init(_ logger: Logger, clock: any MonotonicClock) {
        self.logger = logger
        self.clock = clock
    }

    func see(_ event: PoolEvent) {
        switch event {
        case .reported(_, .ready):
            self.faults.withLock { $0.ended() }
            self.logger.log(event)
        case .reported(let id, .backingOff(_, let fault)):
            let text = fault.map { "\($0)" } ?? "unknown"
            let now = self.clock.now
            switch self.faults.withLock({ $0.seen(text, now: now) }) {
            case .first:
                self.logger.log(event)
            case .again(let time, let count):
                self.logger.notice(
                    "connections are still lost or refused, backing off",
                    metadata: ["fault": "\(text)", "since": "\(time.rounded)", "count": "\(count)"]
                )
            case nil:
                self.logger.debug(
                    "connection lost or refused again, backing off",
                    metadata: ["connection": "\(id)", "fault": "\(text)"]
                )
            }
        default:
            self.logger.log(event)
        }
    }
}

extension Duration {
    /// Whole seconds, for people.
    var rounded: Duration { .seconds(self.components.seconds) }
}
