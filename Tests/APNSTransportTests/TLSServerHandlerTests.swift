import CAPNSOpenSSL
import NIOCore
import NIOEmbedded
import Testing

@_spi(Relay) @testable import APNSTransport

/// TLS for servers of other protocols.
struct TLSServerHandlerTests {
    private let authority: CertificateAuthority
    private let identity: CertificateAuthority.Identity

    init() throws {
        self.authority = try CertificateAuthority()
        self.identity = try self.authority.issue(names: ["localhost"])
    }

    /// A client and a server, with bytes that stay in memory.
    private final class Link {
        let client: TLSSession
        let channel = EmbeddedChannel()
        private var received: [UInt8] = []

        init(_ test: TLSServerHandlerTests, _ change: (inout TLSConfiguration) -> Void = { _ in }) throws {
            var serverTLS = TLSConfiguration()
            serverTLS.certificateChainPEM = test.identity.certificateChainPEM
            serverTLS.privateKeyPEM = test.identity.privateKeyPEM
            // The only protocol that this client knows is HTTP/2.
            serverTLS.ignoresALPN = true
            change(&serverTLS)
            var clientTLS = TLSConfiguration()
            clientTLS.caPEM = test.authority.certificatePEM
            clientTLS.trustsSystemRoots = false
            self.client = try TLSSession(context: TLSContext(.client, configuration: clientTLS), peerName: "localhost")
            let server = try TLSSession(context: TLSContext(.server, configuration: serverTLS), peerName: "")
            try self.channel.pipeline.syncOperations.addHandler(TLSServerHandler(server))
            self.channel.connect(to: try SocketAddress(ipAddress: "127.0.0.1", port: 443), promise: nil)
        }

        /// Carries bytes in both directions until both sides are silent.
        ///
        /// - Parameter size: The maximum size of the pieces in which the server gets them.
        func exchange(pieces size: Int = .max) throws {
            while true {
                while let bytes = try self.channel.readOutbound(as: ByteBuffer.self) { self.client.feed(bytes) }
                // Fails for the missing HTTP/2, after TLS is established.
                _ = self.client.handshake()
                self.readClient()
                var bytes = self.client.takeOutput()
                if bytes.readableBytes == 0 { return }
                while let piece = bytes.readSlice(length: min(size, bytes.readableBytes)), piece.readableBytes > 0 {
                    try self.channel.writeInbound(piece)
                }
            }
        }

        private func readClient() {
            let space = UnsafeMutableRawBufferPointer.allocate(byteCount: 16_384, alignment: 16)
            defer { space.deallocate() }
            while case .bytes(let count) = self.client.read(into: space) { self.received += space[..<count] }
        }

        func send(_ bytes: [UInt8]) { bytes.withUnsafeBytes { _ = self.client.write($0) } }

        /// What the server's next handler has read.
        func read() throws -> [UInt8] {
            var bytes: [UInt8] = []
            while let part = try self.channel.readInbound(as: ByteBuffer.self) { bytes += part.readableBytesView }
            return bytes
        }

        /// What the client has read.
        func takeReceived() -> [UInt8] {
            defer { self.received = [] }
            return self.received
        }

        func finish() { _ = try? self.channel.finish(acceptAlreadyClosed: true) }
    }

