extension APNSClientConfiguration {
    /// A configuration of settings in texts: environment variables, JSON files. `Docs/Configuration.md` has all keys.
    ///
    /// ```swift
    /// let configuration = try APNSClientConfiguration(settings: [.environment(), .jsonFile("/etc/fern/push.json")])
    /// ```
    /// What no source sets has its default. The files of keys and certificates are read, to find what is wrong with them
    /// now; this blocks.
    ///
    /// - Parameters:
    ///   - sources: Each setting is taken from the first that has it.
    ///   - prefix: What the keys stand below. Another one for each client where there are several: `push.fern` makes
    ///     `PUSH_FERN_POOL_SIZE`. It may be empty; unknown variables are then not found.
    /// - Throws: ``APNSSettingsError`` with everything that is wrong.
    public init(settings sources: [APNSSettingsSource], prefix: String = "apns") throws(APNSSettingsError) {
        var configuration = APNSClientConfiguration(authentication: .withoutToken)
        try configuration.apply(settings: sources, prefix: prefix)
        self = configuration
    }

    /// Sets what the sources have, and leaves the rest as it is.
    ///
    /// ```swift
    /// var configuration = APNSClientConfiguration(authentication: .withoutToken, logger: logger)
    /// configuration.pool.size = 2  // unless the environment says something else
    /// try configuration.apply(settings: [.environment()])
    /// ```
    /// - Parameters: as for `init(settings:prefix:)`.
    /// - Throws: ``APNSSettingsError`` with everything that is wrong. Nothing is then set.
    public mutating func apply(
        settings sources: [APNSSettingsSource],
        prefix: String = "apns"
    ) throws(APNSSettingsError) {
        var draft = SettingsDraft(self, prefix: prefix)
        draft.read(sources)
        draft.readFiles()
        if let error = draft.error { throw error }
        self = draft.configuration
    }
}
