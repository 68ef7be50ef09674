/// The subject of a push. A newer push with an equal key to one device replaces older pushes that have not been sent
/// yet.
///
/// ```swift
/// let options = DeliveryOptions(supersedes: "match-42")
/// let outcome = await client.deliver(update, to: activityToken, options: options)
/// ```
/// Any text. A key applies to one device token and topic. Each Live Activity has its own token, so you can use one key
/// for all of them.
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
    /// Whether the push ends a Live Activity.
    package var endsActivity: Bool {
        self.pushType == .liveactivity && JSONParser.apsEvent(self.payload) == LiveActivityEvent.end.rawValue
    }
}
