import NIOPosix

/// The threads on which files are checked, read and locked.
///
/// Each of these operations may block, for minutes on a network file system. They must not block the few threads that
/// run tasks.
enum FileThreads {
    /// Returns the result of `body`. Waits for it even if the task is cancelled.
    static func run<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async -> Value {
        await withCheckedContinuation { continuation in
            NIOThreadPool.singleton.submit { _ in continuation.resume(returning: body()) }
        }
    }

    /// Returns the result of `body`, or nil without further waiting if the task is cancelled first.
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
