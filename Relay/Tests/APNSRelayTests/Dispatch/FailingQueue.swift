import PushQueue
import PushQueueConformance
import Synchronization

/// A queue whose disk can be full: then the calls that store something throw `unavailable`.
final class FailingQueue: WrappingPushQueue {
    let base: any PushQueue
    let disk: FailingDisk

    init(_ base: any PushQueue, _ disk: FailingDisk) {
        self.base = base
        self.disk = disk
    }

    func call<Value: Sendable>(
        _ name: String,
        _ body: () async throws(QueueError) -> Value
    ) async throws(QueueError) -> Value {
        try self.disk.check(name)
        return try await body()
    }
}

/// A disk that a test fills for some calls.
final class FailingDisk: Sendable {
    private let full = Mutex<Set<String>>([])
    private let failed = Mutex(0)

    /// The number of calls that have failed.
    var failures: Int { self.failed.withLock { $0 } }

    func fill(for calls: Set<String>) { self.full.withLock { $0 = calls } }

    func clear() { self.full.withLock { $0 = [] } }

    func check(_ call: String) throws(QueueError) {
        guard self.full.withLock({ $0.contains(call) }) else { return }
        self.failed.withLock { $0 += 1 }
        throw QueueError(code: .unavailable, message: "the disk is full")
    }
}
