import Histogram

#if canImport(Darwin)
    import Darwin
#elseif canImport(Musl)
    import Musl
#else
    import Glibc
#endif

enum MonotonicTime {
    /// Read twice a push: one call into the vDSO, no system call.
    @inline(__always)
    static func microseconds() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return UInt64(time.tv_sec) &* 1_000_000 &+ UInt64(time.tv_nsec) / 1000
    }
}

/// What this process has used so far; child processes are not counted.
struct ProcessUsage {
    /// User and system time together.
    var cpuMicroseconds: Double
    /// The greatest resident set so far.
    var peakRSSBytes: Int

    static func now() -> ProcessUsage {
        var usage = rusage()
        #if canImport(Glibc)
            // An enumeration that C's `getrusage` takes as a number.
            getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
        #else
            getrusage(RUSAGE_SELF, &usage)
        #endif
        func microseconds(_ time: timeval) -> Double { Double(time.tv_sec) * 1e6 + Double(time.tv_usec) }
        #if canImport(Darwin)
            let unit = 1
        #else
            // Linux counts kilobytes.
            let unit = 1024
        #endif
        return ProcessUsage(
            cpuMicroseconds: microseconds(usage.ru_utime) + microseconds(usage.ru_stime),
            peakRSSBytes: Int(usage.ru_maxrss) * unit
        )
    }
}

/// The latencies of a run in microseconds, exact to three digits up to an hour.
struct Latencies: Sendable {
    private var histogram = Histogram<UInt32>(highestTrackableValue: 3_600_000_000)

    @inline(__always)
    mutating func record(_ microseconds: UInt64) {
        histogram.record(microseconds)
    }

    func milliseconds(percentile: Double) -> Double {
        Double(histogram.valueAtPercentile(percentile)) / 1000
    }

    var maximum: Double { Double(histogram.maxRecorded) / 1000 }
    var isEmpty: Bool { histogram.totalCount == 0 }
}

/// What became of the pushes of a run.
struct Tally: Sendable {
    var accepted = 0
    var failed = 0
    var latencies = Latencies()
    /// A few different reasons, to be shown on standard error.
    var failures: Set<String> = []

    mutating func note(_ failure: @autoclosure () -> String) {
        failed += 1
        if failures.count < 5 { failures.insert(failure()) }
    }
}
