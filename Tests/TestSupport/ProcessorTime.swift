#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// The time for which the processor has worked for the current thread. Unlike the time of a clock, it does not go on while
/// other processes use the processor, or while this process is stopped.
public enum ProcessorTime {
    private static var now: Duration {
        var time = timespec()
        _ = clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return .seconds(Int64(time.tv_sec)) + .nanoseconds(Int64(time.tv_nsec))
    }

    /// The processor time of a body that stays on one thread.
    public static func measure(_ body: () -> Void) -> Duration {
        let start = self.now
        body()
        return self.now - start
    }
}
