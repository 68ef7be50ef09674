import APNSPool
import Dispatch
import Logging
import PostgresPushQueue
import PushQueue

/// Reads the settings again while the relay runs, and applies all changes or none.
actor SettingsReload {
    /// Reads all settings. It may block.
    typealias Read = @Sendable () throws(RelaySettingsError) -> LoadedSettings

    /// The parts of the relay that depend on settings which can change.
    struct Parts: Sendable {
        var live: LiveSettings
        var tls: ListenerTLS?
        var group: APNSClientGroup
        /// The shared provider tokens; nil if each app's credential has its own.
        var tokens: (any ProviderTokenSource)?
        var webhooks: Webhooks
        /// Applies the rates and the capacities of callers and apps.
        var setLimits: @Sendable (RelaySettings) -> Void
        /// Tells programs that store pushes with SQL which apps there are.
        var publish: (@Sendable (SQLIntake) async throws(QueueError) -> Void)?
        /// Lets the routes of these apps begin again, with the present settings.
        var restart: @Sendable (Set<String>) async -> Void
    }

    private let parts: Parts
    private let read: Read
    private let metrics: RelayMetrics
    private let logger: Logger
    private var loaded: LoadedSettings
    /// The errors of the last reading.
    private var lastMessages: [String] = []
    /// The last reload. The next one begins after it.
    private var last: Task<SettingsChanges, any Error>?

    /// - Parameters:
    ///   - loaded: the settings that apply now.
    ///   - parts: receive new settings.
    ///   - metrics: receive the result of each reload.
    ///   - logger: receives the changes and the errors. It gets no secrets.
    ///   - read: reads the settings again.
    init(
        _ loaded: LoadedSettings,
        parts: Parts,
        metrics: RelayMetrics,
        logger: Logger,
        read: @escaping Read
    ) {
        self.loaded = loaded
        self.parts = parts
        self.metrics = metrics
        self.logger = logger
        self.read = read
        metrics.setSettings(areCurrent: true)
    }

    /// The files whose changes matter, with their contents when they were read.
    var files: FileChanges.Contents { self.loaded.files }

    /// Whether the last reading had an error.
    var hasFailed: Bool { !self.lastMessages.isEmpty }

    /// Reads the settings and applies them. Calls at the same time run one after the other.
    ///
    /// - Parameter reason: why, for the log.
    /// - Throws: ``SettingsReloadError``. Nothing was changed then.
    @discardableResult
    func reload(_ reason: String) async throws -> SettingsChanges {
        let previous = self.last
        let task = Task {
            _ = await previous?.result
            return try await self.perform(reason)
        }
        self.last = task
        return try await task.value
    }

    private func perform(_ reason: String) async throws(SettingsReloadError) -> SettingsChanges {
        do throws(SettingsReloadError) {
            let changes = try await self.apply()
            self.metrics.setSettings(areCurrent: true)
            self.lastMessages = []
            var metadata = changes.texts.mapValues { Logger.MetadataValue.string($0) }
            metadata["reason"] = "\(reason)"
            self.logger.notice(
                changes.isEmpty ? "The settings were read again; nothing has changed" : "New settings apply",
                metadata: metadata
            )
            return changes
        } catch {
            self.metrics.setSettings(areCurrent: false)
            // A failed reading is repeated.
            for message in error.messages where !self.lastMessages.contains(message) {
                self.logger.error(
                    "The settings cannot be applied; the old ones stay",
                    metadata: ["error": "\(message)", "reason": "\(reason)"]
                )
            }
            self.lastMessages = error.messages
            throw error
        }
    }

    private func apply() async throws(SettingsReloadError) -> SettingsChanges {
        let (old, read, parts, logger) = (self.loaded, self.read, self.parts, self.logger)
        // Everything that can fail is tried first.
        let result = await DispatchQueue.global().perform { () -> Result<Checked, SettingsReloadError> in
            Result { () throws(SettingsReloadError) in try Checked(read, old, parts, logger) }
        }
        let checked = try result.get()
        let (new, tls) = (checked.loaded, checked.tls)
        let intake = new.settings.sqlIntake
        let isPublished = intake != old.settings.sqlIntake
        if isPublished { try await self.publish(intake) }
        var changes = SettingsChanges()
        changes.callers = .init(old.settings.callers, new.settings.callers) { $0.name }
        changes.webhooks = .init(old.settings.webhooks, new.settings.webhooks) { $0.name }
        changes.apps = checked.apps
        do throws(SettingsReloadError) {
            try await self.replaceApps(changes.apps, of: old.settings, with: new.settings)
        } catch {
            if isPublished { try? await self.publish(old.settings.sqlIntake) }
            throw error
        }
        if let tls, let listener = parts.tls {
            changes.certificates = !tls.isSame(as: listener.current)
            listener.set(tls)
        }
        parts.live.set(new.settings)
        parts.setLimits(new.settings)
        parts.webhooks.set(new.settings.webhooks)
        self.loaded = new
        let names = changes.apps
        await parts.restart(Set(names.added + names.removed + names.changed))
        return changes
    }

    private func publish(_ intake: SQLIntake) async throws(SettingsReloadError) {
        do throws(QueueError) {
            try await self.parts.publish?(intake)
        } catch {
            throw SettingsReloadError(["database: \(error.message)"])
        }
    }

    /// How long a reload waits for APNs' verdict on a new key.
    private static let probeTime = Duration.seconds(30)

    /// Changes the apps of the group. If one cannot be used, or APNs does not accept its new key, the old ones stay.
    private func replaceApps(
        _ names: SettingsChanges.Names,
        of old: RelaySettings,
        with new: RelaySettings
    ) async throws(SettingsReloadError) {
        let changed = Set(names.added + names.changed)
        var done: Set<String> = []
        for app in new.groupApps(tokens: self.parts.tokens) where changed.contains(app.name) {
            do throws(APNSAuthenticationError) {
                try await self.parts.group.replace(app, within: Self.probeTime)
                done.insert(app.name)
            } catch {
                for name in done.intersection(names.added) { self.parts.group.remove(name) }
                for app in old.groupApps(tokens: self.parts.tokens) where done.contains(app.name) {
                    try? await self.parts.group.replace(app, within: Self.probeTime)
                }
                throw SettingsReloadError(["apps.\(app.name): \(error.message)"])
            }
        }
        for name in names.removed { self.parts.group.remove(name) }
    }
}

