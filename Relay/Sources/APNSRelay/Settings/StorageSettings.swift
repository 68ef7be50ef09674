public import PushQueue

/// Where and how long pushes are stored.
public struct StorageSettings: Sendable, Hashable {
    /// The SQLite file. Default `apns-relay.sqlite` in the working directory.
    public var file = "apns-relay.sqlite"
    /// The most pushes without an outcome. At the limit, requests get 503. Default 10 million.
    public var capacity = 10_000_000
    public var retention = Retention()

    public init() {}
}
