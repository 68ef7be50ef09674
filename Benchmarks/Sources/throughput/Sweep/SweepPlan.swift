import ArgumentParser

/// What is varied.
enum SweepKind: String, CaseIterable, ExpressibleByArgument {
    case poolSize = "pool-size"
    case inFlight = "in-flight"
    case payload, rtt, load
}

/// The runs of a sweep, and how they are drawn.
struct SweepPlan: Sendable {
    struct Point: Sendable {
        var series: String
        var x: Double
        var server: ServerBehaviour
        var run: Run
        var isClientPinned = true
    }

    var kind: SweepKind
    var title: String
    var subtitle: String
    var xLabel: String
    var yLabel: String
    var isXLogarithmic = true
    var isYLogarithmic = false
    var points: [Point]
    /// The values of a run that are drawn, each with the name of its series; the point's own name if that is empty.
    var values: @Sendable (RunFigures) -> [(series: String, y: Double)]

    /// No client gets more through than this on one core; only to choose how many pushes make up a run.
    private static let ceiling = 100_000.0

    /// Pushes that take about so long.
    private static func pushes(_ seconds: Double, inFlight: Int, poolSize: Int = 1, server: ServerBehaviour) -> Int {
        // Bulk work leaves a fifth of the streams to others.
        let streams = Double(poolSize * server.streamLimit) * 0.8
        let perSecond = min(Double(inFlight), streams) / (server.rtt / 1000 + 0.0002)
        return max(500, Int(min(perSecond, ceiling) * seconds))
    }

    private static func server(rtt: Double = 0, streamLimit: Int = 1000) -> ServerBehaviour {
        var server = ServerBehaviour()
        server.rtt = rtt
        server.streamLimit = streamLimit
        return server
    }

    /// - Parameters:
    ///   - seconds: about how long each run may take.
    ///   - capacity: pushes a second of single sends; only for `load`.
    static func plan(_ kind: SweepKind, seconds: Double, capacity: Double = 0) -> SweepPlan {
        switch kind {
        case .poolSize: poolSize(seconds)
        case .inFlight: inFlight(seconds)
        case .payload: payload(seconds)
        case .rtt: rtt(seconds)
        case .load: load(seconds, capacity)
        }
    }

    private static func poolSize(_ seconds: Double) -> SweepPlan {
        let server = server(rtt: 20, streamLimit: 100)
        var points: [Point] = []
        for inFlight in [100, 500, 2000] {
            for size in [1, 2, 4, 8, 16] {
                let pushes = pushes(seconds, inFlight: inFlight, poolSize: size, server: server)
                let run = Run(pushes: pushes, inFlight: inFlight, poolSize: size)
                points.append(
                    Point(
                        series: "\(Axis.label(Double(inFlight))) in flight",
                        x: Double(size),
                        server: server,
                        run: run,
                        isClientPinned: false
                    )
                )
            }
        }
        return SweepPlan(
            kind: .poolSize,
            title: "Throughput by pool size",
            subtitle: "bulk, one prepared payload; round trip 20 ms, 100 streams a connection",
            xLabel: "connections",
            yLabel: "pushes per second",
            points: points
        ) { [("", $0.pushesPerSecond)] }
    }

    private static func inFlight(_ seconds: Double) -> SweepPlan {
        let server = server()
        var points: [Point] = []
        for mode in Mode.allCases {
            for inFlight in [1, 10, 100, 1000, 10_000] {
                let pushes = pushes(seconds, inFlight: inFlight, server: server)
                let run = Run(mode: mode, pushes: pushes, inFlight: inFlight)
                points.append(Point(series: mode.rawValue, x: Double(inFlight), server: server, run: run))
            }
        }
        return SweepPlan(
            kind: .inFlight,
            title: "Cost of a push by pushes in flight",
            subtitle: "CPU time of the client's process; one connection, no round trip but the kernel's",
            xLabel: "pushes in flight",
            yLabel: "µs of CPU per push",
            isYLogarithmic: true,
            points: points
        ) { [("", $0.cpuMicrosecondsPerPush)] }
    }

    private static func payload(_ seconds: Double) -> SweepPlan {
        let server = server()
        var points: [Point] = []
        for mode in [Mode.prepared, .encoded] {
            for bytes in [256, 512, 1024, 2048, 4096] {
                let pushes = pushes(seconds, inFlight: 500, server: server)
                let run = Run(mode: mode, pushes: pushes, payloadBytes: bytes)
                points.append(Point(series: mode.rawValue, x: Double(bytes), server: server, run: run))
            }
        }
        return SweepPlan(
            kind: .payload,
            title: "Throughput by payload size",
            subtitle: "bulk, 500 in flight on one connection; client and server on a core each",
            xLabel: "bytes of payload",
            yLabel: "pushes per second",
            points: points
        ) { [("", $0.pushesPerSecond)] }
    }

    private static func rtt(_ seconds: Double) -> SweepPlan {
        var points: [Point] = []
        for size in [1, 4] {
            for rtt in [0.0, 2, 5, 10, 20, 50, 100] {
                let server = server(rtt: rtt)
                let inFlight = 4000
                let pushes = pushes(seconds, inFlight: inFlight, poolSize: size, server: server)
                let run = Run(pushes: pushes, inFlight: inFlight, poolSize: size)
                let name = size == 1 ? "1 connection" : "\(size) connections"
                points.append(Point(series: name, x: rtt, server: server, run: run, isClientPinned: false))
            }
        }
        return SweepPlan(
            kind: .rtt,
            title: "Throughput by round-trip time",
            subtitle: "bulk, one prepared payload, 4,000 in flight; 1,000 streams a connection, of which bulk uses 800",
            xLabel: "round trip in ms",
            yLabel: "pushes per second",
            points: points
        ) { [("", $0.pushesPerSecond)] }
    }

    private static func load(_ seconds: Double, _ capacity: Double) -> SweepPlan {
        let server = server(rtt: 2)
        let points = [0.1, 0.25, 0.4, 0.55, 0.7, 0.8, 0.9, 1.0].map { part in
            // Two digits are exact enough, and make round labels.
            let rate = rounded(capacity * part)
            let run = Run(mode: .single, pushes: max(500, Int(rate * seconds)), inFlight: nil, rate: rate)
            return Point(series: "", x: rate, server: server, run: run)
        }
        return SweepPlan(
            kind: .load,
            title: "Latency by offered load",
            subtitle: "single pushes at fixed times on one connection, counted from when each was due; round trip 2 ms",
            xLabel: "pushes per second",
            yLabel: "ms to the outcome",
            isXLogarithmic: false,
            isYLogarithmic: true,
            points: points
        ) { figures in
            let latency = figures.latencyMilliseconds
            return [("p50", latency.p50), ("p99", latency.p99), ("p99.9", latency.p999)]
        }
    }

    private static func rounded(_ value: Double) -> Double {
        var unit = 1.0
        while value / unit >= 100 { unit *= 10 }
        return max(1, (value / unit).rounded() * unit)
    }
}
