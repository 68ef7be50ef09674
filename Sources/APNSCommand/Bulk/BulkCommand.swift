import APNSPool
import ArgumentParser

/// The files that `apns bulk` reads and writes.
struct BulkFileOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp("A file with a device token on each line, or - for standard input.", valueName: "file"),
        completion: .file()
    )
    var tokens: String

    @Option(
        help: ArgumentHelp("A file with the payload, a JSON object. It is sent unchanged.", valueName: "file"),
        completion: .file(extensions: ["json"])
    )
    var payload: String

    @Option(
        help: ArgumentHelp("The file for the results, or - for standard output.", valueName: "file"),
        completion: .file()
    )
    var results: String

    @Flag(help: "Continue from the results of a run that ended early; without results, begin a run.")
    var resume = false

    @Flag(help: "With --resume: also resend pushes that may have arrived. They may then arrive twice.")
    var resendUnknown = false

    @Flag(help: "Check everything, say what would be sent, and send nothing.")
    var dryRun = false

    func validate() throws {
        if self.tokens == "-", self.payload == "-" {
            throw UsageError("--tokens and --payload cannot both be read from standard input.")
        }
        if self.resendUnknown, !self.resume {
            throw UsageError("--resend-unknown requires --resume: a new run has no unknown outcomes.")
        }
        if self.resume, self.results == "-" {
            throw UsageError("--resume needs a file for --results, not standard output.")
        }
    }

    /// Checks that the run overwrites nothing but results and the files beside them. Call it before any file is opened
    /// for writing.
    func checkOutputs(with settings: ToolSettings) throws {
        let option = "--results"
        var outputs = [(option: option, path: self.results)]
        if self.results != "-", Files.isRegular(self.results) || !Files.exists(self.results) {
            let results = try ResultFile.checked(self.results)
            let run = BulkManifestFile(results: results)
            try ResultFile.checked(Files.copy(of: results))
            let isOurs = BulkManifestFile.isOurs
            for path in [run.path, Files.copy(of: run.path)] {
                try Files.checkedOutput(path, option: option, purpose: "the id of a run", isOurs: isOurs)
            }
            outputs += [Files.copy(of: results), run.path, Files.copy(of: run.path)].map { (option, $0) }
        }
        if let tokenFile = settings.tokenFile { outputs.append(tokenFile) }
        let inputs = [("--tokens", self.tokens), ("--payload", self.payload)] + settings.inputs
        try Files.checkDistinct(outputs: outputs, inputs: inputs)
    }
}

