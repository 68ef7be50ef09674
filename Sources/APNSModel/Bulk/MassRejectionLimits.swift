/// How many refused device tokens show that the environment or the topic is wrong, and not the tokens.
///
/// Responses come in any order. While more pushes than `window` are in flight, the window is as large as that, with the
/// same share of rejections; else a burst of early rejections would count as if nothing else had been sent.
public struct MassRejectionLimits: Sendable, Hashable {
    /// How many of the device tokens that had a response last are considered, each once. Default 200; 1 to 100,000.
    public let window: Int
    /// How many rejections among them trip the breaker: `BadDeviceToken`, `DeviceTokenNotForTopic` and `TopicDisallowed`.
    /// Default 150; 1 to `window`. A larger number disables the breaker.
    public let rejections: Int

    /// - Parameters:
    ///   - window: how many device tokens are considered, 1 to 100,000. Values outside are clamped.
    ///   - rejections: how many rejections among them trip the breaker, at least 1. More than `window` disables it.
    public init(window: Int = 200, rejections: Int = 150) {
        self.window = min(max(window, 1), 100_000)
        self.rejections = max(rejections, 1)
    }

    /// Disables the breaker.
    public static let off = MassRejectionLimits(rejections: .max)
}