extension LoadedSettings {
    /// What is set for each app, by its name.
    fileprivate var appValues: [String: [String: String]] {
        Dictionary(self.settings.apps.map { ($0.name, self.values(of: $0)) }) { first, _ in first }
    }
}

/// Settings that have passed all checks.
private struct Checked {
    let loaded: LoadedSettings
    let tls: TLSFiles?
    /// The differences of the apps.
    let apps: SettingsChanges.Names

    /// Blocks.
    init(
        _ read: SettingsReload.Read,
        _ old: LoadedSettings,
        _ parts: SettingsReload.Parts,
        _ logger: Logger
    ) throws(SettingsReloadError) {
        do throws(RelaySettingsError) {
            self.loaded = try read()
            try self.loaded.requireChange(from: old)
        } catch {
            throw SettingsReloadError(error.faults.map(\.description))
        }
        do throws(RelayAPIError) {
            self.tls = try TLSFiles(self.loaded.settings.http)
        } catch {
            throw SettingsReloadError(["http: \(error.message)"])
        }
        // Apps that stay as they are keep their credentials, whatever has happened to the files.
        self.apps = SettingsChanges.Names(old.appValues, self.loaded.appValues)
        let names = self.apps
        var changed = self.loaded.settings
        changed.apps.removeAll { !names.added.contains($0.name) && !names.changed.contains($0.name) }
        do throws(APNSConfigurationError) {
            _ = try changed.makeGroup(tokens: parts.tokens, logger: logger)
        } catch {
            throw SettingsReloadError(["apps: \(error)"])
        }
    }
}

/// Why new settings were not applied.
struct SettingsReloadError: Error, Sendable, Hashable {
    /// One message for each fault, at least one, as `apns-relay doctor` shows them.
    var messages: [String]

    init(_ messages: [String]) {
        self.messages = messages
    }
}