    /// Counts the events that say that the peer sends nothing any more.
    private final class InputClosed: ChannelInboundHandler {
        typealias InboundIn = Any
        var count = 0
        func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
            if event as? ChannelEvent == .inputClosed { self.count += 1 }
        }
    }

    @Test("Bytes arrive whole in both directions, in pieces of any size", arguments: [1, 7, 1_400, .max])
    func pieces(_ size: Int) throws {
        let link = try Link(self)
        try link.exchange(pieces: size)
        for count in [1, 16_384, 16_385, 100_000] {
            let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 7) }
            link.send(bytes)
            try link.exchange(pieces: size)
            #expect(try link.read() == bytes)
            try link.channel.writeOutbound(ByteBuffer(bytes: bytes))
            try link.exchange(pieces: size)
            #expect(link.takeReceived() == bytes)
        }
        link.finish()
    }

    @Test("A client that has sent its last byte still gets the response, and then a close_notify")
    func halfClosed() throws {
        let link = try Link(self)
        let closed = InputClosed()
        try link.channel.pipeline.syncOperations.addHandler(closed)
        try link.exchange()
        link.send(Array("request".utf8))
        link.client.closeNotify()
        try link.exchange()
        // The end of the TCP connection's input comes after that of TLS.
        link.channel.pipeline.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
        #expect(closed.count == 1)
        try link.channel.writeOutbound(ByteBuffer(string: "response"))
        link.channel.close(mode: .all, promise: nil)
        while let bytes = try link.channel.readOutbound(as: ByteBuffer.self) { link.client.feed(bytes) }
        let space = UnsafeMutableRawBufferPointer.allocate(byteCount: 100, alignment: 16)
        defer { space.deallocate() }
        guard case .bytes(8) = link.client.read(into: space), case .closeNotify = link.client.read(into: space) else {
            Issue.record("expected the response and a close_notify")
            return
        }
        link.finish()
    }

    @Test("Many small records take no more memory than they have data")
    func smallRecords() throws {
        let link = try Link(self)
        try link.exchange()
        for _ in 0..<5_000 { link.send([7]) }
        try link.exchange()
        let read = try #require(try link.channel.readInbound(as: ByteBuffer.self))
        #expect(read.readableBytes == 5_000 && read.storageCapacity <= 5_000 * 32)
        #expect(try link.channel.readInbound(as: ByteBuffer.self) == nil)
        link.finish()
    }

    @Test("A client that requests key updates and reads no replies is disconnected")
    func unreadReplies() throws {
        let link = try Link(self)
        try link.exchange()
        link.channel.isWritable = false
        for _ in 0..<4_000 where link.channel.isActive {
            _ = SSL_key_update(link.client.ssl, SSL_KEY_UPDATE_REQUESTED)
            link.send([0])
            try link.channel.writeInbound(link.client.takeOutput())
        }
        #expect(!link.channel.isActive)
        link.finish()
    }

    @Test("Bytes that are not TLS close the connection", arguments: [true, false])
    func notTLS(_ isEstablished: Bool) throws {
        let link = try Link(self)
        if isEstablished { try link.exchange() }
        #expect(throws: WireError.self) {
            try link.channel.writeInbound(ByteBuffer(string: "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"))
        }
        #expect(!link.channel.isActive)
        // An encrypted alert; OpenSSL sends none to a client that speaks HTTP without TLS.
        #expect((try link.channel.readOutbound(as: ByteBuffer.self) != nil) == isEstablished)
        link.finish()
    }

    @Test("Before the handshake has ended, nothing can be written")
    func earlyWrite() throws {
        let link = try Link(self)
        #expect(throws: ChannelError.ioOnClosedChannel) {
            try link.channel.writeOutbound(ByteBuffer(string: "early"))
        }
        try link.exchange()
        #expect(link.takeReceived().isEmpty)
        link.finish()
    }

    @Test("A client without a certificate is disconnected where one is required")
    func clientCertificate() throws {
        let link = try Link(self) { tls in
            tls.requiresClientCertificate = true
            tls.trustsSystemRoots = false
            tls.caPEM = self.authority.certificatePEM
        }
        #expect(throws: WireError.self) { try link.exchange() }
        #expect(!link.channel.isActive)
        link.finish()
    }

    /// A certificate with a key of 112 bits, which OpenSSL reads and does not use.
    private static let weak = Array(
        """
        -----BEGIN CERTIFICATE-----
        MIIBIzCB7qADAgECAhQtbB2N7+R0zdNiYkwz50I5V22a/DAKBggqhkjOPQQDAjAM
        MQowCAYDVQQDDAF3MCAXDTI2MTEyNjE3MTAwMloYDzIxMjYxMTAyMTcxMDAyWjAM
        MQowCAYDVQQDDAF3MDIwEAYHKoZIzj0CAQYFK4EEAAYDHgAElN/mq0ikJ78EF5Vl
        O0F1smv9UvKt2I+oLqTKDKNTMFEwHQYDVR0OBBYEFMgrUI885qWxPLtxr6FjGrpr
        TLo8MB8GA1UdIwQYMBaAFMgrUI885qWxPLtxr6FjGrprTLo8MA8GA1UdEwEB/wQF
        MAMBAf8wCgYIKoZIzj0EAwIDJAAwIQIODnkaB+rFCxH1tum1ALcCDwCf41k+uQ+E
        kosspgfbpg==
        -----END CERTIFICATE-----
        -----BEGIN PRIVATE KEY-----
        ME4CAQAwEAYHKoZIzj0CAQYFK4EEAAYENzA1AgEBBA4Zrte0FpXW7wMsDZkioKEg
        Ax4ABJTf5qtIpCe/BBeVZTtBdbJr/VLyrdiPqC6kygw=
        -----END PRIVATE KEY-----
        """.utf8
    )

    @Test("Of the files for TLS, the one that cannot be used is named")
    func faults() throws {
        let (chain, key) = (Array(self.identity.certificateChainPEM.utf8), Array(self.identity.privateKeyPEM.utf8))
        let other = Array(try self.authority.issue(names: ["localhost"]).privateKeyPEM.utf8)
        let cases: [(chain: [UInt8], key: [UInt8], authorities: [UInt8]?, fault: ServerTLS.Fault)] = [
            ([], key, nil, .certificateChain), (key, key, nil, .certificateChain),
            (Array(chain.dropLast(200)), key, nil, .certificateChain),
            (chain, [], nil, .privateKey), (chain, chain, nil, .privateKey), (chain, other, nil, .keyMismatch),
            (chain, key, [], .clientAuthorities), (chain, key, key, .clientAuthorities),
        ]
        for (chain, key, authorities, fault) in cases {
            #expect(throws: fault) {
                _ = try ServerTLS(certificateChain: chain, privateKey: key, clientAuthorities: authorities)
            }
        }
        let weak = try #require(
            throws: ServerTLS.Fault.self,
            performing: {
                _ = try ServerTLS(certificateChain: Self.weak, privateKey: Self.weak, clientAuthorities: nil)
            }
        )
        guard case .notAllowed(let reason) = weak, reason.contains("too small") else {
            Issue.record("\(weak)")
            return
        }
        let tls = try ServerTLS(certificateChain: chain, privateKey: key, clientAuthorities: nil)
        let strict = try ServerTLS(certificateChain: chain, privateKey: key, clientAuthorities: chain)
        #expect(tls.isSame(as: tls) && !tls.isSame(as: strict))
        let read = try TLSIdentity.read(certificate: chain, key: key, passphrase: nil)
        #expect(tls.chainLength == 1 && tls.notAfter == read.notAfter)
    }
}
