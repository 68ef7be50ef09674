/// When so many device tokens are refused that the environment or the topic must be wrong, and not the tokens.
///
/// Answers come in any order: while more pushes than `window` are in flight, the window is as large as that, with the
/// same share of refusals, or a burst of early refusals would count as if nothing else had been sent.
public struct MassRejectionLimits: Sendable, Hashable {
    /// Of so many device tokens, the last ones that were answered, each counted once. Default 200; 1 to 100,000.
    public let window: Int
    /// So many answered `BadDeviceToken`, `DeviceTokenNotForTopic` or `TopicDisallowed` are too many. Default 150; 1 to
    /// `window`, where a larger number switches the breaker off.
    public let rejections: Int

    /// - Parameters:
    ///   - window: of so many device tokens, 1 to 100,000; values beyond are taken as these.
    ///   - rejections: so many refused ones are too many, at least 1; more than `window` switches it off.
    public init(window: Int = 200, rejections: Int = 150) {
        self.window = min(max(window, 1), 100_000)
        self.rejections = max(rejections, 1)
    }

    /// Nothing is too much.
    public static let off = MassRejectionLimits(rejections: .max)
}
