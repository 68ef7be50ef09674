import APNSPool
import ArgumentParser

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// A file that could not be read or written in the middle of the work.
struct InputOutputError: Error, CustomStringConvertible {
    var description: String
}

/// Files as the tool's options name them.
enum Files {
    /// Opens for reading.
    static func open(_ path: String) -> Result<Int32, SystemError> {
        SystemFile.open(path, O_RDONLY | O_CLOEXEC)
    }

    /// Makes an empty file, or empties the one that is there.
    static func create(_ path: String, mode: UInt32 = 0o644) -> Result<Int32, SystemError> {
        SystemFile.open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode: mode)
    }

    /// Opens for writing behind what is there.
    static func openForAppending(_ path: String, reads: Bool) -> Result<Int32, SystemError> {
        SystemFile.open(path, (reads ? O_RDWR : O_WRONLY) | O_CREAT | O_APPEND | O_CLOEXEC, mode: 0o644)
    }

    /// Whether a read would not block: there is something, or the end.
    static func isReadable(_ descriptor: Int32, withinMilliseconds milliseconds: Int32) -> Bool {
        var request = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        // An error is for the read to report.
        return poll(&request, 1, milliseconds) != 0
    }

    /// A file in a message: its path in quotation marks, or standard input for `-`.
    static func name(_ path: String) -> String { path == "-" ? "standard input" : "'\(path)'" }

    /// A whole file, or standard input for `-`.
    static func contents(of path: String, option: String, limit: Int) throws -> [UInt8] {
        let descriptor = path == "-" ? ToolProcess.current.input : try self.open(path).orUsageError(option, path)
        defer { if path != "-" { SystemFile.close(descriptor) } }
        let bytes = try SystemFile.contents(of: descriptor, limit: limit).orUsageError(option, path)
        guard bytes.count <= limit else {
            throw UsageError("\(option): \(self.name(path)) has more than \(limit) bytes.")
        }
        return bytes
    }

    // MARK: What is known of a file

    static func exists(_ path: String) -> Bool { access(path, F_OK) == 0 }

    static func isRegular(_ path: String) -> Bool {
        guard let mode = self.mode(path) else { return false }
        return mode & S_IFMT == S_IFREG
    }

    /// Type and rights; nil if there is no such file.
    static func mode(_ path: String) -> mode_t? {
        var status = stat()
        return stat(path, &status) == 0 ? status.st_mode : nil
    }

    // MARK: Changes that are made as a whole

    /// Puts these bytes in the place of what the file has: all of them or none, and on the disk when this returns.
    static func replace(_ path: String, with bytes: [UInt8], option: String) throws {
        let copy = path + ".new"
        let descriptor = try self.create(copy).orUsageError(option, copy)
        let failure = SystemFile.write(bytes, to: descriptor) ?? self.synchronize(descriptor)
        SystemFile.close(descriptor)
        if let failure = failure ?? self.rename(copy, path) {
            self.remove(copy)
            throw InputOutputError(description: "\(option): '\(path)' cannot be written: \(failure)")
        }
        self.synchronizeFolder(of: path)
    }

    static func rename(_ path: String, _ other: String) -> SystemError? {
        #if canImport(Glibc)
            let status = Glibc.rename(path, other)
        #elseif canImport(Musl)
            let status = Musl.rename(path, other)
        #else
            let status = Darwin.rename(path, other)
        #endif
        return status == 0 ? nil : SystemError(code: errno)
    }

    static func remove(_ path: String) { _ = unlink(path) }

    static func truncate(_ descriptor: Int32, to length: Int) -> SystemError? {
        ftruncate(descriptor, off_t(length)) == 0 ? nil : SystemError(code: errno)
    }

    static func synchronize(_ descriptor: Int32) -> SystemError? {
        // What has no disk behind it says EINVAL.
        fsync(descriptor) == 0 || errno == EINVAL ? nil : SystemError(code: errno)
    }

    /// So that a change of a name in it outlives a loss of power; where that cannot be had, it is not missed.
    static func synchronizeFolder(of path: String) {
        let folder = path.lastIndex(of: "/").map { String(path[...$0]) } ?? "."
        guard case .success(let descriptor) = SystemFile.open(folder, O_RDONLY | O_CLOEXEC) else { return }
        _ = fsync(descriptor)
        SystemFile.close(descriptor)
    }

    static func copyMode(of descriptor: Int32, to other: Int32) -> SystemError? {
        var status = stat()
        guard fstat(descriptor, &status) == 0, fchmod(other, status.st_mode & 0o7777) == 0 else {
            return SystemError(code: errno)
        }
        return nil
    }

    /// Whether nobody else had the lock. It ends with the process.
    static func lock(_ descriptor: Int32) -> Bool { flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK }

    // MARK: Lines

    static func firstLineEnd(in bytes: UnsafeRawBufferPointer) -> Int? {
        guard let base = bytes.baseAddress, let found = memchr(base, Int32(UInt8(ascii: "\n")), bytes.count) else {
            return nil
        }
        return UnsafeRawPointer(found) - base
    }

    static func firstLineEnd(in bytes: ArraySlice<UInt8>) -> Int? {
        bytes.withUnsafeBytes { self.firstLineEnd(in: $0) }.map { bytes.startIndex + $0 }
    }
}

extension Result where Failure == SystemError {
    /// The value, or a sentence that names the option and the file.
    func orUsageError(_ option: String, _ path: String) throws -> Success {
        switch self {
        case .success(let value): return value
        case .failure(let error): throw UsageError("\(option): \(Files.name(path)) cannot be opened: \(error).")
        }
    }
}
