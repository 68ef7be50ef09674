#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// The figures of a run as `measure --format json` prints them.
struct RunFigures: Codable, Sendable {
    struct Latency: Codable, Sendable {
        var p50, p90, p99, p999, max: Double
    }

    var mode: Mode
    var pushes: Int
    var accepted: Int
    var failed: Int
    var seconds: Double
    var pushesPerSecond: Double
    var cpuMicrosecondsPerPush: Double
    var latencyMilliseconds: Latency
    var peakRSSBytes: Int
}

/// One `throughput measure` in a process of its own, so that no run inherits memory or connections of another.
struct Run: Sendable {
    var mode = Mode.prepared
    var pushes: Int
    /// Nil with a rate.
    var inFlight: Int? = 500
    var rate: Double?
    var poolSize = 1
    /// Nil for a client instead of a group.
    var apps: Int?
    var payloadBytes: Int?
    var isDistinct = false
    var deadline: Double? = 120

    private func arguments(_ server: ServerProcess) -> [String] {
        var arguments = [
            "measure", "--endpoint", server.endpoint, "--ca-file", server.caFile, "--mode", mode.rawValue, "--pushes",
            "\(pushes)", "--pool-size", "\(poolSize)", "--format", "json",
        ]
        if let rate {
            arguments += ["--rate", "\(rate)"]
        } else if let inFlight {
            arguments += ["--in-flight", "\(inFlight)"]
        }
        if let payloadBytes { arguments += ["--payload-bytes", "\(payloadBytes)"] }
        if let apps { arguments += ["--apps", "\(apps)"] }
        if isDistinct { arguments.append("--distinct") }
        if let deadline { arguments += ["--deadline", "\(deadline)"] }
        return arguments
    }

    /// - Parameter core: the core that the client stays on; nil: all.
    /// - Throws: `ProcessError` if the run printed no figures. One with failed pushes is no error here.
    func figures(on server: ServerProcess, core: Int? = nil) throws -> RunFigures {
        let process = try ChildProcess(arguments(server), core: core)
        let output = process.rest()
        let status = process.wait()
        do {
            return try JSONDecoder().decode(RunFigures.self, from: Data(output))
        } catch {
            throw ProcessError("a run ended with status \(status) and without figures")
        }
    }

    /// The same, and every push must have been accepted.
    func acceptedFigures(on server: ServerProcess, core: Int? = nil) throws -> RunFigures {
        let figures = try figures(on: server, core: core)
        guard figures.accepted == figures.pushes else {
            throw ProcessError("\(figures.accepted) of \(figures.pushes) pushes were accepted")
        }
        return figures
    }
}
