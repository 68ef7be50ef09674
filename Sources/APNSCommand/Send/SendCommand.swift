import APNSPool
import ArgumentParser

/// The options that build a notification on the command line.
struct NotificationOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The alert's title.", valueName: "text"))
    var title: String?

    @Option(help: ArgumentHelp("The alert's subtitle.", valueName: "text"))
    var subtitle: String?

    @Option(help: ArgumentHelp("The alert's text.", valueName: "text"))
    var body: String?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("The number on the app's icon; 0 removes it.", valueName: "n")
    )
    var badge: String?

    @Option(help: ArgumentHelp("A sound file of the app, or default.", valueName: "name"))
    var sound: String?

    @Option(
        help: ArgumentHelp(
            "The whole payload as JSON: a file, or - for standard input. It is sent unchanged.",
            valueName: "file"
        ),
        completion: .file(extensions: ["json"])
    )
    var payload: String?

    private var hasAlert: Bool { self.title != nil || self.subtitle != nil || self.body != nil }

    func validate() throws {
        if self.payload != nil {
            for (option, value) in [
                ("--title", self.title), ("--subtitle", self.subtitle), ("--body", self.body), ("--badge", self.badge),
                ("--sound", self.sound),
            ] where value != nil {
                throw UsageError("\(option) and --payload contradict each other: the payload is sent unchanged.")
            }
        }
    }

    /// The notification, encoded and checked.
    func prepared(topic: String, headers: HeaderOptions) throws -> PreparedPush {
        if let payload { return try headers.prepared(topic: topic, payload: try Payload.read(payload)) }
        return try headers.prepared(try self.content(topic: topic, type: headers.type))
    }

    private func content(topic: String, type: PushType) throws -> PushNotification {
        var notification = PushNotification(topic: topic, pushType: type)
        if self.hasAlert {
            let alert = Alert(title: self.title, subtitle: self.subtitle, body: self.body)
            notification = PushNotification(topic: topic, alert: alert).pushType(type)
        }
        if let badge {
            notification = notification.badge(try wholeNumber(badge, "--badge", 0...Int(Int32.max)))
        }
        if let sound { notification = notification.sound(sound) }
        if !self.hasAlert, self.badge == nil, self.sound == nil {
            switch type {
            case .background: notification = notification.contentAvailable()
            case .widgets, .controls: notification = notification.contentChanged()
            case .alert:
                throw UsageError("There is nothing to send: give --title, --body, --badge, --sound or --payload.")
            default: break
            }
        }
        return notification
    }
}

/// `apns send`
struct SendCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "send",
        abstract: "Sends one notification to some devices.",
        discussion: """
            Prints a line for each device token, in the given order: the token, the outcome of the push, and its cause.

            Send an alert to one device with a development build:

              apns send --environment development --key AuthKey_9UC9ZLQ8YW.p8 \\
                --team-id ABBM6U9RM5 --topic com.grasscove.Fern \\
                --title "Hey There" --body "Did you see it?" --badge 1 740f4707bebcf74f

            Send your own payload to two devices of a simulator, and print the results as JSON:

              echo '{"aps":{"content-available":1},"id":7}' |
              apns send --endpoint https://localhost:2197 --ca-file sim/ca.pem \\
                --topic com.grasscove.Fern --push-type background --payload - \\
                --json 740f4707bebcf74f 9bb9d77c0cab6b2f

            \(ExitStatus.help)
            """
    )

    @OptionGroup(title: "Notification") var notification: NotificationOptions
    @OptionGroup(title: "Notification") var headers: HeaderOptions
    @OptionGroup(title: "Connection") var common: CommonOptions

    @Flag(help: "Print rows of JSON, as in the results of `apns bulk`.")
    var json = false

    @Argument(help: ArgumentHelp("Device tokens, hexadecimal.", valueName: "token"))
    var tokens: [String]

    func run() async throws {
        let options = try self.common.checked()
        options.warnAboutCertificate(self.headers.type)
        let push = try self.notification.prepared(topic: try options.requireTopic(), headers: self.headers)
        let tokens = self.tokens
        let printsJSON = self.json
        let counts = try await withAPNSClient(configuration: options.configuration) { client in
            await withTaskGroup(of: (Int, PushOutcome).self) { group in
                var counts = OutcomeCounts()
                var rows = [ResultRow?](repeating: nil, count: tokens.count)
                var printed = 0
                var waiting = tokens.enumerated().makeIterator()
                func sendNext() {
                    guard let (index, token) = waiting.next() else { return }
                    group.addTask { (index, await client.deliver(push, to: token)) }
                }
                for _ in 0..<options.inFlight { sendNext() }
                while let (index, outcome) = await group.next() {
                    rows[index] = ResultRow(token: tokens[index], outcome: outcome, line: index + 1)
                    counts.count(outcome)
                    while printed < rows.count, let row = rows[printed] {
                        Standard.output.print(printsJSON ? row.json : row.text)
                        printed += 1
                    }
                    sendNext()
                }
                return counts
            }
        }
        if let fault = counts.configurationError { Standard.error.print("apns: \(fault.message)") }
        if counts.status != ExitStatus.success { throw counts.status }
    }
}
