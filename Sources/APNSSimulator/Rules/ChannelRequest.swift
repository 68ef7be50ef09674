public import APNSModel

/// What a request asks for that is about channels: a broadcast, or a call to the management host. Both are served on the
/// simulator's one port; the path tells them apart.
struct ChannelRequest: Sendable, Hashable {
    var operation: ChannelCallRecord.Operation
    var bundleID: String
    var channelID: String?

    /// Nil for another path: a push to a device, or nonsense.
    init?(_ view: RequestView) {
        guard let path = view.path, path.count > 3, path[1] != UInt8(ascii: "3") else { return nil }
        let parts = Bytes.text(path).split(separator: "/", omittingEmptySubsequences: false).map(String.init)
        let method = view.method.map(Bytes.text) ?? ""
        self.channelID = view.channelID.map(Bytes.text)
        if parts.count == 5, Array(parts[..<4]) == ["", "4", "broadcasts", "apps"] {
            self.bundleID = parts[4]
            self.operation = method == "POST" ? .broadcast : .unknown
        } else if parts.count == 5, Array(parts[..<3]) == ["", "1", "apps"] {
            self.bundleID = parts[3]
            switch (parts[4], method) {
            case ("channels", "POST"): self.operation = .create
            case ("channels", "GET"): self.operation = .read
            case ("channels", "DELETE"): self.operation = .delete
            case ("all-channels", "GET"): self.operation = .list
            case ("channels", _), ("all-channels", _): self.operation = .unknown
            default: return nil
            }
        } else {
            return nil
        }
        if self.bundleID.isEmpty { return nil }
    }
}

/// One broadcast, or one call about channels, as the simulator saw it.
public struct ChannelCallRecord: Sendable, Hashable {
    /// What was asked for. Open.
    public struct Operation: RawRepresentable, Sendable, Hashable, Codable, CustomStringConvertible {
        public let rawValue: String

        public init(rawValue: String) {
            self.rawValue = rawValue
        }

        public var description: String { self.rawValue }

        /// A broadcast to a channel's subscribers.
        public static let broadcast = Operation(rawValue: "broadcast")
        /// Make a channel.
        public static let create = Operation(rawValue: "create")
        /// Look at a channel.
        public static let read = Operation(rawValue: "read")
        /// Delete a channel.
        public static let delete = Operation(rawValue: "delete")
        /// List an app's channels.
        public static let list = Operation(rawValue: "list")
        /// A method that the path does not know.
        public static let unknown = Operation(rawValue: "unknown")
    }

    /// What was asked for.
    public var operation: Operation
    /// The app in the path.
    public var bundleID: String
    /// What stood in `apns-channel-id`; for `create` the new channel's.
    public var channelID: String?
    /// What stood in `apns-request-id`, or what the simulator made up; nil if it is no UUID.
    public var requestID: APNSID?
    /// The number of the connection, and when it was decided on.
    public var connection: Int
    /// When it was decided on.
    public var time: ContinuousClock.Instant
    /// What stood in `apns-push-type`; nil if the header is missing.
    public var pushType: String?
    /// The number in `apns-priority`; nil if the header is missing or no number.
    public var priority: Int64?
    /// The number in `apns-expiration`, seconds since 1970; nil if the header is missing or no number.
    public var expiration: Int64?
    /// At most 64 KiB; empty unless the configuration records payloads.
    public var payload: [UInt8]
    /// What was answered, or would have been; nil if nobody looked at it.
    public var status: Int?
    /// The reason that was answered, or would have been; nil with 2xx.
    public var reason: RejectionReason?
    /// What became of the request.
    public var fate: PushRecord.Fate
    /// It was done, whether or not the response arrived.
    public var isProcessed: Bool
}
