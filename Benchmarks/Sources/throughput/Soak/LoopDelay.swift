import NIOCore
import NIOPosix
import Synchronization

/// Measures how late event loops run a timer: each loop has one that repeats.
final class LoopDelay: Sendable {
    private static let interval = TimeAmount.milliseconds(20)

    private let delays = Mutex(Latencies())

    init(_ group: any EventLoopGroup) {
        for loop in group.makeIterator() { wait(loop) }
    }

    /// The delays since the last call.
    func take() -> Latencies {
        delays.withLock { delays in
            defer { delays = Latencies() }
            return delays
        }
    }

    private func wait(_ loop: any EventLoop) {
        let due = NIODeadline.now() + Self.interval
        loop.scheduleTask(deadline: due) {
            let delay = NIODeadline.now() - due
            self.delays.withLock { $0.record(UInt64(max(0, delay.nanoseconds / 1000))) }
            self.wait(loop)
        }
    }
}
