#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The bytes of a key or a certificate, or the file that they are in.
struct CredentialInput: Sendable, CustomStringConvertible {
    private enum Source: Sendable {
        case file(String)
        case bytes([UInt8])
    }

    /// Far above the size of any key. It keeps a wrong path (a log, a device) from filling the memory.
    static let limit = 64 * 1024

    private let source: Source
    /// The setting that errors name.
    let setting: String
    /// The name of the file in errors.
    private let kind: String

    /// - Parameter kind: The name of the file in errors.
    static func file(_ path: String, _ kind: String, setting: String) -> CredentialInput {
        CredentialInput(source: .file(path), setting: "authentication.\(setting)", kind: kind)
    }

    static func bytes(_ bytes: [UInt8], setting: String) -> CredentialInput {
        CredentialInput(source: .bytes(bytes), setting: "authentication.\(setting)", kind: "")
    }

    /// The file; nil for bytes.
    var path: String? {
        if case .file(let path) = self.source { path } else { nil }
    }

    /// Never includes the bytes.
    var description: String { self.path ?? self.setting }

    /// Returns the bytes. Blocks while it reads a file.
    ///
    /// Pipes and devices are rejected: a pipe without a writer would block a thread forever, and a pipe cannot be read
    /// again when its contents change.
    ///
    /// - Throws: `missing` for an empty path; `fileUnreadable` for system errors and for anything but a regular file;
    ///   `notAKey` above 64 KiB.
    func read() throws(APNSConfigurationError) -> [UInt8] {
        switch self.source {
        case .bytes(let bytes):
            return bytes
        case .file(""):
            throw self.error(.missing, "The path is empty. Name the \(self.kind).")
        case .file(let path):
            switch SystemFile.contents(ofRegular: path, limit: Self.limit) {
            case .failure(let error):
                throw self.error(.fileUnreadable, self.advice(path, error.code))
            case .success(let bytes) where bytes.count > Self.limit:
                throw self.error(
                    .notAKey,
                    "The file '\(path)' has more than 64 KiB, so it is the wrong file. Name the \(self.kind)."
                )
            case .success(let bytes):
                return bytes
            }
        }
    }

    func error(_ code: APNSConfigurationError.Code, _ message: String) -> APNSConfigurationError {
        APNSConfigurationError(code, setting: self.setting, message: message)
    }

    private func advice(_ path: String, _ code: Int32) -> String {
        switch code {
        case ENOENT where path.hasPrefix("~"):
            "There is no file '\(path)': only shells expand '~', so write the full path."
        case ENOENT, ENOTDIR:
            "There is no file '\(path)'. Check the path; a relative path starts at the process's working directory."
        case EACCES, EPERM:
            "The process may not read '\(path)'. Give its user permission to read the file."
        case EISDIR:
            "'\(path)' is a directory. Name the \(self.kind) in it."
        case SystemError.notRegular.code:
            "'\(path)' is not a regular file, but a pipe or a device. Name the \(self.kind), or give its text."
        default:
            "'\(path)' cannot be read: \(SystemError(code: code))."
        }
    }
}
