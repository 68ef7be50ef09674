/// The push gateway for Matrix. It exists if an app has a Matrix app id.
public struct MatrixSettings: Sendable, Hashable {
    /// The maximum number of pushes to one device in a minute. Default 60.
    public var pushesPerMinute = 60
    /// The maximum number of pushes from one address in a minute. Default 6,000.
    public var sourcePushesPerMinute = 6_000

    public init() {}
}
