@_spi(Relay) import APNSModel

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
        return try self.source(bytes, name: path)
    }

    static func source(_ json: [UInt8], name: String) throws(APNSSettingsError) -> APNSSettingsSource {
        let value: JSONValue
        do throws(JSONScanner.Failure) {
            value = try JSONValue(parsing: JSONFileText.utf8(json), limits: JSONScanner.Limits(bytes: self.limit))
        } catch {
            let line = json.prefix(error.offset).count { $0 == UInt8(ascii: "\n") } + 1
            // Never quotes the file, which may contain a secret.
            throw self.fault(.malformed, name, "it is not JSON: line \(line), byte \(error.offset + 1): \(error)")
        }
        guard case .object(let members) = value else { throw self.fault(.malformed, name, "it is not a JSON object") }
        var values: [String: APNSSettingsSource.Finding] = [:]
        self.flatten(members, "", into: &values)
        return .flat(values, name: name)
    }

    private static func fault(
        _ code: APNSConfigurationError.Code,
        _ name: String,
        _ message: String
    ) -> APNSSettingsError {
        APNSSettingsError(faults: [.init(code: code, key: name, written: name, source: nil, message: message)])
    }

    /// Collects all values by their paths, such as `pool.size`. A `null` counts as absent.
    private static func flatten(
        _ members: [JSONValue.Member],
        _ prefix: String,
        into values: inout [String: APNSSettingsSource.Finding]
    ) {
        for member in members {
            let path = APNSSetting.path(prefix, member.key)
            switch member.value {
            case .object(let members): self.flatten(members, path, into: &values)
            case .array(let elements):
                let texts = elements.compactMap { self.text($0) }
                values[path] = texts.count == elements.count ? .list(texts) : .unusable("a list of objects or lists")
            default: values[path] = self.text(member.value).map { .text($0) }
            }
        }
    }

    private static func text(_ value: JSONValue) -> String? {
        switch value {
        case .string(let text): text
        case .bool(let isSo): "\(isSo)"
        case .integer(let number): "\(number)"
        case .unsigned(let number): "\(number)"
        case .decimal(let number): "\(number)"
        case .double(let number): "\(number)"
        case .null, .array, .object: nil
        }
    }
}
