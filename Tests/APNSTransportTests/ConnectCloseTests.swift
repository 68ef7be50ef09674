#if os(Linux)
    import Foundation
    import NIOCore
    import NIOPosix
    import Testing

    @testable import APNSTransport

    /// Closing a connection that is still connecting.
    struct ConnectCloseTests {
        /// A listening socket whose queue is full, so that the kernel lets further connects wait.
        private final class FullListener {
            let port: Int
            private var descriptors: [Int32] = []

            init() throws {
                let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
                self.descriptors = [listener]
                // Avoids the fields of `sockaddr_in`: their module depends on the other modules in the build.
                let anyPort = try SocketAddress(ipAddress: "127.0.0.1", port: 0)
                let bound = anyPort.withSockAddr { bind(listener, $0, socklen_t($1)) == 0 && listen(listener, 0) == 0 }
                try #require(bound)
                var name = [UInt8](repeating: 0, count: 128)
                var length = socklen_t(name.count)
                let named = name.withUnsafeMutableBytes { bytes in
                    guard let address = bytes.baseAddress?.assumingMemoryBound(to: sockaddr.self) else { return false }
                    return getsockname(listener, address, &length) == 0
                }
                try #require(named)
                self.port = Int(name[2]) << 8 | Int(name[3])
                let address = try SocketAddress(ipAddress: "127.0.0.1", port: self.port)
                for _ in 0..<4 {
                    let client = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue), 0)
                    self.descriptors.append(client)
                    address.withSockAddr { _ = connect(client, $0, socklen_t($1)) }
                }
            }

            deinit {
                for descriptor in self.descriptors { close(descriptor) }
            }
        }

        @Test func closingDuringTheConnectClosesItsSocket() async throws {
            let listener = try FullListener()
            let probe = ConnectionProbe(host: "127.0.0.1", port: listener.port, tls: TLSConfiguration())
            let (channel, beginning) = await probe.openAndClose()
            #expect(beginning == .closed(.closedLocally))
            // The connect itself would take minutes to fail.
            try await #require(channel).closeFuture.get()
        }
    }
#endif
