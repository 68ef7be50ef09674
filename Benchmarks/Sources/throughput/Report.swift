/// The figures of one run. The names of the JSON keys are fixed: scripts read them.
struct Report {
    var mode: Mode
    var pushes: Int
    var tally: Tally
    var seconds: Double
    var cpuMicroseconds: Double
    var peakRSSBytes: Int

    private var pushesPerSecond: Double { seconds > 0 ? Double(pushes) / seconds : 0 }
    private var cpuPerPush: Double { pushes > 0 ? cpuMicroseconds / Double(pushes) : 0 }

    private var percentiles: [(name: String, milliseconds: Double)] {
        [
            ("p50", tally.latencies.milliseconds(percentile: 50)),
            ("p90", tally.latencies.milliseconds(percentile: 90)),
            ("p99", tally.latencies.milliseconds(percentile: 99)),
            ("p999", tally.latencies.milliseconds(percentile: 99.9)),
            ("max", tally.latencies.maximum),
        ]
    }

    var json: String {
        let latency = percentiles.map { "\"\($0.name)\":\(decimal($0.milliseconds, places: 3))" }
            .joined(separator: ",")
        let fields = [
            "\"mode\":\"\(mode.rawValue)\"",
            "\"pushes\":\(pushes)",
            "\"accepted\":\(tally.accepted)",
            "\"failed\":\(tally.failed)",
            "\"seconds\":\(decimal(seconds, places: 6))",
            "\"pushesPerSecond\":\(decimal(pushesPerSecond, places: 1))",
            "\"cpuMicrosecondsPerPush\":\(decimal(cpuPerPush, places: 3))",
            "\"latencyMilliseconds\":{\(latency)}",
            "\"peakRSSBytes\":\(peakRSSBytes)",
        ]
        return "{" + fields.joined(separator: ",") + "}"
    }

    var text: String {
        let latency = percentiles.map { "\($0.name) \(decimal($0.milliseconds, places: 2))" }.joined(separator: "  ")
        return """
            mode        \(mode.rawValue)
            pushes      \(pushes), accepted \(tally.accepted), failed \(tally.failed)
            time        \(decimal(seconds, places: 2)) s, \(decimal(pushesPerSecond, places: 0)) pushes/s
            CPU         \(decimal(cpuPerPush, places: 2)) µs per push
            latency     \(latency) ms
            peak memory \(decimal(Double(peakRSSBytes) / 1_048_576, places: 1)) MiB
            """
    }
}

/// The middle value, the upper one of two; 0 without values.
func median(_ values: [Double]) -> Double {
    values.isEmpty ? 0 : values.sorted()[values.count / 2]
}

/// A number with at most so many decimal places, always with a point: `String(format:)` would need Foundation, whose
/// memory would be part of what is measured.
func decimal(_ value: Double, places: Int) -> String {
    var scale: Int64 = 1
    for _ in 0..<places { scale *= 10 }
    let scaled = Int64((value * Double(scale)).rounded())
    guard places > 0 else { return "\(scaled)" }
    let fraction = String(scaled.magnitude % UInt64(scale))
    let zeros = String(repeating: "0", count: places - fraction.count)
    return "\(scaled < 0 ? "-" : "")\(scaled.magnitude / UInt64(scale)).\(zeros)\(fraction)"
}
