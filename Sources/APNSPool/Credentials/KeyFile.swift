#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Reads a small file as a whole, with errors that state the remedy.
enum KeyFile {
    /// Far above the size of any key. It keeps a wrong path (a log, a device) from filling the memory.
    static let limit = 64 * 1024

    /// Returns the bytes of the file at `path`. Blocks while it reads.
    ///
    /// Pipes and devices are rejected: a pipe without a writer would block a thread forever, and a pipe cannot be read
    /// again when its contents change.
    ///
    /// - Parameter kind: The name of the file in errors.
    /// - Throws: `missing` for an empty path; `fileUnreadable` for system errors and for anything but a regular file;
    ///   `notAKey` above 64 KiB.
    static func read(
        _ path: String,
        setting: String,
        kind: String = ".p8 file"
    ) throws(APNSConfigurationError) -> [UInt8] {
        guard !path.isEmpty else {
            throw APNSConfigurationError(
                .missing,
                setting: setting,
                message: "The path is empty. Name the \(kind)."
            )
        }
        let descriptor: Int32
        switch SystemFile.openRegular(path) {
        case .success(let opened): descriptor = opened
        case .failure(let error): throw self.unreadable(path, error.code, setting, kind)
        }
        defer { SystemFile.close(descriptor) }
        switch SystemFile.contents(of: descriptor, limit: self.limit) {
        case .failure(let error):
            throw self.unreadable(path, error.code, setting, kind)
        case .success(let bytes):
            guard bytes.count <= self.limit else {
                throw APNSConfigurationError(
                    .notAKey,
                    setting: setting,
                    message: "The file '\(path)' has more than 64 KiB, so it is the wrong file. Name the \(kind)."
                )
            }
            return bytes
        }
    }

    /// The key id in a file name of the form `AuthKey_XXXXXXXXXX.p8`, the developer portal's form. A suffix that a
    /// browser adds to a second copy, as in `AuthKey_XXXXXXXXXX (1).p8`, is ignored.
    static func keyID(inNameOf path: String) -> String? {
        guard let name = path.split(separator: "/").last, name.hasPrefix("AuthKey_"), name.hasSuffix(".p8") else {
            return nil
        }
        let id = name.dropFirst("AuthKey_".count).prefix { $0.isASCII && ($0.isLetter || $0.isNumber) }
        return id.utf8.count == TokenIdentifiers.length ? String(id) : nil
    }

    /// Returns the path. If only the target of a symbolic link has a key id in its name, returns the target's path, so
    /// that you can change keys by changing the link.
    static func nameWithKeyID(_ path: String) -> String {
        guard self.keyID(inNameOf: path) == nil, let target = realpath(path, nil) else { return path }
        defer { free(target) }
        let name = String(cString: target)
        return self.keyID(inNameOf: name) == nil ? path : name
    }

    private static func unreadable(
        _ path: String,
        _ code: Int32,
        _ setting: String,
        _ kind: String
    ) -> APNSConfigurationError {
        let advice =
            switch code {
            case ENOENT where path.hasPrefix("~"):
                "There is no file '\(path)': only shells expand '~', so write the full path."
            case ENOENT, ENOTDIR:
                "There is no file '\(path)'. Check the path; a relative path starts at the process's working directory."
            case EACCES, EPERM:
                "The process may not read '\(path)'. Give its user permission to read the file."
            case EISDIR:
                "'\(path)' is a directory. Name the \(kind) in it."
            case SystemError.notRegular.code:
                "'\(path)' is not a regular file, but a pipe or a device. Name the \(kind), or give its text."
            default:
                "'\(path)' cannot be read: \(SystemError(code: code))."
            }
        return APNSConfigurationError(.fileUnreadable, setting: setting, message: advice)
    }
}