/// `apns bulk`
struct BulkCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "bulk",
        abstract: "Sends one payload to a file of device tokens.",
        discussion: """
            The file has one device token on each line, and may have millions of lines. Results are written as they \
            arrive, one JSON object per line; `line` is the line number of the token. Blank lines are skipped.

            Send to all devices of a list:

              apns bulk --key AuthKey_9UC9ZLQ8YW.p8 --team-id ABBM6U9RM5 \\
                --topic com.grasscove.Fern --tokens tokens.txt \\
                --payload payload.json --results results.ndjson

            After the first Ctrl-C (or SIGTERM), the tool begins no further push, waits for the pushes in flight and \
            writes their results. The second one ends the tool immediately. During an outage of APNs, the run waits. \
            Configuration errors stop it immediately. Expired provider tokens stop it after a minute, and a longer wait \
            for a new one at once.

            To resume after an interrupt, a crash or a failure, give the same files. The tool sends lines without a \
            row, and resends lines whose advice in the results is resend, wait, check-environment or \
            fix-credential: a push that was not sent or not processed, or that APNs rejected because of an outage, \
            the environment or the credential. It resends lines with an unknown outcome only with \
            --resend-unknown. This loop ends when nothing is left to send; then each line has one row:

              until apns bulk --tokens tokens.txt --payload payload.json \\
                --results results.ndjson --resume || [ $? -ne 75 ]
              do sleep 60; done

            Give --token-file, so that all runs share one provider token: APNs accepts a new one only every 20 \
            minutes. After a kill, at most --in-flight pushes are sent twice, with the same apns-id. The file RESULTS.run \
            beside the results identifies the run; keep it as long as you may resume.

            Send to the tokens of a database, and print the tokens to remove from it:

              psql -qtAc 'select token from devices' |
              apns bulk --tokens - --payload payload.json --results - |
              jq -r 'select(.advice=="remove-token").token'

            \(ExitStatus.help)
            """
    )

    @OptionGroup(title: "Input and output") var files: BulkFileOptions
    @OptionGroup(title: "Notification") var headers: HeaderOptions

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("Pushes begun per second; default: as many as possible.", valueName: "n")
    )
    var rate: String?

    @Flag(help: "Print only errors and the last line on standard error, no progress.")
    var quiet = false

    @Flag(help: "Print the counts as one JSON object on standard output.")
    var json = false

    @OptionGroup(title: "Connection") var common: CommonOptions

    func validate() throws {
        _ = try self.pushRate()
        if self.json, self.files.results == "-" {
            throw UsageError("--json and --results - would both print on standard output: give --results a file.")
        }
    }

    private func pushRate() throws -> PushRate? {
        guard let rate else { return nil }
        guard let number = Double(rate), number >= 0.01, number <= 1_000_000 else {
            throw UsageError("--rate: '\(rate)' is not a number of pushes per second from 0.01 to 1000000.")
        }
        return .perSecond(number)
    }

    func run() async throws {
        let options = try self.common.checked()
        let topic = try options.requireTopic()
        try self.files.checkOutputs(with: options)
        options.warnAboutCertificate(self.headers.type)
        let bytes = try Payload.read(self.files.payload)
        let push = try self.headers.prepared(topic: topic, payload: bytes)
        let reader = try LineReader(path: self.files.tokens, option: "--tokens")
        // Create the client first: an unreadable key must not empty a results file.
        let client = try APNSClient(configuration: options.configuration)
        let tokens = try BulkJobManifest.Tokens(path: self.files.tokens, option: "--tokens")
        let run = try BulkJobManifest(topic: topic, pushType: push.pushType.rawValue, payload: bytes, tokens: tokens)
        if tokens?.lines == 0 {
            Standard.error.print("apns: warning: --tokens: \(Files.name(self.files.tokens)) holds no device token.")
        }
        if self.files.dryRun {
            return try self.rehearse(run, push, reader, options)
        }
        let start = try BulkStart(run, results: self.files.results, self.files)
        let job = BulkJob(
            push: push,
            start: start,
            tokensPath: self.files.tokens,
            lines: tokens?.lines,
            inFlight: options.inFlight,
            rate: try self.pushRate(),
            massRejection: start.earlier?.widened(options.configuration.massRejection)
                ?? options.configuration.massRejection,
            progress: Progress(
                total: tokens?.lines,
                earlier: start.earlier?.done ?? 0,
                plainInterval: .seconds(10),
                isQuiet: self.quiet
            )
        )
        if !self.quiet { for line in start.notes { Standard.error.print(line) } }
        Interrupts.handle(announces: true)
        try await client.start()
        var report = await job.send(with: client, from: reader)
        await client.shutdown()
        report.failures += start.finish(hasReplaced: report.hasReplaced)
        for failure in report.failures { Standard.error.print("apns: \(failure)") }
        self.print(report, canResume: start.file.isRegular)
        if report.status != ExitStatus.success { throw report.status }
    }

    private func print(_ report: BulkReport, canResume: Bool) {
        let counts = report.counts
        if let reason = report.stop ?? counts.configurationError?.message { Standard.error.print("apns: \(reason)") }
        for line in counts.causeLines.prefix(20) { Standard.error.print("  \(line)") }
        if canResume { for line in counts.advice { Standard.error.print(line) } }
        if self.json { Standard.output.print(JSONText.encode(report.summary)) }
        Standard.error.print(counts.line)
    }

    /// `--dry-run`: does everything except sending.
    private func rehearse(
        _ run: BulkJobManifest,
        _ push: PreparedPush,
        _ reader: LineReader,
        _ options: ToolSettings
    ) throws {
        let earlier = try self.files.resume ? BulkStart.readEarlier(run, results: self.files.results, self.files) : nil
        var rehearsal = BulkRehearsal(run: run, push: push, endpoint: options.configuration.environment.description)
        try rehearsal.read(reader, path: self.files.tokens, earlier: earlier)
        if self.json {
            Standard.output.print(JSONText.encode(rehearsal.summary))
        } else {
            Standard.output.print(rehearsal.text)
        }
        if rehearsal.invalid > 0 { throw ExitStatus.rejected }
    }
}
