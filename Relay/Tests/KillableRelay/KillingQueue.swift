import Foundation
import PushQueue
import PushQueueConformance
import Synchronization

/// Passes each call on to a queue, and kills the process at one of them.
final class KillingQueue: WrappingPushQueue {
    let base: any PushQueue
    private let point: KillPoint
    private let calls = Mutex(0)

    init(_ base: any PushQueue, point: KillPoint) {
        self.base = base
        self.point = point
    }

    func call<Value: Sendable>(
        _ name: String,
        _ body: () async throws(QueueError) -> Value
    ) async throws(QueueError) -> Value {
        guard name == self.point.call else { return try await body() }
        let isHere = self.calls.withLock { calls in
            calls += 1
            return calls == self.point.count
        }
        if isHere, !self.point.isAfter { kill(getpid(), SIGKILL) }
        let value = try await body()
        if isHere { kill(getpid(), SIGKILL) }
        return value
    }
}
