#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// A TCP port of 127.0.0.1 that refuses connections. It is bound for as long as the object lives, so that no other test
/// gets the port and listens on it.
public final class ClosedPort: Sendable {
    private let descriptor: Int32
    public let number: Int

    /// - Parameter wanted: The port; 0 for any. Nil if another socket has it.
    public init?(_ wanted: Int = 0) {
        // A child process that another test starts at the same time must not inherit the socket.
        #if canImport(Glibc)
            let type = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
        #elseif canImport(Musl)
            let type = SOCK_STREAM | SOCK_CLOEXEC
        #else
            let type = SOCK_STREAM
        #endif
        var address = sockaddr_in()
        address.sin_port = in_port_t(truncatingIfNeeded: wanted).bigEndian
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = in_addr_t(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let descriptor = socket(AF_INET, type, 0)
        let isBound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, length) == 0 && getsockname(descriptor, $0, &length) == 0
            }
        }
        self.descriptor = descriptor
        self.number = Int(UInt16(bigEndian: address.sin_port))
        if !isBound { return nil }
    }

    deinit { close(self.descriptor) }
}
