/// What a push is about: a newer one about the same thing, to the same device, makes those superfluous that were not sent
/// yet.
///
/// ```swift
/// let options = DeliveryOptions(supersedes: "match-42")
/// let outcome = await client.deliver(update, to: activityToken, options: options)
/// ```
/// A key counts for one device token and topic; a Live Activity has a token of its own, so that one key will do for all of
/// them. Any text.
public struct SupersedeKey: RawRepresentable, Sendable, Hashable, ExpressibleByStringLiteral, CustomStringConvertible {
    public let rawValue: String

    public init(rawValue: String) {
        self.rawValue = rawValue
    }

    /// A key of any text.
    public init(_ rawValue: String) {
        self.rawValue = rawValue
    }

    /// A key written as a literal.
    public init(stringLiteral value: String) {
        self.rawValue = value
    }

    public var description: String { self.rawValue }
}

extension PreparedPush {
    /// Whether it ends a Live Activity.
    package var endsActivity: Bool {
        self.pushType == .liveactivity && JSONParser.apsEvent(self.payload) == LiveActivityEvent.end.rawValue
    }
}
