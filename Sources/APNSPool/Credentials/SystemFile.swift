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
        while true {
            #if canImport(Glibc)
                let descriptor = Glibc.open(path, flags, mode_t(truncatingIfNeeded: mode))
            #elseif canImport(Musl)
                let descriptor = Musl.open(path, flags, mode_t(truncatingIfNeeded: mode))
            #else
                let descriptor = Darwin.open(path, flags, mode_t(truncatingIfNeeded: mode))
            #endif
            if descriptor >= 0 { return .success(descriptor) }
            let code = errno
            if code != EINTR { return .failure(SystemError(code: code)) }
        }
    }

    /// Opens a regular file for reading. Never waits for another process, as opening a pipe does.
    package static func openRegular(_ path: String) -> Result<Int32, SystemError> {
        let descriptor: Int32
        switch self.open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) {
        case .success(let opened): descriptor = opened
        case .failure(let error): return .failure(error)
        }
        var information = stat()
        guard fstat(descriptor, &information) == 0 else {
            let error = SystemError(code: errno)
            self.close(descriptor)
            return .failure(error)
        }
        let kind = information.st_mode & S_IFMT
        guard kind == S_IFREG else {
            self.close(descriptor)
            return .failure(kind == S_IFDIR ? SystemError(code: EISDIR) : .notRegular)
        }
        return .success(descriptor)
    }

    /// - Returns: The error that the system reports for earlier writes, if any.
    @discardableResult
    package static func close(_ descriptor: Int32) -> SystemError? {
        #if canImport(Glibc)
            let status = Glibc.close(descriptor)
        #elseif canImport(Musl)
            let status = Musl.close(descriptor)
        #else
            let status = Darwin.close(descriptor)
        #endif
        return status == 0 ? nil : SystemError(code: errno)
    }

    /// - Returns: The number of bytes read; 0 at the end.
    package static func read(_ descriptor: Int32, into buffer: inout [UInt8]) -> Result<Int, SystemError> {
        while true {
            let count = buffer.withUnsafeMutableBytes { buffer in
                #if canImport(Glibc)
                    Glibc.read(descriptor, buffer.baseAddress, buffer.count)
                #elseif canImport(Musl)
                    Musl.read(descriptor, buffer.baseAddress, buffer.count)
                #else
                    Darwin.read(descriptor, buffer.baseAddress, buffer.count)
                #endif
            }
            if count >= 0 { return .success(count) }
            let code = errno
            if code != EINTR { return .failure(SystemError(code: code)) }
        }
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

    /// Writes all bytes, and waits while the other end accepts none.
    package static func write(_ bytes: [UInt8], to descriptor: Int32) -> SystemError? {
        bytes.withUnsafeBytes { bytes in
            var rest = bytes[...]
            while !rest.isEmpty {
                let piece = UnsafeRawBufferPointer(rebasing: rest)
                #if canImport(Glibc)
                    let count = Glibc.write(descriptor, piece.baseAddress, piece.count)
                #elseif canImport(Musl)
                    let count = Musl.write(descriptor, piece.baseAddress, piece.count)
                #else
                    let count = Darwin.write(descriptor, piece.baseAddress, piece.count)
                #endif
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
}
