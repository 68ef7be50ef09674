#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Describes a value of `errno`, or `notRegular`, in words.
package struct SystemError: Error, CustomStringConvertible {
    package var code: Int32

    package init(code: Int32) {
        self.code = code
    }

    /// A pipe, a socket or a device instead of a file.
    package static let notRegular = SystemError(code: -1)

    package var description: String {
        if self.code == Self.notRegular.code { return "not a regular file" }
        guard let text = strerror(self.code) else { return "error \(self.code)" }
        return String(cString: text)
    }
}

/// The system calls that read and write small files, for this library and the tool. They block, and resume after a
/// signal.
package enum SystemFile {
    package static func open(_ path: String, _ flags: Int32, mode: UInt32 = 0) -> Result<Int32, SystemError> {
        self.repeated { systemOpen(path, flags, mode_t(truncatingIfNeeded: mode)) }
    }

    /// Opens a regular file for reading. Never waits for another process, as opening a pipe does.
    package static func openRegular(_ path: String) -> Result<Int32, SystemError> {
        self.open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK).flatMap { descriptor in
            var information = stat()
            let kind = fstat(descriptor, &information) == 0 ? information.st_mode & S_IFMT : 0
            if kind == S_IFREG { return .success(descriptor) }
            self.close(descriptor)
            return .failure(kind == S_IFDIR ? SystemError(code: EISDIR) : .notRegular)
        }
    }

    /// - Returns: The error that the system reports for earlier writes, if any.
    @discardableResult
    package static func close(_ descriptor: Int32) -> SystemError? {
        systemClose(descriptor) == 0 ? nil : SystemError(code: errno)
    }

    /// - Returns: The number of bytes read; 0 at the end.
    package static func read(_ descriptor: Int32, into buffer: inout [UInt8]) -> Result<Int, SystemError> {
        buffer.withUnsafeMutableBytes { buffer in self.repeated { systemRead(descriptor, buffer) } }
    }

    /// Reads to the end, or stops once it has more than `limit` bytes.
    package static func contents(of descriptor: Int32, limit: Int) -> Result<[UInt8], SystemError> {
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 16 * 1024)
        while bytes.count <= limit {
            switch self.read(descriptor, into: &piece) {
            case .success(0): return .success(bytes)
            case .success(let count): bytes.append(contentsOf: piece.prefix(count))
            case .failure(let error): return .failure(error)
            }
        }
        return .success(bytes)
    }

    /// Reads a regular file, or stops once it has more than `limit` bytes.
    package static func contents(ofRegular path: String, limit: Int) -> Result<[UInt8], SystemError> {
        self.openRegular(path).flatMap { descriptor in
            defer { self.close(descriptor) }
            return self.contents(of: descriptor, limit: limit)
        }
    }

    /// Writes all bytes, and waits while the other end accepts none.
    package static func write(_ bytes: [UInt8], to descriptor: Int32) -> SystemError? {
        bytes.withUnsafeBytes { bytes in
            var rest = bytes[...]
            while !rest.isEmpty {
                switch self.repeated({ systemWrite(descriptor, UnsafeRawBufferPointer(rebasing: rest)) }) {
                case .success(let count):
                    rest = rest.dropFirst(count)
                case .failure(let error) where error.code == EAGAIN:
                    var request = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                    _ = poll(&request, 1, 1000)
                case .failure(let error):
                    return error
                }
            }
            return nil
        }
    }

    /// Repeats a call that a signal interrupts.
    private static func repeated<Number: SignedInteger>(_ call: () -> Number) -> Result<Number, SystemError> {
        while true {
            let result = call()
            if result >= 0 { return .success(result) }
            let code = errno
            if code != EINTR { return .failure(SystemError(code: code)) }
        }
    }
}

// The members of `SystemFile` hide the system's functions of the same names.
private func systemOpen(_ path: String, _ flags: Int32, _ mode: mode_t) -> Int32 { open(path, flags, mode) }
private func systemClose(_ descriptor: Int32) -> Int32 { close(descriptor) }
private func systemRead(_ descriptor: Int32, _ buffer: UnsafeMutableRawBufferPointer) -> Int {
    read(descriptor, buffer.baseAddress, buffer.count)
}
private func systemWrite(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> Int {
    write(descriptor, bytes.baseAddress, bytes.count)
}
