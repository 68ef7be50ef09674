import APNSPool

#if os(Linux)
    import CMalloc
#endif

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// The state of the process at rest: the load has stopped, and each push has its outcome.
struct SoakRow: Sendable {
    /// Seconds since the beginning.
    var seconds: Double
    var pushes: Int
    /// The resident set.
    var residentBytes: Int
    /// Bytes that the program has allocated and not freed. Each Swift task holds at least one allocation.
    var heapBytes: Int
    var descriptors: Int
    var connections: Int
    var threads: Int
    var leases: Int
    var waiting: Int
    /// Pushes and bulk calls without an outcome.
    var inFlight: Int
    /// How late the event loops ran their timers since the row before, in milliseconds.
    var loopDelayP99: Double
    var loopDelayMaximum: Double

    /// Descriptors other than those of connections.
    var otherDescriptors: Int { descriptors - connections }

    init(seconds: Double, pushes: Int, status: APNSClientStatus, loopDelays: Latencies) {
        self.seconds = seconds
        self.pushes = pushes
        Heap.trim()
        residentBytes = ProcessUsage.residentBytes()
        heapBytes = Heap.usedBytes()
        descriptors = Self.entries(in: "/proc/self/fd")
        threads = Self.entries(in: "/proc/self/task")
        connections = status.pool.workers.count { $0.capacity > 0 }
        leases = status.pool.leased
        waiting = status.pool.queueDepth
        inFlight = status.pushesInFlight
        loopDelayP99 = loopDelays.isEmpty ? 0 : loopDelays.milliseconds(percentile: 99)
        loopDelayMaximum = loopDelays.isEmpty ? 0 : loopDelays.maximum
    }

    private static func entries(in folder: String) -> Int {
        (try? FileManager.default.contentsOfDirectory(atPath: folder).count) ?? 0
    }

    static let header = """
        | minutes | pushes | RSS MiB | heap MiB | descriptors | of connections | threads | leases | waiting | in flight \
        | loop delay p99 ms | max ms |
        |---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|
        """

    var text: String {
        let fields = [
            decimal(seconds / 60, places: 1), "\(pushes)", decimal(Double(residentBytes) / 1_048_576, places: 1),
            decimal(Double(heapBytes) / 1_048_576, places: 2), "\(descriptors)", "\(connections)", "\(threads)",
            "\(leases)", "\(waiting)", "\(inFlight)", decimal(loopDelayP99, places: 2),
            decimal(loopDelayMaximum, places: 1),
        ]
        return "| " + fields.joined(separator: " | ") + " |"
    }
}

/// The counters of glibc's allocator; 0 elsewhere.
enum Heap {
    /// Makes all threads allocate in one arena, because `mallinfo2` counts the main arena only.
    static func useOneArena() {
        #if os(Linux)
            mallopt(M_ARENA_MAX, 1)
        #endif
    }

    /// Returns free pages to the system, so that the resident set shows memory in use.
    static func trim() {
        #if os(Linux)
            malloc_trim(0)
        #endif
    }

    static func usedBytes() -> Int {
        #if os(Linux)
            let info = mallinfo2()
            return Int(info.uordblks) + Int(info.hblkhd)
        #else
            return 0
        #endif
    }
}
