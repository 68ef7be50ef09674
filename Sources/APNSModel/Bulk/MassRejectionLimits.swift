/// How many rejected device tokens indicate a wrong environment or topic instead of invalid tokens.
///
/// Responses arrive in any order. While more pushes than `window` are in flight, the window grows to that number and
/// the required share of rejections stays equal. Otherwise a burst of early rejections would count as if nothing else
/// had been sent.
public struct MassRejectionLimits: Sendable, Hashable {
    /// How many device tokens make a window, each counted once with its latest response. A window begins with a rejection,
    /// and when it is full, the next one begins. Default 200; 1 to 100,000.
    public let window: Int
    /// How many rejections within the window are a mass rejection: `BadDeviceToken`, `DeviceTokenNotForTopic` and
    /// `TopicDisallowed`. Default 150; 1 to `window`. A larger number turns the detection off.
    public let rejections: Int

    /// - Parameters:
    ///   - window: how many device tokens are considered, clamped to 1 to 100,000.
    ///   - rejections: how many rejections within the window are a mass rejection, at least 1. More than `window` turns
    ///     the detection off.
    public init(window: Int = 200, rejections: Int = 150) {
        self.window = min(max(window, 1), 100_000)
        self.rejections = max(rejections, 1)
    }

    /// Turns the detection off.
    public static let off = MassRejectionLimits(rejections: .max)
}
