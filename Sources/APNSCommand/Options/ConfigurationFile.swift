import APNSPool
import ArgumentParser

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

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
        let bytes = try Files.contents(of: setting.text, option: setting.name, limit: 1024 * 1024)
        guard let tree = try? JSONDecoder().decode([String: Node].self, from: Data(bytes)) else {
            throw UsageError("\(setting.name): '\(setting.text)' holds no JSON object.")
        }
        var values: [String: String] = [:]
        // What stands beside the two may be other programs'.
        for (name, node) in tree where name == "apns" || name == "tool" {
            if let list = node.flatten(name, into: &values) {
                throw UsageError("\(setting.name): in '\(setting.text)' '\(list)' is a list, not one value.")
            }
        }
        let known = Self.keys.union(ClientSettings.keys.map(ClientSettings.path))
        if let stranger = values.keys.filter({ !known.contains($0) }).min() {
            throw UsageError("\(setting.name): in '\(setting.text)' '\(stranger)' is no setting of the tool.")
        }
        self.values = values
    }

    func value(_ key: String) -> String? { self.values[key] }

    private enum Node: Decodable {
        case value(String?)
        case list
        case object([String: Node])

        init(from decoder: any Decoder) throws {
            if let tree = try? [String: Node](from: decoder) {
                self = .object(tree)
                return
            }
            if (try? decoder.unkeyedContainer()) != nil {
                self = .list
                return
            }
            let value = try decoder.singleValueContainer()
            if value.decodeNil() {
                self = .value(nil)
            } else if let isSo = try? value.decode(Bool.self) {
                self = .value("\(isSo)")
            } else if let number = try? value.decode(Int.self) {
                self = .value("\(number)")
            } else if let number = try? value.decode(Double.self) {
                self = .value("\(number)")
            } else {
                self = .value(try value.decode(String.self))
            }
        }

        /// - Returns: the key of a list, if there is one.
        func flatten(_ path: String, into values: inout [String: String]) -> String? {
            switch self {
            case .value(let text):
                values[path] = text
            case .list:
                return path
            case .object(let tree):
                for (name, node) in tree {
                    if let list = node.flatten("\(path).\(name)", into: &values) { return list }
                }
            }
            return nil
        }
    }
}
