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

    /// Blocks the thread. Wakes up to 0.06 ms late, which is how Linux groups its timers.
    static func sleep(until due: UInt64) {
        while true {
            let now = microseconds()
            guard due > now else { return }
            var time = timespec(tv_sec: Int((due - now) / 1_000_000), tv_nsec: Int((due - now) % 1_000_000) * 1000)
            nanosleep(&time, nil)
        }
    }
}

/// What this process has used so far; child processes are not counted.
struct ProcessUsage {
    /// User and system time together.
    var cpuMicroseconds: Double
    /// The greatest resident set so far: exact, not sampled.
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

#if os(Linux)
    extension ProcessUsage {
        /// The resident set now, as the kernel has it (`VmRSS`); 0 if it cannot be read.
        static func residentBytes() -> Int {
            let file = open("/proc/self/statm", O_RDONLY)
            guard file >= 0 else { return 0 }
            defer { close(file) }
            var bytes = [UInt8](repeating: 0, count: 128)
            let count = read(file, &bytes, bytes.count)
            // The second number: pages.
            let fields = bytes.prefix(max(0, count)).split(separator: UInt8(ascii: " "))
            guard fields.count > 1, let pages = Int(String(decoding: fields[1], as: UTF8.self)) else { return 0 }
            return pages * Int(sysconf(CInt(_SC_PAGESIZE)))
        }
    }
#else
    extension ProcessUsage {
        /// What it was at most: elsewhere there is no `/proc`.
        static func residentBytes() -> Int { now().peakRSSBytes }
    }
#endif

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
