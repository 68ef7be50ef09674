import APNSSimulator

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// Compares a process that sends one push with curl, from the start of the process to its end: loading the program,
/// signing (the client only), connecting, the TLS handshake, request and response.
struct FirstPushComparison {
    /// How many processes of each program run. The programs take turns, and the medians count.
    var rounds: Int

    /// Of a process, in milliseconds.
    private struct Stages {
        /// From the start of the process to `main`. Includes `taskset`, which pins the process (as that of curl).
        var load: Double
        /// From `main` until the connection is ready. Includes reading the key, TLS and the server's SETTINGS.
        var connect: Double
        /// From the ready connection to the push's outcome.
        var push: Double
        /// From the start of the process to its end.
        var total: Double
    }

    func results() throws -> [GoalResult] {
        let folder = FileManager.default.temporaryDirectory.appending(path: "first-push-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.path(percentEncoded: false)
        try Data(SimulatedKey().p8.utf8).write(to: folder.appending(path: "key.p8"))

        let server = try ServerProcess(core: Cores.server)
        defer { server.end() }
        try RequestFiles(
            workload: Workload(topic: "com.grasscove.Fern", payloadBytes: nil),
            endpoint: server.endpoint,
            teamID: "ABCDE12345"
        ).write(to: path)
        let authorization = try String(contentsOfFile: "\(path)/authorization", encoding: .utf8)

        var ours: [Stages] = []
        var curls: [Double] = []
        // The first round does not count: its processes read their files from the disk.
        for round in 0...rounds {
            let stages = try firstPush(server, key: "\(path)/key.p8")
            let curl = try curl(server, payload: "\(path)/payload", authorization: authorization)
            if round > 0 {
                ours.append(stages)
                curls.append(curl)
            }
        }
        let (total, curl) = (median(ours.map(\.total)), median(curls))
        let parts = [median(ours.map(\.load)), median(ours.map(\.connect)), median(ours.map(\.push))]
        return [
            GoalResult(
                name: "a process that sends one push / the same by curl",
                measured: "\(decimal(total, places: 1)) / \(decimal(curl, places: 1)) ms = "
                    + "\(decimal(total / curl, places: 2)) x"
            ),
            GoalResult(
                name: "  of which: start to main / main to connected / push",
                measured: parts.map { decimal($0, places: 1) }.joined(separator: " / ") + " ms"
            ),
        ]
    }

    private func firstPush(_ server: ServerProcess, key: String) throws -> Stages {
        let start = MonotonicTime.microseconds()
        let process = try ChildProcess(
            program: ChildProcess.sibling("first-push"),
            ["\(server.port)", server.caFile, key],
            core: Cores.client
        )
        let line = process.line() ?? ""
        let status = process.wait()
        let end = MonotonicTime.microseconds()
        let instants = [start] + line.split(separator: " ").compactMap { UInt64($0) } + [end]
        guard status == 0, instants.count == 5, instants == instants.sorted() else {
            throw ProcessError("first-push ended with status \(status) and printed '\(line)'")
        }
        func milliseconds(_ first: Int, _ last: Int) -> Double { Double(instants[last] - instants[first]) / 1000 }
        return Stages(
            load: milliseconds(0, 1),
            connect: milliseconds(1, 2),
            push: milliseconds(2, 3),
            total: milliseconds(0, 4)
        )
    }

    private func curl(_ server: ServerProcess, payload: String, authorization: String) throws -> Double {
        let start = MonotonicTime.microseconds()
        let process = try ChildProcess(
            program: "curl",
            [
                "--silent", "--http2", "--cacert", server.caFile, "--data-binary", "@\(payload)", "--write-out",
                "%{http_version} %{http_code}\n", "--header", "authorization: \(authorization)", "--header",
                "apns-topic: com.grasscove.Fern", "--header", "apns-push-type: alert",
                "\(server.endpoint)/3/device/\(DeviceTokens.digits(0))",
            ],
            core: Cores.client
        )
        let line = process.line() ?? ""
        let status = process.wait()
        guard status == 0, line == "2 200" else {
            throw ProcessError("curl ended with status \(status) and printed '\(line)'")
        }
        return Double(MonotonicTime.microseconds() - start) / 1000
    }
}
