/// How urgently a push is delivered: the header `apns-priority`. Coded as its number.
///
/// Open, but APNs accepts only the three values below; the push type determines which of them are allowed.
/// Source: Apple, "Sending notification requests to APNs".
public struct Priority: RawRepresentable, Sendable, Hashable, Codable, CustomStringConvertible {
    public let rawValue: Int

    public init(rawValue: Int) {
        self.rawValue = rawValue
    }

    public var description: String { String(self.rawValue) }

    /// 10: delivered immediately. APNs' default without the header.
    public static let immediate = Priority(rawValue: 10)
    /// 5: delivery considers the device's power; the push may be grouped and delayed.
    public static let conserve = Priority(rawValue: 5)
    /// 1: delivery gives the device's power the highest priority and never wakes the device.
    public static let low = Priority(rawValue: 1)
}
