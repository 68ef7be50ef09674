import APNSPool
import ArgumentParser

/// The file of `--config`, a JSON object: `{"apns": {"pool": {"size": 2}}, "tool": {"topic": "com.example.app"}}`.
struct ConfigurationFile: Sendable {
    /// Those that are options, too; beside them those of `ClientSettings` are understood.
    static let keys: Set<String> = [
        "apns.keyFile", "apns.keyID", "apns.teamID", "apns.tokenFile", "apns.certificateFile", "apns.pkcs12.file",
        "apns.passphrase", "apns.environment", "apns.port", "apns.caFile", "apns.pool.size", "apns.pool.maxOverflow",
        "tool.certificateKeyFile", "tool.certificatePasswordFile", "tool.endpoint", "tool.proxy", "tool.topic",
        "tool.inFlight", "tool.timeout", "tool.verbose",
    ]

    private let values: [String: String]
    /// As it was named.
    let path: String

    init(_ setting: Setting) throws {
        self.path = setting.text
        let bytes = try Files.contents(of: setting.text, option: setting.name, limit: JSONSettings.limit)
        guard let found = try? JSONSettings.values(bytes) else {
            throw UsageError("\(setting.name): '\(setting.text)' holds no JSON object.")
        }
        var values: [String: String] = [:]
        // What stands beside the two may be other programs'.
        for (key, value) in found.sorted(by: { $0.key < $1.key })
        where ["apns", "tool"].contains(key.prefix { $0 != "." }) {
            guard case .text(let text) = value else {
                throw UsageError("\(setting.name): in '\(setting.text)' '\(key)' is a list, not one value.")
            }
            values[key] = text
        }
        let known = Self.keys.union(ClientSettings.keys.map(ClientSettings.path))
        if let stranger = values.keys.filter({ !known.contains($0) }).min() {
            throw UsageError("\(setting.name): in '\(setting.text)' '\(stranger)' is no setting of the tool.")
        }
        self.values = values
    }

    func value(_ key: String) -> String? { self.values[key] }
}
