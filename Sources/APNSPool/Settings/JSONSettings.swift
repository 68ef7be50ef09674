#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif
#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Reads settings from JSON.
enum JSONSettings {
    static let limit = 1024 * 1024

    static func source(file path: String) throws(APNSSettingsError) -> APNSSettingsSource {
        let bytes: [UInt8]
        switch SystemFile.open(path, O_RDONLY | O_CLOEXEC) {
        case .failure(let error):
            throw self.fault(.fileUnreadable, path, "the file cannot be opened: \(error)")
        case .success(let descriptor):
            defer { SystemFile.close(descriptor) }
            switch SystemFile.contents(of: descriptor, limit: self.limit) {
            case .failure(let error): throw self.fault(.fileUnreadable, path, "the file cannot be read: \(error)")
            case .success(let contents): bytes = contents
            }
        }
        guard bytes.count <= self.limit else { throw self.fault(.malformed, path, "the file has more than 1 MiB") }
        return try self.source(bytes, name: path)
    }

    static func source(_ json: [UInt8], name: String) throws(APNSSettingsError) -> APNSSettingsSource {
        do {
            var values: [String: APNSSettingsSource.Finding] = [:]
            self.flatten(try JSONDecoder().decode([String: Node].self, from: Data(json)), "", into: &values)
            return .flat(values, name: name)
        } catch {
            throw self.fault(.malformed, name, "it is not a JSON object: \(self.what(error))")
        }
    }

    private static func fault(
        _ code: APNSConfigurationError.Code,
        _ name: String,
        _ message: String
    ) -> APNSSettingsError {
        APNSSettingsError(faults: [.init(code: code, key: name, written: name, source: nil, message: message)])
    }

    /// The kind of the decoder's error. The error's own text quotes the file, which may contain a secret.
    private static func what(_ error: any Error) -> String {
        switch error {
        case DecodingError.dataCorrupted: "its syntax is wrong"
        case DecodingError.typeMismatch: "it has another type"
        default: "it cannot be decoded"
        }
    }

    /// Collects all values by their paths, such as `pool.size`. A `null` counts as absent.
    private static func flatten(
        _ tree: [String: Node],
        _ prefix: String,
        into values: inout [String: APNSSettingsSource.Finding]
    ) {
        for (name, node) in tree {
            let path = APNSSetting.path(prefix, name)
            switch node {
            case .value(let text): values[path] = .text(text)
            case .list(let nodes):
                let texts = nodes.compactMap { if case .value(let text) = $0 { text } else { nil } }
                values[path] = texts.count == nodes.count ? .list(texts) : .unusable("a list of objects or lists")
            case .object(let tree): self.flatten(tree, path, into: &values)
            case .null: break
            }
        }
    }

    private indirect enum Node: Decodable {
        case value(String)
        case list([Node])
        case object([String: Node])
        case null

        init(from decoder: any Decoder) throws {
            if let tree = try? [String: Node](from: decoder) {
                self = .object(tree)
                return
            }
            if let nodes = try? [Node](from: decoder) {
                self = .list(nodes)
                return
            }
            let value = try decoder.singleValueContainer()
            if value.decodeNil() {
                self = .null
            } else if let bool = try? value.decode(Bool.self) {
                self = .value("\(bool)")
            } else if let number = try? value.decode(Int.self) {
                self = .value("\(number)")
            } else if let number = try? value.decode(Double.self) {
                self = .value("\(number)")
            } else {
                self = .value(try value.decode(String.self))
            }
        }
    }
}
