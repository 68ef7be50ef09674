@_spi(Relay) import APNSPool
import ArgumentParser

/// A file that became unreadable or unwritable during the work.
struct InputOutputError: Error, CustomStringConvertible {
    var description: String
}

/// Operations on the files that the tool's options name.
enum Files {
    /// Opens a file for reading.
    static func open(_ path: String) -> Result<Int32, SystemError> {
        SystemFile.open(path, O_RDONLY | O_CLOEXEC)
    }

    /// Creates an empty file, or empties an existing one.
    static func create(_ path: String, mode: UInt32 = 0o644) -> Result<Int32, SystemError> {
        SystemFile.open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode: mode)
    }

    /// Opens a file for appending.
    static func openForAppending(_ path: String, reads: Bool) -> Result<Int32, SystemError> {
        SystemFile.open(path, (reads ? O_RDWR : O_WRONLY) | O_CREAT | O_APPEND | O_CLOEXEC, mode: 0o644)
    }

    /// Whether a read would not block, because there is input or the end of the file.
    static func isReadable(_ descriptor: Int32, withinMilliseconds milliseconds: Int32) -> Bool {
        var request = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        // The read reports any error.
        return poll(&request, 1, milliseconds) != 0
    }

    /// The name of a file in a message: its path in quotation marks, or standard input for `-`.
    static func name(_ path: String) -> String { path == "-" ? "standard input" : "'\(path)'" }

    /// Reads a whole file; `-` stands for standard input.
    static func contents(of path: String, option: String, limit: Int) throws -> [UInt8] {
        let descriptor = path == "-" ? ToolProcess.current.input : try self.open(path).orUsageError(option, path)
        defer { if path != "-" { SystemFile.close(descriptor) } }
        let bytes = try SystemFile.contents(of: descriptor, limit: limit).orUsageError(option, path)
        guard bytes.count <= limit else {
            throw UsageError("\(option): \(self.name(path)) has more than \(limit) bytes.")
        }
        return bytes
    }

    // MARK: File properties

    static func exists(_ path: String) -> Bool { access(path, F_OK) == 0 }

    static func isRegular(_ path: String) -> Bool {
        guard let mode = self.mode(path) else { return false }
        return mode & S_IFMT == S_IFREG
    }

    /// The file's type and permissions; nil if there is no such file.
    static func mode(_ path: String) -> mode_t? {
        var status = stat()
        return stat(path, &status) == 0 ? status.st_mode : nil
    }

    // MARK: Outputs

    /// Checks that a file may be overwritten.
    ///
    /// - Parameters:
    ///   - purpose: what the file is for, such as `results`.
    ///   - isOurs: whether bytes at the beginning of a file show that it was written for this purpose.
    /// - Returns: the path without symbolic links at its end.
    /// - Throws: `UsageError`.
    @discardableResult
    static func checkedOutput(
        _ path: String,
        option: String,
        purpose: String,
        isOurs: ([UInt8]) -> Bool
    ) throws -> String {
        let file = OutputFile(path)
        if let refusal = file.refusal(purpose: purpose, isOurs: isOurs) { throw UsageError("\(option): \(refusal)") }
        return file.path
    }

    /// Checks that no output is also an input, or a second output, by whatever path or link. Call it before any file is
    /// opened for writing.
    ///
    /// - Parameters:
    ///   - outputs: the files that are written, with the options that name them; `-` is standard output.
    ///   - inputs: the files that are read, with their options; `-` is standard input.
    /// - Throws: `UsageError`.
    static func checkDistinct(outputs: [(option: String, path: String)], inputs: [(option: String, path: String)])
        throws
    {
        let process = ToolProcess.current
        var seen: [FileIdentity: String] = [:]
        for (option, path) in inputs {
            let identity = path == "-" ? FileIdentity(descriptor: process.input) : FileIdentity(path)
            if let identity { seen[identity] = seen[identity] ?? option }
        }
        for (option, path) in outputs {
            guard let identity = path == "-" ? FileIdentity(descriptor: process.output) : FileIdentity(path) else {
                continue
            }
            if let other = seen[identity] {
                let name = path == "-" ? "standard output" : "'\(path)'"
                throw UsageError(
                    "\(option): \(name) would be overwritten, and it is also the file of \(other). Nothing was written. "
                        + "Give \(option) a file of its own."
                )
            }
            seen[identity] = option
        }
    }

    // MARK: Atomic changes

    /// The file that replaces another one when it is complete.
    static func copy(of path: String) -> String { path + ".new" }

    /// Replaces the content of a file with these bytes, completely or not at all. They are on the disk when this
    /// returns.
    static func replace(_ path: String, with bytes: [UInt8], option: String) throws {
        let copy = self.copy(of: path)
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
        // A descriptor without a disk, such as a pipe, reports EINVAL.
        fsync(descriptor) == 0 || errno == EINVAL ? nil : SystemError(code: errno)
    }

    /// Makes a rename in the folder survive a power loss. Errors are ignored: not every system supports it.
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

    /// Takes the lock if no other process has it, and returns whether it did. The lock ends with the process.
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
    /// Returns the value, or throws an error that names the option and the file.
    func orUsageError(_ option: String, _ path: String) throws -> Success {
        switch self {
        case .success(let value): return value
        case .failure(let error): throw UsageError("\(option): \(Files.name(path)) cannot be opened: \(error).")
        }
    }
}
