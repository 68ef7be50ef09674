import CAPNSOpenSSL
import NIOCore
import NIOEmbedded
import Testing

@testable import APNSTransport

/// Records that TLS handles by itself: key updates, requests to renegotiate, alerts, and bytes that are not a record.
struct TLSRecordTests {
    /// A frame of an unknown type: application data that HTTP/2 ignores (RFC 9113, section 4.1).
    private let nothing = Frame(type: 0xFA, flags: 0, streamID: 0, payload: []).bytes

    /// Makes `session` request a reply that its peer's TLS sends by itself.
    private func requestReply(_ session: TLSSession) {
        if SSL_version(session.ssl) == TLS1_3_VERSION {
            _ = SSL_key_update(session.ssl, SSL_KEY_UPDATE_REQUESTED)
        } else {
            _ = SSL_renegotiate(session.ssl)
        }
        _ = SSL_do_handshake(session.ssl)
    }

    private func link(_ version: TLSConfiguration.Version) throws -> MemoryLink {
        let link = try MemoryLink(configureServer: { $0.maximumVersion = version })
        try link.shakeHands()
        _ = SSL_clear_options(link.server.ssl, UInt64(1) << 30)  // SSL_OP_NO_RENEGOTIATION
        return link
    }

    @Test("The server sets SSL_OP_NO_TICKET, so no TLS 1.2 handshake resumes a session")
    func noTicket() throws {
        let link = try self.link(.tls12)
        defer { link.finish() }
        #expect(SSL_get_options(link.server.ssl) & (UInt64(1) << 14) != 0)  // SSL_OP_NO_TICKET
    }

    @Test(
        "A client ends the connection to a server that requests TLS replies and reads none",
        arguments: [TLSConfiguration.Version.tls13, .tls12],
        [true, false]
    )
    func unreadReplies(_ version: TLSConfiguration.Version, sendsData: Bool) throws {
        let link = try self.link(version)
        link.channel.isWritable = false
        let before = link.writtenBytes
        for _ in 0..<1200 where link.channel.isActive {
            for _ in 0..<20 { self.requestReply(link.server) }
            if sendsData { self.nothing.withUnsafeBytes { _ = link.server.write($0) } }
            try link.channel.writeInbound(link.server.takeOutput())
        }
        #expect(link.delegate.events == [.ready, .closed(.flooded)])
        #expect(link.writtenBytes - before < 600_000)
        link.finish()
    }

    @Test(
        "A client ends the connection to a server that sends only requests for replies",
        arguments: [TLSConfiguration.Version.tls13, .tls12]
    )
    func requestsWithoutData(_ version: TLSConfiguration.Version) throws {
        let link = try self.link(version)
        for _ in 0..<6000 where link.channel.isActive {
            self.requestReply(link.server)
            try link.channel.writeInbound(link.server.takeOutput())
        }
        #expect(link.delegate.events == [.ready, .closed(.flooded)])
        link.finish()
    }

    @Test("A few key updates between frames do not disturb the streams")
    func keyUpdatesBetweenFrames() throws {
        let link = try self.link(.tls13)
        link.submit(1...3)
        try link.exchange()
        for stream: Int32 in [1, 3, 5] {
            for _ in 0..<20 { self.requestReply(link.server) }
            try link.send(.headers(stream, status: 200, end: true))
        }
        #expect(link.delegate.tags.sorted() == [1, 2, 3])
        #expect(!link.delegate.events.contains { if case .closed = $0 { true } else { false } })
        link.finish()
    }

    @Test("A server ends the connection of a client that requests key updates and reads no replies")
    func unreadRepliesOfAServer() throws {
        let authority = try CertificateAuthority()
        let identity = try authority.issue(names: ["localhost"])
        var serverTLS = TLSConfiguration()
        serverTLS.certificateChainPEM = identity.certificateChainPEM
        serverTLS.privateKeyPEM = identity.privateKeyPEM
        var clientTLS = TLSConfiguration()
        clientTLS.caPEM = authority.certificatePEM
        clientTLS.trustsSystemRoots = false
        let client = try TLSSession(context: TLSContext(.client, configuration: clientTLS), peerName: "localhost")
        let channel = EmbeddedChannel()
        let connection = ServerConnection(loop: channel.embeddedEventLoop)
        let handlers = try connection.makeHandlers(
            ServerEntrance(
                tls: TLSContext(.server, configuration: serverTLS),
                configuration: HTTP2ServerSession.Configuration(),
                accept: { EchoSession($0) }
            )
        )
        try channel.pipeline.syncOperations.addHandlers([handlers.gate, handlers.wire])
        channel.connect(to: try SocketAddress(ipAddress: "127.0.0.1", port: 443), promise: nil)
        for _ in 0..<3 {
            _ = client.handshake()
            try channel.writeInbound(client.takeOutput())
            while let bytes = try channel.readOutbound(as: ByteBuffer.self) { client.feed(bytes) }
        }
        #expect(connection.isOpen)
        channel.isWritable = false
        let frame = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + Frame.settings().bytes
        frame.withUnsafeBytes { _ = client.write($0) }
        for _ in 0..<1200 where channel.isActive {
            for _ in 0..<20 { self.requestReply(client) }
            self.nothing.withUnsafeBytes { _ = client.write($0) }
            try channel.writeInbound(client.takeOutput())
        }
        #expect(!channel.isActive)
        _ = try? channel.finish(acceptAlreadyClosed: true)
    }

    @Test(
        "Bytes that are not a TLS record end a working connection, but not as a configuration error",
        arguments: [Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8), [23, 3, 3, 0xFF, 0xFF, 0, 0, 0, 0, 0]]
    )
    func noRecord(_ bytes: [UInt8]) throws {
        let link = try MemoryLink()
        try link.shakeHands()
        try link.channel.writeInbound(ByteBuffer(bytes: bytes))
        #expect(link.delegate.events == [.ready, .closed(.tlsFailure)])
        link.finish()
    }

    @Test(
        "After the handshake an alert about the client certificate is a configuration error",
        arguments: [TLSConfiguration.CertificateRefusal.bad, .revoked, .expired, .unknownCA, .missing]
    )
    func certificateAlerts(_ refusal: TLSConfiguration.CertificateRefusal) throws {
        let link = try MemoryLink(
            configureServer: { $0.certificateRefusal = refusal },
            configureClient: { tls, authority in
                guard refusal != .missing else { return }
                let identity = try authority.issueClient(topics: ["com.example.app"])
                tls.certificateChainPEM = identity.certificateChainPEM
                tls.privateKeyPEM = identity.privateKeyPEM
            }
        )
        try link.exchange()
        #expect(link.delegate.events == [.closed(.clientCertificateRefused)])
        link.finish()
    }

    @Test("After the handshake another alert is none")
    func otherAlerts() throws {
        let link = try MemoryLink()
        try link.shakeHands()
        try link.sendAlert()
        #expect(link.delegate.events == [.ready, .closed(.tlsFailure)])
        link.finish()
    }

    @Test("A request that is not written yet is not sent after the peer has closed the connection")
    func nothingIsWrittenAfterTheClose() throws {
        let link = try MemoryLink()
        try link.shakeHands()
        link.channel.isWritable = false
        link.submit(1...3)
        link.channel.isWritable = true  // without an event
        try link.send(closeNotify: true)
        #expect(
            link.delegate.events.dropFirst() == [
                .finished((1...3).map { Ended($0, .notSent, .connectionLost) }), .closed(.closedByPeer),
            ]
        )
        #expect(!link.received.contains { $0.kind == .headers })
        link.finish()
    }
}
