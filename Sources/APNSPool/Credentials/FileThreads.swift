import NIOPosix
import Synchronization

/// Where files are looked at, read and locked. Each of these may block, for minutes on a network file system, and must not
/// keep one of the few threads that run tasks.
enum FileThreads {
    /// What `body` returns. Waits for it whatever becomes of the task.
    static func run<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async -> Value {
        await withCheckedContinuation { continuation in
            NIOThreadPool.singleton.submit { _ in continuation.resume(returning: body()) }
        }
    }

    /// What `body` returns, or nil for a task that is cancelled first. That one does not wait.
    static func runUnlessCancelled<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async -> Value? {
        let (values, value) = AsyncStream<Value>.makeStream()
        NIOThreadPool.singleton.submit { _ in
            value.yield(body())
            value.finish()
        }
        for await value in values { return value }
        return nil
    }
}
