import ArgumentParser

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// Sweeps: runs in which one thing varies. Each sweep writes a file of figures and its charts.
struct Sweep: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Varies one thing and writes the figures (JSON) and charts (SVG).",
        discussion: """
            pool-size: throughput by connections, for some numbers of pushes in flight. connections, apps, in-flight: \
            CPU time per push and peak memory, by connections, by apps of a group, and by pushes in flight. payload, \
            rtt: throughput, CPU time per push and peak memory, by payload size and by round-trip time. For rtt, the \
            simulator delays its responses; under ci/lib/network-namespaces, a router delays each packet instead. load: \
            latency by offered load, up to the rate that single sends reach. Each run is a process of its own, beside \
            a simulator in another one, each on a core of its own where that is sensible.
            """
    )

    @Option(help: "What is varied; may be given several times. Without it: all.")
    var of: [SweepKind] = []

    @Option(help: ArgumentHelp("About how long each run may take.", valueName: "SECONDS"))
    var seconds = 2.0

    @Option(help: ArgumentHelp("Where to write NAME.json, NAME.svg, NAME-cost.svg and so on.", valueName: "DIRECTORY"))
    var output = "."

    func validate() throws {
        guard (0.01...60).contains(seconds) else { throw ValidationError("--seconds must be 0.01 to 60") }
    }

    func run() throws {
        for kind in of.isEmpty ? SweepKind.allCases : of {
            _ = try SweepRunner(seconds: seconds).run(kind, jsonTo: output, svgTo: output)
        }
    }
}

/// Carries plans out.
struct SweepRunner {
    var seconds: Double

    /// What is written to NAME.json.
    struct Figures: Codable {
        struct Point: Codable {
            var series: String
            var x: Double
            var poolSize: Int
            var inFlight: Int?
            var rate: Double?
            var payloadBytes: Int?
            var apps: Int?
            var rttMilliseconds: Double
            var streamLimit: Int
            var figures: RunFigures
        }

        var sweep: String
        var conditions: String
        var xLabel: String
        var points: [Point]
    }

    func run(_ kind: SweepKind, jsonTo json: String, svgTo svg: String) throws -> SweepPlan {
        let plan = SweepPlan.plan(kind, seconds: seconds, capacity: kind == .load ? try capacity() : 0)
        writeError(plan.drawings.map(\.title).joined(separator: "; "))
        var measured: [(point: SweepPlan.Point, figures: RunFigures)] = []
        for point in plan.points {
            let figures = try figures(of: point)
            writeError(
                "  \(point.series) \(Axis.label(point.x)) \(plan.xLabel): "
                    + plan.drawings.map { drawing in
                        drawing.values(figures).map { "\($0.series) \(decimal($0.y, places: 2))" }.joined(
                            separator: ", "
                        )
                            + " \(drawing.yLabel)"
                    }.joined(separator: "; ")
            )
            measured.append((point, figures))
        }
        try write(contents(plan, measured), to: "\(json)/\(kind.rawValue).json")
        for drawing in plan.drawings {
            let chart = chart(plan, drawing, measured)
            try write(Data(chart.svg.utf8), to: "\(svg)/\(kind.rawValue)\(drawing.suffix).svg")
        }
        return plan
    }

    private func figures(of point: SweepPlan.Point) throws -> RunFigures {
        let server = try ServerProcess(
            point.server,
            core: point.isClientPinned ? Cores.server : nil,
            network: try point.routedRoundTrip.map { try RoutedNetwork(roundTrip: $0) }
        )
        defer { server.end() }
        return try point.run.acceptedFigures(on: server, core: point.isClientPinned ? Cores.client : nil)
    }

    /// What single sends get through that come one by one: as many a second as end when more come. A closed loop gets
    /// through more, since its sends begin together, as answers arrive.
    func capacity() throws -> Double {
        let server = try ServerProcess(core: Cores.server)
        defer { server.end() }
        func rate(_ inFlight: Int?, _ rate: Double?) throws -> Double {
            try Run(mode: .single, pushes: max(2000, Int(30_000 * seconds)), inFlight: inFlight, rate: rate)
                .acceptedFigures(on: server, core: Cores.client).pushesPerSecond
        }
        return try rate(nil, rate(200, nil))
    }

    private func chart(
        _ plan: SweepPlan,
        _ drawing: SweepPlan.Drawing,
        _ measured: [(point: SweepPlan.Point, figures: RunFigures)]
    ) -> Chart {
        var series: [Chart.Series] = []
        for (point, figures) in measured {
            for value in drawing.values(figures) {
                let name = value.series.isEmpty ? point.series : value.series
                if let index = series.firstIndex(where: { $0.name == name }) {
                    series[index].points.append((point.x, value.y))
                } else {
                    series.append(Chart.Series(name: name, points: [(point.x, value.y)]))
                }
            }
        }
        return Chart(
            title: drawing.title,
            subtitle: plan.subtitle,
            xLabel: plan.xLabel,
            yLabel: drawing.yLabel,
            isXLogarithmic: plan.isXLogarithmic,
            isYLogarithmic: drawing.isYLogarithmic,
            series: series
        )
    }

    private func contents(
        _ plan: SweepPlan,
        _ measured: [(point: SweepPlan.Point, figures: RunFigures)]
    ) throws -> Data {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
        return try encoder.encode(
            Figures(
                sweep: plan.kind.rawValue,
                conditions: plan.subtitle,
                xLabel: plan.xLabel,
                points: measured.map { point, figures in
                    Figures.Point(
                        series: point.series,
                        x: point.x,
                        poolSize: point.run.poolSize,
                        inFlight: point.run.rate == nil ? point.run.inFlight : nil,
                        rate: point.run.rate,
                        payloadBytes: point.run.payloadBytes,
                        apps: point.run.apps,
                        rttMilliseconds: point.routedRoundTrip ?? point.server.rtt,
                        streamLimit: point.server.streamLimit,
                        figures: figures
                    )
                }
            )
        )
    }

    private func write(_ data: Data, to path: String) throws {
        let url = URL(filePath: path)
        try FileManager.default.createDirectory(
            at: url.deletingLastPathComponent(),
            withIntermediateDirectories: true
        )
        try data.write(to: url)
    }
}
