/// The settings that may change while a client runs; see ``APNSClient/update(_:)``. What is not here, such as the
/// environment, trust, the proxy, retries or the logger, needs another client; the authentication has
/// ``APNSClient/replaceAuthentication(_:within:)``.
public struct APNSClientSettings: Sendable {
    /// All of it. `maxConcurrentStreams` takes hold with each connection's next session; `replaceConnections()` has them
    /// begin now.
    public var pool: APNSClientConfiguration.Pool
    /// All of them. Pushes and bulk calls that have begun keep their deadlines; `connect` takes hold with the next connect.
    public var timeouts: APNSClientConfiguration.Timeouts
    /// The least time between two broadcasts to one channel; those that wait keep their turns.
    public var broadcastSpacing: Duration

    init(_ configuration: APNSClientConfiguration) {
        self.pool = configuration.pool
        self.timeouts = configuration.timeouts
        self.broadcastSpacing = configuration.broadcastSpacing
    }

    func applied(to configuration: APNSClientConfiguration) -> APNSClientConfiguration {
        var result = configuration
        result.pool = self.pool
        result.timeouts = self.timeouts
        result.broadcastSpacing = self.broadcastSpacing
        return result
    }
}

extension APNSClient {
    /// The settings as they are now.
    public var settings: APNSClientSettings { self.runtime.live.settings }

    /// Changes settings while the client runs, or before. No push is lost by it.
    ///
    /// ```swift
    /// try client.update { settings in
    ///     settings.pool.size = 8
    ///     settings.timeouts.deadline = .seconds(10)
    /// }
    /// ```
    /// Calls from several tasks take effect one after the other, each on what the one before it left. All calls that come
    /// after it see the new values. It does not wait for connections: those that `pool.size` wants more are opened one after
    /// the other, `pool.connectSpacing` apart (`prewarm` waits for them); those above `pool.size + pool.maxOverflow` take
    /// no further push, and close when the pushes in flight on them have their outcomes. Connections between `pool.size`
    /// and that number close after `pool.idleTimeout` without work. Pushes that wait go on waiting, beyond a smaller
    /// `pool.maxQueued`, too. Not for the clients of a group, whose connections the group counts:
    /// ``APNSClientGroup/update(_:)`` changes all of them.
    ///
    /// - Parameter change: changes what it is given. Called at once, and again if another update came between.
    /// - Throws: `APNSConfigurationError` (`outOfRange`) naming the setting that is out of its limits. Nothing is changed
    ///   then.
    public func update(_ change: (inout APNSClientSettings) -> Void) throws(APNSConfigurationError) {
        try self.runtime.update(change)
    }
}
