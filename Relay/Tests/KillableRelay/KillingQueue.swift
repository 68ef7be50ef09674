import Foundation
import PushQueue
import PushQueueConformance
import Synchronization

/// Passes each call on to a queue, and kills or stops the process at one of them.
final class KillingQueue: WrappingPushQueue {
    let base: any PushQueue
    private let point: KillPoint
    private let calls = Mutex(0)

    private let stops: Bool

    /// - Parameter stops: whether to stop the process instead of killing it.
    init(_ base: any PushQueue, point: KillPoint, stops: Bool) {
        self.base = base
        self.point = point
        self.stops = stops
    }

    private func end() {
        if self.stops { FileHandle.standardError.write(Data("STOPPING\n".utf8)) }
        // To this thread, which then cannot go on, not even for a moment.
        raise(self.stops ? SIGSTOP : SIGKILL)
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
        if isHere, !self.point.isAfter { self.end() }
        let value = try await body()
        if isHere, self.point.isAfter { self.end() }
        return value
    }
}
