import APNSBasics
import NIOPosix

/// The threads on which files are checked, read and locked.
///
/// Each of these operations may block, for minutes on a network file system. They must not block the few threads that
/// run tasks.
enum FileThreads {
    /// Returns the result of `body`. Waits for it even if the task is cancelled.
    static func run<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async -> Value {
        let result = OneShot<Value>()
        NIOThreadPool.singleton.submit { _ in result.give(body()) }
        return await result.wait()
    }

    /// Returns the result of `body`, or nil without further waiting if the task is cancelled first.
    static func runUnlessCancelled<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async -> Value? {
        let result = OneShot<Value?>()
        NIOThreadPool.singleton.submit { _ in result.give(body()) }
        return await result.wait(orCancelled: nil)
    }
}
