extension APNSClientConfiguration {
    /// Creates a configuration from text settings: environment variables and JSON files. `Docs/Configuration.md` lists
    /// all keys.
    ///
    /// ```swift
    /// let configuration = try APNSClientConfiguration(settings: [.environment(), .jsonFile("/etc/fern/push.json")])
    /// ```
    /// Settings that no source has keep their defaults. The files of keys and certificates are read now to detect
    /// errors in them; this blocks.
    ///
    /// - Parameters:
    ///   - sources: Each setting is taken from the first source that has it.
    ///   - prefix: The prefix of all keys. With several clients, give each its own prefix: `push.fern` makes
    ///     `PUSH_FERN_POOL_SIZE`. The prefix may be empty; unknown variables are then not detected.
    /// - Throws: ``APNSSettingsError`` with all errors.
    public init(settings sources: [APNSSettingsSource], prefix: String = "apns") throws(APNSSettingsError) {
        var configuration = APNSClientConfiguration(authentication: .withoutToken)
        try configuration.apply(settings: sources, prefix: prefix)
        self = configuration
    }

    /// Applies the settings that the sources have, and leaves all others unchanged.
    ///
    /// ```swift
    /// var configuration = APNSClientConfiguration(authentication: .withoutToken, logger: logger)
    /// configuration.pool.size = 2  // unless the environment says something else
    /// try configuration.apply(settings: [.environment()])
    /// ```
    /// - Parameters: As for `init(settings:prefix:)`.
    /// - Throws: ``APNSSettingsError`` with all errors. Nothing is then changed.
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
