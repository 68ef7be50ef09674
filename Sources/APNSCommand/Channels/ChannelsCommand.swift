import APNSPool
import ArgumentParser

/// `apns channels`
struct ChannelsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "channels",
        abstract: "Makes, lists, shows and deletes channels for broadcasts.",
        discussion: """
            A channel belongs to the app of --topic, in one environment. Broadcasts must be switched on for the app in \
            the developer portal.

            Make a channel that keeps the newest broadcast, show it, and delete it:

              id=$(apns channels create --storage most-recent-message)
              apns channels show "$id"
              apns channels delete "$id"

            With --json each command prints one JSON object, also when it fails.

            Exit status:
              0   the command succeeded, or the channel to delete did not exist
              1   APNs refused, and a repetition does not help
              64  an option or the id is wrong
              75  it was not done, APNs refused for a reason that passes, or the
                  outcome is unknown; try again (before another create, check
                  the list)
              78  the configuration is wrong: key, certificate, host
            """,
        subcommands: [ListChannels.self, CreateChannel.self, ShowChannel.self, DeleteChannel.self]
    )
}

/// A command that makes one channel call.
protocol ChannelCommand: AsyncParsableCommand {
    var common: CommonOptions { get }
    var json: Bool { get }
}

extension ChannelCommand {
    /// Connects, makes the call and prints its result.
    ///
    /// - Parameter text: formats the result for people.
    func perform<Value: Encodable & Sendable>(
        text: (Value) -> String,
        _ call: (APNSChannels, _ bundleID: String) async throws(PushError) -> Value
    ) async throws {
        let options = try self.common.checked()
        options.warnAboutCertificate(.liveactivity)
        let bundleID = try options.requireLiveActivityTopic()
        var configuration = options.configuration
        // No pool connections: the command sends no pushes.
        configuration.pool.size = 0
        configuration.pool.maxOverflow = 1
        let result: Result<Value, PushError> = try await withAPNSClient(configuration: configuration) {
            client in
            do throws(PushError) {
                return .success(try await call(client.channels, bundleID))
            } catch {
                return .failure(error)
            }
        }
        switch result {
        case .success(let value):
            let text = self.json ? JSONText.encode(value) : text(value)
            if !text.isEmpty { Standard.output.print(text) }
        case .failure(let error):
            if error.code == .validation { throw UsageError("\(error.message).") }
            if self.json { Standard.output.print(JSONText.encode(FailedCall(error))) }
            Standard.error.print("apns: \(error.certainty.rawValue), \(error.message)")
            var counts = OutcomeCounts()
            counts.resendsUnknown = true
            counts.count(.failed(error))
            throw counts.status
        }
    }
}

/// A failed call, as JSON.
struct FailedCall: Encodable {
    var outcome: String
    var code: String
    var status: Int?
    var reason: String?
    var message: String
    var requestID: String?
    var attempts: Int
    var advice: String
    var retryAfterSeconds: Int64?

    init(_ error: PushError) {
        self.outcome = error.certainty.rawValue
        self.code = error.code.rawValue
        self.status = error.rejection?.status
        self.reason = error.rejection?.reason?.rawValue
        self.message = error.message
        self.requestID = error.apnsID?.description
        self.attempts = error.attempts
        self.advice = error.advice.rawValue
        self.retryAfterSeconds = error.retryAfter?.components.seconds
    }
}

struct ListChannels: ChannelCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "Prints the ids of all channels, one per line."
    )

    @OptionGroup(title: "Connection") var common: CommonOptions

    @Flag(help: "Print one JSON object.")
    var json = false

    func run() async throws {
        try await self.perform(text: { (list: ChannelList) in list.ids.map(\.rawValue).joined(separator: "\n") }) {
            channels,
            bundleID throws(PushError) in
            try await channels.list(for: bundleID)
        }
    }
}

struct CreateChannel: ChannelCommand {
    static let configuration = CommandConfiguration(
        commandName: "create",
        abstract: "Makes a channel and prints its id."
    )

    @Option(
        help: ArgumentHelp(
            "What APNs keeps for devices that are offline: no-message (allows more broadcasts) or "
                + "most-recent-message. It cannot be changed later.",
            valueName: "policy"
        ),
        completion: .list(["no-message", "most-recent-message"])
    )
    var storage: String = "no-message"

    @OptionGroup(title: "Connection") var common: CommonOptions

    @Flag(help: "Print one JSON object.")
    var json = false

    func validate() throws {
        _ = try self.policy()
    }

    private func policy() throws -> MessageStoragePolicy {
        let known = [MessageStoragePolicy.noMessage, .mostRecentMessage]
        guard let policy = known.first(where: { $0.description == self.storage }) else {
            throw UsageError("--storage: '\(self.storage)' is neither no-message nor most-recent-message.")
        }
        return policy
    }

    func run() async throws {
        let policy = try self.policy()
        try await self.perform(text: { (channel: CreatedChannel) in channel.id.rawValue }) {
            channels,
            bundleID throws(PushError) in
            try await channels.create(for: bundleID, storage: policy)
        }
    }
}

/// The channel of a command.
struct ChannelArgument: ParsableArguments {
    @Argument(help: ArgumentHelp("The channel's id.", valueName: "id"))
    var text: String

    func id() throws -> ChannelID { try Self.id(self.text) }

    /// The id from an option or argument.
    static func id(_ text: String) throws -> ChannelID {
        do {
            return try ChannelID(text)
        } catch {
            throw UsageError("\(error).")
        }
    }

    func validate() throws {
        _ = try self.id()
    }
}

struct ShowChannel: ChannelCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Prints a channel's push type and storage policy."
    )

    @OptionGroup(title: "Connection") var common: CommonOptions

    @Flag(help: "Print one JSON object.")
    var json = false

    @OptionGroup var channel: ChannelArgument

    func run() async throws {
        let id = try self.channel.id()
        let text = { (channel: BroadcastChannel) in "\(channel.id) \(channel.pushType), stores \(channel.storage)" }
        try await self.perform(text: text) { channels, bundleID throws(PushError) in
            try await channels.read(id, for: bundleID)
        }
    }
}

struct DeleteChannel: ChannelCommand {
    static let configuration = CommandConfiguration(
        commandName: "delete",
        abstract: "Deletes a channel permanently."
    )

    @OptionGroup(title: "Connection") var common: CommonOptions

    @Flag(help: "Print one JSON object.")
    var json = false

    @OptionGroup var channel: ChannelArgument

    func run() async throws {
        let id = try self.channel.id()
        let text = { (deletion: ChannelDeletion) in
            deletion.existed ? "\(id) deleted" : "\(id) did not exist: deleted before, or never made for this app"
        }
        try await self.perform(text: text) { channels, bundleID throws(PushError) in
            try await channels.delete(id, for: bundleID)
        }
    }
}
