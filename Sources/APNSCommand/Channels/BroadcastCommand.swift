import APNSPool
import ArgumentParser

/// `apns broadcast`
struct BroadcastCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "broadcast",
        abstract: "Sends an update of a Live Activity to a channel.",
        discussion: """
            All devices that subscribe to the channel receive it. The payload is that of a Live Activity, with the \
            event update or end. To make a channel, run `apns channels create`.

            Send the score of a match:

              echo '{"aps":{"timestamp":'$(date +%s)',"event":"update",
                "content-state":{"home":2,"guest":1}}}' |
              apns broadcast --topic com.grasscove.Fern \\
                --channel dHN0LXNyY2gtY2hubA== --payload -

            Send the end; devices that come online within an hour still receive it:

              apns broadcast --channel dHN0LXNyY2gtY2hubA== \\
                --payload end.json --expiration +3600

            APNs limits how often it accepts a broadcast to one channel (429). The command then waits as long as \
            APNs says, and sends it again, for at most two minutes.

            Exit status:
              0   APNs accepted it, even if the channel has no subscribers
              1   APNs refused it, and a resend does not help
              64  an option or the payload is wrong
              75  it was not sent, APNs refused it for a reason that passes, or the
                  outcome is unknown
              78  the configuration is wrong: key, certificate, host
            """
    )

    @Option(help: ArgumentHelp("The channel's id.", valueName: "id"))
    var channel: String

    @Option(
        help: ArgumentHelp("The JSON payload: a file, or - for standard input.", valueName: "file"),
        completion: .file(extensions: ["json"])
    )
    var payload: String

    @Option(parsing: .unconditional, help: ArgumentHelp("10 (at once) or 5.", valueName: "n"))
    var priority: String?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "The time until which APNs keeps it, if the channel stores messages: seconds since 1970, +SECONDS from "
                + "now, or 0.",
            valueName: "time"
        )
    )
    var expiration: String?

    @Flag(help: "Print one JSON object.")
    var json = false

    @OptionGroup(title: "Connection") var common: CommonOptions

    func validate() throws {
        _ = try ChannelArgument.id(self.channel)
        _ = try HeaderValues(priority: self.priority, expiration: self.expiration, now: WallTime.now)
    }

    /// How long the command waits in all for a channel that gets too many broadcasts.
    private static let patience = Duration.seconds(120)

    /// Sends the broadcast. While APNs responds with 429, sends it again after the time that the response names.
    private static func send(
        _ notification: PushNotification,
        to channel: ChannelID,
        with client: APNSClient
    ) async -> PushOutcome {
        let end = ContinuousClock.now.advanced(by: Self.patience)
        while true {
            let outcome = await client.broadcast(notification, to: channel)
            guard outcome.error?.rejection?.status == 429, let time = outcome.retryAfter,
                ContinuousClock.now.advanced(by: time) < end
            else { return outcome }
            Standard.error.print("apns: the channel gets too many broadcasts; trying again in \(time)")
            guard (try? await Task.sleep(for: time)) != nil else { return outcome }
        }
    }

    func run() async throws {
        let options = try self.common.checked()
        options.warnAboutCertificate(.liveactivity)
        let topic = try options.requireLiveActivityTopic()
        let channel = try ChannelArgument.id(self.channel)
        let headers = try HeaderValues(priority: self.priority, expiration: self.expiration, now: WallTime.now)
        let bytes = try Payload.read(self.payload)
        let notification = headers.applied(
            to: PushNotification(topic: topic, pushType: .liveactivity, rawPayload: bytes)
        )
        let outcome = try await withAPNSClient(configuration: options.configuration) { client in
            await Self.send(notification, to: channel, with: client)
        }
        if let error = outcome.error, error.code == .validation {
            let note = Payload.blanksNote(bytes, limit: PushType.broadcastPayloadLimit)
            throw UsageError("The broadcast cannot be sent: \(error.message).\(note)")
        }
        if self.json {
            Standard.output.print(
                outcome.error.map { JSONText.encode(FailedCall($0)) }
                    ?? JSONText.encode(SentBroadcast(outcome, channel: channel))
            )
        } else {
            let row = ResultRow(token: channel.rawValue, outcome: outcome, line: 1)
            Standard.output.print(row.text)
        }
        var counts = OutcomeCounts()
        counts.resendsUnknown = true
        counts.count(outcome)
        if let fault = counts.configurationError { Standard.error.print("apns: \(fault.message)") }
        if counts.status != ExitStatus.success { throw counts.status }
    }
}

/// A broadcast that APNs accepted, as JSON.
private struct SentBroadcast: Encodable {
    var outcome: String
    var channel: String
    var requestID: String?
    var attempts: Int

    init(_ outcome: PushOutcome, channel: ChannelID) {
        self.outcome = outcome.certainty.rawValue
        self.channel = channel.rawValue
        self.requestID = outcome.apnsID?.description
        self.attempts = outcome.attempts
    }
}
