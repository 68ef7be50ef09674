/// The subject of a push. A newer push with an equal key to one device replaces older pushes that have not been sent
/// yet.
///
/// Any text. A key applies to one device token, app and environment. Each Live Activity has its own token, so one key
/// serves for all of them.
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
