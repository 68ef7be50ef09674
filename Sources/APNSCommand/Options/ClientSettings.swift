import APNSPool
import ArgumentParser

/// The client's settings that are no options of the tool: they come from the environment and the file of `--config`, by
/// the names of `Docs/Configuration.md`.
enum ClientSettings {
    /// Without the prefix.
    static let keys: [String] = SettingsTable.settings.map(\.key).filter { key in
        let isTheirs = ["pool.", "timeouts.", "retry.", "massRejection.", "log.", "broadcastSpacing", "onEscalation"]
            .contains { key.hasPrefix($0) }
        return isTheirs && key != "pool.size" && key != "pool.maxOverflow"
    }

    static func path(_ key: String) -> String { APNSSetting.path("apns", key) }

    /// - Parameter hasDeadline: `--timeout` was given; it goes before `timeouts.deadline`.
    static func apply(
        to configuration: inout APNSClientConfiguration,
        from sources: inout GivenSettings,
        hasDeadline: Bool
    ) throws {
        var variables: [String: String] = [:]
        var values: [String: String] = [:]
        for key in self.keys where !(hasDeadline && key == "timeouts.deadline") {
            let path = self.path(key)
            let found = sources.find(path, nil, APNSSetting.variable(path), path)
            switch found?.origin {
            case .environment: variables[APNSSetting.variable(path)] = found?.text
            case .file: values[path] = found?.text
            case .commandLine, nil: break
            }
        }
        guard !variables.isEmpty || !values.isEmpty else { return }
        do {
            try configuration.apply(
                settings: [.environment(variables), .values(values, name: sources.sources.file?.path ?? "file")]
            )
        } catch {
            throw UsageError(error.faults.map(\.description).joined(separator: " "))
        }
    }
}
