#if os(Linux)
    import Foundation
    import NIOCore
    import NIOPosix
    import Testing

    @testable import HTTP2Wire

    /// A connect that is given up.
    @Suite(.timeLimit(.minutes(1)))
    struct ConnectCloseTests {
        /// A listening socket whose queue is full, so that the kernel lets further connects wait.
        private final class FullListener {
            let port: Int
            private var descriptors: [Int32] = []

            init() throws {
                let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
                self.descriptors = [listener]
                var address = sockaddr_in()
                address.sin_family = sa_family_t(AF_INET)
                address.sin_addr.s_addr = inet_addr("127.0.0.1")
                var length = socklen_t(MemoryLayout<sockaddr_in>.size)
                let bound = withUnsafeMutablePointer(to: &address) { pointer in
                    pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                        bind(listener, address, length) == 0 && listen(listener, 0) == 0
                            && getsockname(listener, address, &length) == 0
                    }
                }
                try #require(bound)
                self.port = Int(in_port_t(bigEndian: address.sin_port))
                for _ in 0..<4 {
                    let client = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue), 0)
                    self.descriptors.append(client)
                    withUnsafePointer(to: &address) { pointer in
                        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { _ = connect(client, $0, length) }
                    }
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
