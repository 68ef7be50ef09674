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
        _ = Files.write(Array(text.utf8), to: self.descriptor)
    }

    /// A reader that has gone shows as an error of `write`, not as a signal that ends the process.
    static func ignoreBrokenPipes() {
        _ = signal(SIGPIPE, SIG_IGN)
    }
}

/// The few calls to the system that the tool makes.
enum Files {
    /// Opens for reading.
    static func open(_ path: String) -> Result<Int32, SystemError> {
        self.opened { self.systemOpen(path, O_RDONLY | O_CLOEXEC, 0) }
    }

    /// Makes an empty file, or empties the one that is there.
    static func create(_ path: String, mode: mode_t = 0o644) -> Result<Int32, SystemError> {
        self.opened { self.systemOpen(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode) }
    }

    static func close(_ descriptor: Int32) {
        #if canImport(Glibc)
            _ = Glibc.close(descriptor)
        #elseif canImport(Musl)
            _ = Musl.close(descriptor)
        #else
            _ = Darwin.close(descriptor)
        #endif
    }

    /// - Returns: how many bytes were read, 0 at the end.
    static func read(_ descriptor: Int32, into buffer: inout [UInt8]) -> Result<Int, SystemError> {
        while true {
            let count = buffer.withUnsafeMutableBytes { self.systemRead(descriptor, $0) }
            if count >= 0 { return .success(count) }
            let code = errno
            if code != EINTR { return .failure(SystemError(code: code)) }
        }
    }

    /// Writes all of it.
    static func write(_ bytes: [UInt8], to descriptor: Int32) -> SystemError? {
        bytes.withUnsafeBytes { bytes in
            var rest = bytes[...]
            while !rest.isEmpty {
                let count = self.systemWrite(descriptor, UnsafeRawBufferPointer(rebasing: rest))
                if count > 0 {
                    rest = rest.dropFirst(count)
                } else if count < 0, errno == EAGAIN {
                    var request = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                    _ = poll(&request, 1, 1000)
                } else if count < 0, errno != EINTR {
                    return SystemError(code: errno)
                }
            }
            return nil
        }
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
        defer { if path != "-" { self.close(descriptor) } }
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 16 * 1024)
        while true {
            let count = try self.read(descriptor, into: &piece).orUsageError(option, path)
            if count == 0 { return bytes }
            bytes.append(contentsOf: piece.prefix(count))
            guard bytes.count <= limit else {
                throw UsageError("\(option): '\(path)' has more than \(limit) bytes.")
            }
        }
    }

    private static func opened(_ call: () -> Int32) -> Result<Int32, SystemError> {
        while true {
            let descriptor = call()
            if descriptor >= 0 { return .success(descriptor) }
            let code = errno
            if code != EINTR { return .failure(SystemError(code: code)) }
        }
    }

    private static func systemOpen(_ path: String, _ flags: Int32, _ mode: mode_t) -> Int32 {
        #if canImport(Glibc)
            Glibc.open(path, flags, mode)
        #elseif canImport(Musl)
            Musl.open(path, flags, mode)
        #else
            Darwin.open(path, flags, mode)
        #endif
    }

    private static func systemRead(_ descriptor: Int32, _ buffer: UnsafeMutableRawBufferPointer) -> Int {
        #if canImport(Glibc)
            Glibc.read(descriptor, buffer.baseAddress, buffer.count)
        #elseif canImport(Musl)
            Musl.read(descriptor, buffer.baseAddress, buffer.count)
        #else
            Darwin.read(descriptor, buffer.baseAddress, buffer.count)
        #endif
    }

    private static func systemWrite(_ descriptor: Int32, _ buffer: UnsafeRawBufferPointer) -> Int {
        #if canImport(Glibc)
            Glibc.write(descriptor, buffer.baseAddress, buffer.count)
        #elseif canImport(Musl)
            Musl.write(descriptor, buffer.baseAddress, buffer.count)
        #else
            Darwin.write(descriptor, buffer.baseAddress, buffer.count)
        #endif
    }
}

/// A number of `errno` in words.
struct SystemError: Error, CustomStringConvertible {
    var code: Int32

    var description: String {
        guard let text = strerror(self.code) else { return "error \(self.code)" }
        return String(cString: text)
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
