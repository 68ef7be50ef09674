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

/// The standard streams, written to without a buffer of the C library: what was printed is out.
struct Standard: Sendable {
    static let output = Standard(descriptor: 1)
    static let error = Standard(descriptor: 2)

    let descriptor: Int32

    var isTerminal: Bool { isatty(self.descriptor) == 1 }

    func print(_ text: String) {
        self.write(text + "\n")
    }

    /// Whoever reads may have gone (`apns … | head`); that is no reason to complain.
    func write(_ text: String) {
        _ = SystemFile.write(Array(text.utf8), to: self.descriptor)
    }

    /// A reader that has gone shows as an error of `write`, not as a signal that ends the process.
    static func ignoreBrokenPipes() {
        _ = signal(SIGPIPE, SIG_IGN)
    }
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

    /// Whether a read would not block: there is something, or the end.
    static func isReadable(_ descriptor: Int32, withinMilliseconds milliseconds: Int32) -> Bool {
        var request = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        // An error is for the read to report.
        return poll(&request, 1, milliseconds) != 0
    }

    /// A whole file, or standard input for `-`.
    static func contents(of path: String, option: String, limit: Int) throws -> [UInt8] {
        let descriptor = path == "-" ? 0 : try self.open(path).orUsageError(option, path)
        defer { if path != "-" { SystemFile.close(descriptor) } }
        let bytes = try SystemFile.contents(of: descriptor, limit: limit).orUsageError(option, path)
        guard bytes.count <= limit else { throw UsageError("\(option): '\(path)' has more than \(limit) bytes.") }
        return bytes
    }
}

extension Result where Failure == SystemError {
    /// The value, or a sentence that names the option and the file.
    func orUsageError(_ option: String, _ path: String) throws -> Success {
        switch self {
        case .success(let value): return value
        case .failure(let error): throw UsageError("\(option): '\(path)' cannot be opened: \(error).")
        }
    }
}
