#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Reading a small file as a whole, with errors that say what to do.
enum KeyFile {
    /// Far more than any key; so that a wrong path (a log, a device) does not fill the memory.
    static let limit = 64 * 1024

    /// The bytes of the file at `path`. Blocks while it reads.
    ///
    /// Pipes and devices are refused: one without a writer would block a thread for ever, and what comes out of a pipe
    /// cannot be read a second time, as a file that may change is.
    ///
    /// - Throws: `missing` for an empty path, `fileUnreadable` for all that the system refuses and for what is no regular
    ///   file, `notAKey` above 64 KiB.
    ///
    /// - Parameter kind: What the file is called in the errors.
    static func read(
        _ path: String,
        setting: String,
        kind: String = ".p8 file"
    ) throws(APNSConfigurationError) -> [UInt8] {
        guard !path.isEmpty else {
            throw APNSConfigurationError(
                .missing,
                setting: setting,
                message: "The path is empty. Name the \(kind) that the developer portal gave you."
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
                    message: "The file '\(path)' has more than 64 KiB, so it is not a key. Name the \(kind)."
                )
            }
            return bytes
        }
    }

    /// The key id in a file name of the form `AuthKey_XXXXXXXXXX.p8`, which the developer portal gives. What a browser
    /// adds to the name of a second copy, as in `AuthKey_XXXXXXXXXX (1).p8`, does no harm.
    static func keyID(inNameOf path: String) -> String? {
        guard let name = path.split(separator: "/").last, name.hasPrefix("AuthKey_"), name.hasSuffix(".p8") else {
            return nil
        }
        let id = name.dropFirst("AuthKey_".count).prefix { $0.isASCII && ($0.isLetter || $0.isNumber) }
        return id.utf8.count == TokenIdentifiers.length ? String(id) : nil
    }

    /// The path, or that of the file that a symbolic link leads to if only that one's name holds a key id: keys are then
    /// changed by changing the link.
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
                "There is no file '\(path)': '~' is understood by shells only, so write the path in full."
            case ENOENT, ENOTDIR:
                "There is no file '\(path)'. Check the path; a relative one starts at the process's working directory."
            case EACCES, EPERM:
                "The process may not read '\(path)'. Give its user the right to read the file."
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
