/// How urgently a push is delivered: the header `apns-priority`. Coded as its number.
///
/// Open, but APNs accepts only the three named here; which of them depends on the push type.
/// Source: Apple, "Sending notification requests to APNs".
public struct Priority: RawRepresentable, Sendable, Hashable, Codable, CustomStringConvertible {
    public let rawValue: Int

    public init(rawValue: Int) {
        self.rawValue = rawValue
    }

    public var description: String { String(self.rawValue) }

    /// 10: at once. What APNs assumes without the header.
    public static let immediate = Priority(rawValue: 10)
    /// 5: takes the device's power into account; may be grouped and delayed.
    public static let conserve = Priority(rawValue: 5)
    /// 1: puts the device's power above everything and never wakes the device.
    public static let low = Priority(rawValue: 1)
}
