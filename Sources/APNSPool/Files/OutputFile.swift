#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A file that is about to be written, emptied or replaced, checked so that nothing else is destroyed.
///
/// Every path that a setting or an option names for writing passes through here. Only a file that does not exist, is
/// empty, or was written for the same purpose may be overwritten.
@_spi(Relay) public struct OutputFile: Sendable {
    /// The path without symbolic links at its end. A rename to this path replaces the file, not a link to it.
    @_spi(Relay) public let path: String

    /// - Parameter path: The path as the user gave it.
    @_spi(Relay) public init(_ path: String) {
        self.path = Self.target(of: path)
    }

    /// Returns why the file must not be overwritten, with the remedy; nil if it may be.
    ///
    /// - Parameters:
    ///   - purpose: What the file is for, such as `a provider token`.
    ///   - isOurs: Whether bytes at the beginning of a file show that it was written for this purpose.
    @_spi(Relay) public func refusal(purpose: String, isOurs: ([UInt8]) -> Bool) -> String? {
        var status = stat()
        guard stat(self.path, &status) == 0 else { return self.linkRefusal }
        if let kind = Self.kind(ofMode: UInt32(status.st_mode)) {
            return "'\(self.path)' is \(kind), not a file. Nothing was written to it. Give a file of its own."
        }
        if status.st_size == 0 { return nil }
        switch SystemFile.contents(ofRegular: self.path, limit: Self.examined) {
        case .failure(let error):
            return "'\(self.path)' exists and cannot be read: \(error). Give a file that this user may read and write."
        case .success(let bytes) where isOurs(bytes):
            return nil
        case .success:
            return "'\(self.path)' exists, and its contents are not \(purpose). Nothing was written to it. "
                + "Give a file of its own, or remove this one."
        }
    }

    /// How many bytes at the beginning of a file are examined.
    private static let examined = 64 * 1024

    /// The name of a kind of file that is never overwritten; nil for a regular file.
    ///
    /// - Parameter mode: The member `st_mode` of a `stat`.
    package static func kind(ofMode mode: UInt32) -> String? {
        switch mode_t(truncatingIfNeeded: mode) & S_IFMT {
        case S_IFREG: nil
        case S_IFDIR: "a folder"
        case S_IFIFO: "a pipe"
        case S_IFSOCK: "a socket"
        default: "a device"
        }
    }

    // MARK: - Links

    /// As many as Linux follows.
    private static let mostLinks = 40

    private static func isLink(_ path: String) -> Bool {
        var status = stat()
        return lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFLNK
    }

    /// The path after all symbolic links at its end, also if there is no file yet.
    private static func target(of path: String) -> String {
        var path = path
        for _ in 0..<self.mostLinks {
            guard self.isLink(path) else { return path }
            var buffer = [UInt8](repeating: 0, count: Int(PATH_MAX))
            let count = buffer.withUnsafeMutableBytes { bytes in
                readlink(path, bytes.bindMemory(to: CChar.self).baseAddress!, bytes.count)
            }
            guard count > 0 else { return path }
            let link = String(decoding: buffer.prefix(count), as: UTF8.self)
            let folder = path.lastIndex(of: "/").map { String(path[...$0]) } ?? ""
            path = link.hasPrefix("/") ? link : folder + link
        }
        return path
    }

    private var linkRefusal: String? {
        Self.isLink(self.path) ? "'\(self.path)' is a symbolic link that leads in a circle. Remove it." : nil
    }
}

/// The identity of a file, whatever path leads to it: its device and inode. For a file that does not exist, those of
/// its folder, and its name.
@_spi(Relay) public struct FileIdentity: Hashable, Sendable {
    private let device: UInt64
    private let inode: UInt64
    private var name = ""

    private init?(_ status: stat) {
        // A terminal, /dev/null or a connection may be both read and written.
        if [S_IFCHR, S_IFSOCK].contains(status.st_mode & S_IFMT) { return nil }
        self.device = UInt64(truncatingIfNeeded: status.st_dev)
        self.inode = UInt64(truncatingIfNeeded: status.st_ino)
    }

    /// Nil for a terminal, another character device or a socket, and if there is neither the file nor its folder.
    @_spi(Relay) public init?(_ path: String) {
        let path = OutputFile(path).path
        var status = stat()
        if stat(path, &status) == 0 {
            self.init(status)
            return
        }
        let slash = path.lastIndex(of: "/")
        guard stat(slash.map { String(path[...$0]) } ?? ".", &status) == 0 else { return nil }
        self.init(status)
        self.name = slash.map { String(path[path.index(after: $0)...]) } ?? path
    }

    /// Nil for a terminal, another character device or a socket.
    package init?(descriptor: Int32) {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { return nil }
        self.init(status)
    }
}
