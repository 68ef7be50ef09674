/// The rate at which a bulk call starts pushes.
public struct PushRate: Sendable, Hashable, CustomStringConvertible {
    /// Pushes per second.
    public let perSecond: Double

    /// - Parameter count: 0.001 to 1,000,000,000. Values outside this range are clamped; NaN becomes 0.001.
    public static func perSecond(_ count: Double) -> PushRate {
        PushRate(perSecond: count >= 0.001 ? min(count, 1_000_000_000) : 0.001)
    }

    public var description: String { "\(self.perSecond)/s" }
}
