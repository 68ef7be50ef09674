import NIOCore
import Synchronization

@testable import APNSTransport

/// A clock that stands still until the test sets it, and whose timers never fire.
final class StalledClock: LoopClock {
    let time = Mutex(NIODeadline.uptimeNanoseconds(1_000_000_000))

    func now(on loop: any EventLoop) -> NIODeadline { self.time.withLock { $0 } }

    func schedule(at deadline: NIODeadline, on loop: any EventLoop, _ body: @escaping () -> Void) -> LoopTimer {
        LoopTimer {}
    }
}
