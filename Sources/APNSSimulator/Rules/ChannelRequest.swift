public import APNSModel

/// The meaning of a request about channels: a broadcast, or a call to the management host. The simulator serves both on
/// one port and distinguishes them by path.
struct ChannelRequest: Sendable, Hashable {
    var operation: ChannelCallRecord.Operation
    var bundleID: String
    var channelID: String?

    /// Nil for any other path: a push to a device, or an invalid one.
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

/// One channel call that the simulator received.
public struct ChannelCallRecord: Sendable, Hashable {
    /// The requested operation. Open: later versions may add values.
    public struct Operation: RawRepresentable, Sendable, Hashable, Codable, CustomStringConvertible {
        public let rawValue: String

        public init(rawValue: String) {
            self.rawValue = rawValue
        }

        public var description: String { self.rawValue }

        /// A broadcast to a channel's subscribers.
        public static let broadcast = Operation(rawValue: "broadcast")
        /// Create a channel.
        public static let create = Operation(rawValue: "create")
        /// Read a channel's configuration.
        public static let read = Operation(rawValue: "read")
        /// Delete a channel.
        public static let delete = Operation(rawValue: "delete")
        /// List an app's channels.
        public static let list = Operation(rawValue: "list")
        /// A method that the path does not support.
        public static let unknown = Operation(rawValue: "unknown")
    }

    /// The requested operation.
    public var operation: Operation
    /// The app in the path.
    public var bundleID: String
    /// The value of `apns-channel-id`; for `create` the new channel's id.
    public var channelID: String?
    /// The value of `apns-request-id`, or the id that the simulator generated; nil if it is not a UUID.
    public var requestID: APNSID?
    /// The number of the connection.
    public var connection: Int
    /// The time of the decision.
    public var time: ContinuousClock.Instant
    /// The first 64 KiB of the payload; empty unless the configuration records payloads.
    public var payload: [UInt8]
    /// The status that was sent, or would have been sent; nil if the request was not checked.
    public var status: Int?
    /// The reason that was sent, or would have been sent; nil with 2xx.
    public var reason: RejectionReason?
    /// How the request ended.
    public var fate: PushRecord.Fate
    /// Whether the operation was carried out, whether or not the response arrived.
    public var isProcessed: Bool
}
