/// The settings that you can change while a client runs; see ``APNSClient/update(_:)``.
///
/// All other settings, such as the environment, trust, the proxy, retries and the logger, require a new client. To
/// change the authentication, call ``APNSClient/replaceAuthentication(_:within:)``.
public struct APNSClientSettings: Sendable {
    /// The pool settings; all of them can change. A new `maxConcurrentStreams` applies to connections that open later.
    public var pool: APNSClientConfiguration.Pool
    /// The time limits; all of them can change. Pushes and bulk calls that have started keep their deadlines. A new
    /// `connect` applies to the next connect.
    public var timeouts: APNSClientConfiguration.Timeouts

    init(_ configuration: APNSClientConfiguration) {
        self.pool = configuration.pool
        self.timeouts = configuration.timeouts
    }

    func applied(to configuration: APNSClientConfiguration) -> APNSClientConfiguration {
        var result = configuration
        result.pool = self.pool
        result.timeouts = self.timeouts
        return result
    }
}

extension APNSClient {
    /// The current settings.
    public var settings: APNSClientSettings { self.runtime.live.settings }

    /// Changes settings before the client runs or while it runs. No push is lost.
    ///
    /// ```swift
    /// try client.update { settings in
    ///     settings.pool.size = 8
    ///     settings.timeouts.deadline = .seconds(10)
    /// }
    /// ```
    ///
    /// Calls from several tasks are applied one after another; each one starts from the result of the previous one.
    /// Every later call on the client sees the new values. This method does not wait for connections:
    /// - If `pool.size` grows, the additional connections open one after another, `pool.connectSpacing` apart.
    ///   `prewarm` waits for them.
    /// - Connections above `pool.size + pool.maxOverflow` accept no more pushes and close when their pushes in flight
    ///   have their outcomes.
    /// - Other connections above `pool.size` close after they have been idle for `pool.idleTimeout`.
    /// - Pushes that already wait keep waiting, even if there are more of them than a smaller `pool.maxQueued` allows.
    ///
    /// Do not call this on the clients of a group, because the group counts their connections. Use
    /// ``APNSClientGroup/update(_:)``, which changes all of them.
    ///
    /// - Parameter change: modifies the settings that it receives. It is called immediately, and again if another
    ///   update was applied in between.
    /// - Throws: `APNSConfigurationError` (`outOfRange`), which names the setting that is out of range. Nothing is
    ///   changed in that case.
    public func update(_ change: (inout APNSClientSettings) -> Void) throws(APNSConfigurationError) {
        try self.runtime.update(change)
    }
}
