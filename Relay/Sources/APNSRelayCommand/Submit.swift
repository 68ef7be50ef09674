import APNSRelay
import ArgumentParser
import Foundation

/// `apns-relay submit`
struct Submit: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Submits a batch to a running relay, and shows its progress.",
        discussion: """
            The batch is a JSON object with app, headers, payload and so on; the devices are in a file of their own, one a \
            line: a device token, or a JSON object with token and values. Relay/API.md describes both. If the command is \
            interrupted, run it again: the batch continues where it stopped. If it was complete, nothing is sent again: the \
            command says when it was submitted and what became of it. To send the same files once more, give the batch another \
            idempotencyKey.

            Exit status:
              0   every push was accepted, or rejected because its device token is dead;
                  with --no-wait: the batch is stored
              1   an operator must look at pushes: they are parked, were rejected for
                  another reason, not processed or not sent, or have an unknown outcome;
                  or the batch could not be submitted or followed
              64  an option is wrong
            """
    )

    @Argument(help: ArgumentHelp("The file with the batch.", valueName: "batch"))
    var batch: String

    @Argument(help: ArgumentHelp("The file with the devices.", valueName: "devices"))
    var devices: String

    @Option(help: ArgumentHelp("The relay.", valueName: "url"))
    var url = "http://127.0.0.1:8027"

    @Option(help: ArgumentHelp("The file with the caller's token.", valueName: "file"))
    var tokenFile: String?

    @Flag(help: "Leave invalid devices out. Otherwise, the first one ends the command.")
    var partial = false

    @Flag(inversion: .prefixedNo, help: "Wait until every push has its outcome.")
    var wait = true

    func run() async throws {
        let token = try self.tokenFile.map { path in
            try String(contentsOfFile: path, encoding: .utf8).trimmingCharacters(in: .whitespacesAndNewlines)
        }
        let file = try BatchFile(batch: self.batch, devices: self.devices)
        let client = try BatchClient(url: self.url, token: token)
        let submission = try await client.submit(file, isPartial: self.partial) { Self.report($0) }
        let batch = submission.batch
        Self.report("batch \(batch.id)\(batch.name.map { ": \($0)" } ?? "")")
        if submission.duplicate {
            let time = Date(timeIntervalSince1970: batch.createdAt).formatted(.iso8601)
            Self.report("already submitted at \(time); nothing was sent. It is \(batch.state): \(Self.text(batch))")
        }
        if batch.invalid > 0 { Self.report("left out \(batch.invalid) invalid devices") }
        guard self.wait else { return }
        if submission.duplicate, batch.isOver { return try Self.finish(batch) }
        // The rate of the last seconds.
        var times = [(ContinuousClock.now, batch.outcomes.count)]
        var last = ""
        let end = try await client.follow(batch.id) { progress in
            times.append((.now, progress.outcomes.count))
            if times.count > 6 { times.removeFirst() }
            let seconds = times[0].0.duration(to: .now) / .seconds(1)
            let rate = seconds > 0.4 ? Int(Double(progress.outcomes.count - times[0].1) / seconds) : 0
            let line = "\(progress.state): \(Self.text(progress)), \(rate) pushes a second"
            if line != last { Self.report(line) }
            last = line
        }
        try Self.finish(end)
    }

    private static func finish(_ end: BatchClient.Progress) throws {
        print(Self.text(end))
        guard end.concerns.isEmpty else {
            Self.report("to look at: \(end.concerns.joined(separator: "; "))")
            throw ExitCode.failure
        }
    }

    private static func text(_ progress: BatchClient.Progress) -> String {
        let outcomes = progress.outcomes
        let counts = [
            ("queued", progress.queued), ("in flight", progress.inFlight), ("accepted", outcomes.accepted),
            ("rejected", outcomes.rejected - progress.deadTokens), ("dead tokens", progress.deadTokens),
            ("not processed", outcomes.notProcessed), ("not sent", outcomes.notSent),
            ("unknown", outcomes.unknown), ("parked", progress.parked),
        ]
        let shown = counts.filter { $0.1 > 0 || $0.0 == "accepted" }
        return shown.map { "\($0.1) \($0.0)" }.joined(separator: ", ")
    }

    private static func report(_ line: String) { FileHandle.standardError.write(Data("\(line)\n".utf8)) }
}
