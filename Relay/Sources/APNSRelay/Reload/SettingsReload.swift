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
        /// Shares the provider tokens with other relays; nil if there are none.
        var tokens: SharedTokenSource?
        var webhooks: Webhooks
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

    /// The files whose changes matter.
    var files: [String] { self.loaded.files }

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
            var metadata = changes.texts.mapValues { Logger.MetadataValue.string($0) }
            metadata["reason"] = "\(reason)"
            self.logger.notice(
                changes.isEmpty ? "The settings were read again; nothing has changed" : "New settings apply",
                metadata: metadata
            )
            return changes
        } catch {
            self.metrics.setSettings(areCurrent: false)
            for message in error.messages {
                self.logger.error(
                    "The settings cannot be applied; the old ones stay",
                    metadata: ["error": "\(message)", "reason": "\(reason)"]
                )
            }
            throw error
        }
    }

    private func apply() async throws(SettingsReloadError) -> SettingsChanges {
        let (old, read, parts, logger) = (self.loaded, self.read, self.parts, self.logger)
        // Everything that can fail is tried first.
        let checked = await DispatchQueue.global().perform { () -> Result<Checked, SettingsReloadError> in
            Result { () throws(SettingsReloadError) in try Checked(read, old, parts, logger) }
        }
        let (new, tls) = (try checked.get().loaded, try checked.get().tls)
        do throws(QueueError) {
            try await parts.publish?(new.settings.sqlIntake)
        } catch {
            throw SettingsReloadError(["database: \(error.message)"])
        }
        var changes = SettingsChanges()
        changes.callers = .init(
            Dictionary(old.settings.callers.map { ($0.name, $0) }) { first, _ in first },
            Dictionary(new.settings.callers.map { ($0.name, $0) }) { first, _ in first }
        )
        changes.webhooks = .init(
            Dictionary(old.settings.webhooks.map { ($0.name, $0) }) { first, _ in first },
            Dictionary(new.settings.webhooks.map { ($0.name, $0) }) { first, _ in first }
        )
        changes.apps = try self.replaceApps(of: old.settings, with: new.settings)
        if let tls, let listener = parts.tls {
            changes.certificates = !tls.isSame(as: listener.current)
            listener.set(tls)
        }
        parts.live.set(new.settings)
        parts.webhooks.set(new.settings.webhooks)
        self.loaded = new
        let names = changes.apps
        await parts.restart(Set(names.added + names.removed + names.changed))
        return changes
    }

    /// Replaces the apps of the group. If one cannot be used, the old ones stay.
    private func replaceApps(
        of old: RelaySettings,
        with new: RelaySettings
    ) throws(SettingsReloadError) -> SettingsChanges.Names {
        let before = self.identities(old)
        let names = Set(new.apps.map(\.name))
        do throws(APNSConfigurationError) {
            for app in new.groupApps(tokens: self.parts.tokens) { try self.parts.group.replace(app) }
        } catch {
            // They were tried a moment ago, so a file has changed since.
            for app in new.apps { self.parts.group.remove(app.name) }
            for app in old.groupApps(tokens: self.parts.tokens) { try? self.parts.group.replace(app) }
            throw SettingsReloadError(["\(error)"])
        }
        for app in old.apps where !names.contains(app.name) { self.parts.group.remove(app.name) }
        return SettingsChanges.Names(before, self.identities(new))
    }

    /// What identifies each app: its topic, and its credential in each environment.
    private func identities(_ settings: RelaySettings) -> [String: [String]] {
        let status = Dictionary(grouping: self.parts.group.status, by: \.app)
        return Dictionary(
            settings.apps.map { app in
                let clients = (status[app.name] ?? []).map { "\($0.environment) \($0.credential)" }
                return (app.name, [app.topic] + clients.sorted())
            }
        ) { first, _ in first }
    }
}

/// Settings that have passed all checks.
private struct Checked {
    let loaded: LoadedSettings
    let tls: TLSFiles?

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
        do throws(APNSConfigurationError) {
            _ = try self.loaded.settings.makeGroup(tokens: parts.tokens, logger: logger)
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
