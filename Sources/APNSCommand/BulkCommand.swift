import APNSPool
import ArgumentParser

/// What `apns bulk` reads and writes.
struct BulkFileOptions: ParsableArguments {
    @Option(help: ArgumentHelp("A file with a device token on each line, or - for standard input.", valueName: "file"))
    var tokens: String

    @Option(help: ArgumentHelp("The payload, a file with a JSON object. It is sent as it is.", valueName: "file"))
    var payload: String

    @Option(help: ArgumentHelp("Where the results go, or - for standard output.", valueName: "file"))
    var results: String

    @Option(
        help: ArgumentHelp(
            "alert, background, voip, liveactivity, location, widgets, …; default alert.",
            valueName: "type"
        )
    )
    var pushType: String?

    func validate() throws {
        if self.tokens == "-", self.payload == "-" {
            throw UsageError("--tokens and --payload cannot both be read from standard input.")
        }
    }
}

/// `apns bulk`
struct BulkCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "bulk",
        abstract: "Sends one payload to a file of device tokens.",
        discussion: """
            The file has one device token on each line and may have millions. Results are written as they come, one JSON \
            object a line; `line` says where the token stands. Blank lines are passed over.

            The first Ctrl-C takes no further tokens, lets the pushes under way finish and writes their results; the \
            second one quits. What is wrong with the configuration ends the run at once.

            To all devices of a list:

              apns bulk --key AuthKey_9UC9ZLQ8YW.p8 --team-id ABBM6U9RM5 \\
                --topic com.grasscove.Fern --tokens tokens.txt \\
                --payload payload.json --results results.ndjson

            Straight from a database, with the dead tokens picked out of the results:

              psql -qtAc 'select token from devices' |
              apns bulk --tokens - --payload payload.json --results - |
              jq -r 'select(.advice=="remove-token").token'

            \(ExitStatus.help)
            """
    )

    @OptionGroup(title: "Input and output") var files: BulkFileOptions
    @OptionGroup(title: "Connection") var common: CommonOptions

    func run() async throws {
        let options = try self.common.resolved()
        let topic = try options.requireTopic()
        let push: PreparedPush
        let bytes = try Payload.read(self.files.payload)
        do {
            push = try PushNotification(
                topic: topic,
                pushType: PushType(rawValue: self.files.pushType ?? "alert"),
                rawPayload: bytes
            ).prepared()
        } catch {
            throw UsageError("The notification cannot be sent: \(error).")
        }
        let reader = try LineReader(path: self.files.tokens, option: "--tokens")
        // The client first: a key that cannot be read must not empty a results file.
        let client = try APNSClient(configuration: options.configuration)
        let writer = try ResultWriter(path: self.files.results, option: "--results")
        Interrupts.handle()
        try await client.start()
        let counts = await Self.send(push, with: client, from: reader, to: writer, inFlight: options.inFlight)
        await client.shutdown()
        writer.flush()
        var failure = writer.failure
        if let error = reader.failure {
            failure = InputOutputError(description: "--tokens: '\(self.files.tokens)' cannot be read: \(error)")
        }
        if let failure { Standard.error.print("apns: \(failure)") }
        Self.report(counts)
        if failure != nil { throw ExitStatus.inputOutput }
        if counts.status != ExitStatus.success { throw counts.status }
    }

    /// One pass over the file. When the input stalls, what is under way is finished before more is asked for, so that
    /// results never wait for lines.
    private static func send(
        _ push: PreparedPush,
        with client: APNSClient,
        from reader: LineReader,
        to writer: ResultWriter,
        inFlight: Int
    ) async -> OutcomeCounts {
        let flusher = Task {
            while !Task.isCancelled {
                try? await Task.sleep(for: .milliseconds(500))
                writer.flush()
            }
        }
        defer { flusher.cancel() }
        var counts = OutcomeCounts()
        let lines = TokenLines(reader)
        while !lines.isOver {
            if lines.isStalled, !reader.hasInput {
                try? await Task.sleep(for: .milliseconds(20))
                if Interrupts.isStopRequested { lines.stop() }
                continue
            }
            let deliveries = client.deliveries(
                of: push,
                to: lines,
                token: { $0.token },
                options: BulkOptions(maxInFlight: inFlight)
            )
            for await delivery in deliveries {
                counts.count(delivery.outcome)
                writer.write(
                    ResultRow(
                        token: delivery.element.token,
                        outcome: delivery.outcome,
                        line: delivery.element.number
                    )
                )
                if counts.configurationFault != nil || writer.failure != nil { lines.stop() }
            }
        }
        counts.isIncomplete = lines.isStopped
        return counts
    }

    private static func report(_ counts: OutcomeCounts) {
        if let fault = counts.configurationFault { Standard.error.print("apns: \(fault.message)") }
        for line in counts.causeLines.prefix(20) { Standard.error.print("  \(line)") }
        if counts.isIncomplete { Standard.error.print("Stopped: the rest of the tokens was not read.") }
        Standard.error.print(counts.line)
    }
}

/// A line of the token file.
struct TokenLine: Sendable {
    var token: String
    var number: Int
}

/// The lines of a file as far as they are there, until somebody stops it.
final class TokenLines: Sequence, IteratorProtocol {
    private let reader: LineReader
    /// There may be more later.
    private(set) var isStalled = false
    private(set) var isOver = false
    /// Ended before the file did.
    private(set) var isStopped = false

    init(_ reader: LineReader) {
        self.reader = reader
    }

    func stop() {
        guard !self.isOver else { return }
        self.isStopped = true
        self.isOver = true
    }

    func next() -> TokenLine? {
        if Interrupts.isStopRequested { self.stop() }
        guard !self.isOver else { return nil }
        self.isStalled = false
        switch self.reader.next() {
        case .line(let token, let number):
            return TokenLine(token: token, number: number)
        case .stalled:
            self.isStalled = true
        case .end:
            self.isOver = true
        }
        return nil
    }
}
