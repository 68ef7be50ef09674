import ArgumentParser

/// What is varied.
enum SweepKind: String, CaseIterable, ExpressibleByArgument {
    case poolSize = "pool-size"
    case connections, apps
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
        /// The round trip in milliseconds that a router between client and server adds; nil: no router, the loopback.
        var routedRoundTrip: Double?
    }

    /// One chart of the runs.
    struct Drawing: Sendable {
        /// What the file's name has behind that of the sweep.
        var suffix = ""
        var title: String
        var yLabel: String
        var isYLogarithmic = false
        /// The values of a run that are drawn, each with the name of its series; the point's own name if that is empty.
        var values: @Sendable (RunFigures) -> [(series: String, y: Double)]

        static func cost(
            by what: String,
            suffix: String = "-cost",
            isYLogarithmic: Bool = false
        ) -> Drawing {
            Drawing(
                suffix: suffix,
                title: "Cost of a push by \(what)",
                yLabel: "µs of CPU per push",
                isYLogarithmic: isYLogarithmic
            ) { [("", $0.cpuMicrosecondsPerPush)] }
        }

        static func memory(by what: String) -> Drawing {
            Drawing(suffix: "-memory", title: "Memory by \(what)", yLabel: "MiB at the peak") {
                [("", Double($0.peakRSSBytes) / 1_048_576)]
            }
        }

        static func throughput(by what: String) -> Drawing {
            Drawing(title: "Throughput by \(what)", yLabel: "pushes per second") { [("", $0.pushesPerSecond)] }
        }
    }

    var kind: SweepKind
    /// Under which conditions the runs take place.
    var subtitle: String
    var xLabel: String
    var isXLogarithmic = true
    var points: [Point]
    var drawings: [Drawing]
    /// Why the curves are as they are.
    var note = ""

    /// No client gets more through than this on one core; only to choose how many pushes make up a run.
    private static let ceiling = 100_000.0

    /// The bytes of the sample notification.
    private static let samplePayload = 148

    /// A run with as many pushes as take about so long.
    ///
    /// - Parameters:
    ///   - run: the run; its `pushes` are replaced.
    ///   - window: how many pushes the send window of a connection admits in each round trip.
    private static func point(
        _ series: String,
        _ x: Double,
        _ run: Run,
        on server: ServerBehaviour,
        seconds: Double,
        window: Double = .infinity
    ) -> Point {
        // Bulk work leaves a fifth of the streams to others.
        let perConnection = min(Double(server.streamLimit) * 0.8, window)
        let inFlight = min(Double(run.inFlight ?? 1), Double(run.poolSize) * perConnection)
        let perSecond = inFlight / (server.rtt / 1000 + 0.0002)
        var run = run
        run.pushes = max(500, Int(min(perSecond, ceiling) * seconds))
        return Point(series: series, x: x, server: server, run: run)
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
        case .connections: connections(seconds)
        case .apps: apps(seconds)
        case .inFlight: inFlight(seconds)
        case .payload: payload(seconds)
        case .rtt: rtt(seconds)
        case .load: load(seconds, capacity)
        }
    }

    /// A run of each mode with each value.
    private static func points(
        _ modes: [Mode],
        _ values: [Int],
        _ seconds: Double,
        _ run: (Mode, Int) -> Run
    ) -> [Point] {
        let server = server()
        return modes.flatMap { mode in
            values.map { point(mode.rawValue, Double($0), run(mode, $0), on: server, seconds: seconds) }
        }
    }

    private static func poolSize(_ seconds: Double) -> SweepPlan {
        let server = server(rtt: 20, streamLimit: 100)
        var points: [Point] = []
        for inFlight in [100, 500, 2000] {
            for size in [1, 2, 4, 8, 16] {
                let run = Run(pushes: 0, inFlight: inFlight, poolSize: size)
                let name = "\(Axis.label(Double(inFlight))) in flight"
                var point = point(name, Double(size), run, on: server, seconds: seconds)
                point.isClientPinned = false
                points.append(point)
            }
        }
        return SweepPlan(
            kind: .poolSize,
            subtitle: "bulk, one prepared payload; round trip 20 ms, 100 streams a connection",
            xLabel: "connections",
            points: points,
            drawings: [.throughput(by: "pool size")]
        )
    }

    private static func connections(_ seconds: Double) -> SweepPlan {
        let points = points([.prepared, .single], [1, 4, 16, 64, 256], seconds) { mode, size in
            Run(mode: mode, pushes: 0, inFlight: 2000, poolSize: size)
        }
        return SweepPlan(
            kind: .connections,
            subtitle: "2,000 in flight over all connections, no round trip but the kernel's; connecting included",
            xLabel: "connections",
            points: points,
            drawings: [.cost(by: "connections"), .memory(by: "connections")],
            note: """
                Bulk work hardly depends on the number of connections. With 256 connections, each carries eight of \
                the single pushes, so fewer of them share a write, a read and a wake-up. A connection takes 30 to \
                100 KiB.
                """
        )
    }

    private static func apps(_ seconds: Double) -> SweepPlan {
        let points = points([.prepared, .single], [1, 10, 100, 1000], seconds) { mode, apps in
            Run(mode: mode, pushes: 0, inFlight: 2000, apps: apps)
        }
        return SweepPlan(
            kind: .apps,
            subtitle: "a group; a key and a connection for each app, 2,000 pushes in flight over all apps",
            xLabel: "apps",
            points: points,
            drawings: [.cost(by: "apps of a group"), .memory(by: "apps of a group")],
            note: """
                With 1,000 apps, each app has two pushes in flight, so hardly any push shares a write, a read or a \
                wake-up with another one. The next chart shows the same for one connection. A client with its \
                connection takes about 290 KiB.
                """
        )
    }

    private static func inFlight(_ seconds: Double) -> SweepPlan {
        let points = points(Mode.allCases, [1, 10, 100, 1000, 10_000, 100_000], seconds) { mode, inFlight in
            Run(mode: mode, pushes: 0, inFlight: inFlight)
        }
        return SweepPlan(
            kind: .inFlight,
            subtitle: "CPU time of the client's process; one connection, no round trip but the kernel's",
            xLabel: "pushes in flight",
            points: points,
            drawings: [
                .cost(by: "pushes in flight", suffix: "", isYLogarithmic: true), .memory(by: "pushes in flight"),
            ],
            note: """
                One push alone pays for a write, a read and several wake-ups; from 100 on, many pushes share them. \
                In a bulk call, pushes beyond the streams of the connection wait as rows of the input, so neither \
                cost nor memory grows. A single push waits in a task of about 11 KiB, and the memory of more than \
                1,000 tasks does not fit into the caches of a core. With 100,000 in flight, each task sends only a \
                few pushes, and its start is measured, too.
                """
        )
    }

    private static func payload(_ seconds: Double) -> SweepPlan {
        let points = points([.prepared, .encoded], [100, 256, 512, 1024, 2048, 4096], seconds) { mode, bytes in
            Run(mode: mode, pushes: 0, payloadBytes: bytes)
        }
        return SweepPlan(
            kind: .payload,
            subtitle: "bulk, 500 in flight on one connection; client and server on a core each",
            xLabel: "bytes of payload",
            points: points,
            drawings: [.throughput(by: "payload size"), .cost(by: "payload size"), .memory(by: "payload size")],
            note: """
                Each byte is copied and encrypted, so the cost grows with the size.
                """
        )
    }

    private static func rtt(_ seconds: Double) -> SweepPlan {
        let isRouted = RoutedNetwork.isAvailable
        var points: [Point] = []
        for size in [1, 4] {
            for rtt in [0.0, 2, 5, 10, 20, 50, 100, 200] {
                // Behind a router, the server returns the window in steps of 32 KiB, one in each round trip. A server
                // that only delays its responses returns it without that delay.
                let window = isRouted && rtt > 0 ? 32_768 / Double(samplePayload) : .infinity
                let run = Run(pushes: 0, inFlight: 4000, poolSize: size)
                let name = size == 1 ? "1 connection" : "\(size) connections"
                var point = point(name, rtt, run, on: server(rtt: rtt), seconds: seconds, window: window)
                point.isClientPinned = false
                if isRouted {
                    point.server.rtt = 0
                    point.routedRoundTrip = rtt
                }
                points.append(point)
            }
        }
        let delay = isRouted ? "a router delays each packet" : "the server delays each response"
        return SweepPlan(
            kind: .rtt,
            subtitle: "bulk, one prepared payload; 1,000 streams a connection, of which bulk uses 800; \(delay)",
            xLabel: "round trip in ms",
            points: points,
            drawings: [
                .throughput(by: "round-trip time"), .cost(by: "round-trip time"), .memory(by: "round-trip time"),
            ],
            note: isRouted
                ? """
                At round trips above a few milliseconds, the send window limits a connection: the server returns about \
                32 KiB of it in each round trip (`Docs/Operations.md`). So throughput falls as the round trip grows; \
                four connections carry four times as much as one. Fewer pushes then share a write, a read and a \
                wake-up, so each push costs more. Runs at long round trips also have fewer pushes to share the cost of \
                connecting.
                """ : ""
        )
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
            subtitle: "single pushes at fixed times on one connection, counted from when each was due; round trip 2 ms",
            xLabel: "pushes per second",
            isXLogarithmic: false,
            points: points,
            drawings: [
                Drawing(title: "Latency by offered load", yLabel: "ms to the outcome", isYLogarithmic: true) {
                    figures in
                    let latency = figures.latencyMilliseconds
                    return [("p50", latency.p50), ("p99", latency.p99), ("p99.9", latency.p999)]
                }
            ]
        )
    }

    private static func rounded(_ value: Double) -> Double {
        var unit = 1.0
        while value / unit >= 100 { unit *= 10 }
        return max(1, (value / unit).rounded() * unit)
    }
}
