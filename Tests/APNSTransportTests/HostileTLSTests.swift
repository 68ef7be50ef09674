import CAPNSOpenSSL
import NIOCore
import NIOEmbedded
import Testing

@testable import APNSTransport

/// Servers whose TLS is hostile: endless or slow handshakes, records with little or no data, alerts at any time.
struct HostileTLSTests {
    /// The codes of the connections that ended.
    private func closed(_ link: MemoryLink) -> WireError.Code? {
        guard case .closed(let code) = link.delegate.events.last else { return nil }
        return code
    }

    /// A frame of an unknown type: application data that HTTP/2 ignores (RFC 9113, section 4.1).
    private let nothing = Frame(type: 0xFA, flags: 0, streamID: 0, payload: []).bytes

    /// A plaintext record (RFC 8446, section 5.1).
    private func record(_ type: UInt8, _ bytes: [UInt8]) -> ByteBuffer {
        ByteBuffer(bytes: [type, 3, 3, UInt8(bytes.count >> 8), UInt8(bytes.count & 0xFF)] + bytes)
    }

    private func writeInbound(_ bytes: ByteBuffer, _ link: MemoryLink) throws {
        if link.channel.isActive { try link.channel.writeInbound(bytes) }
    }

    // MARK: Handshakes

    @Test("A handshake of a byte a second ends at the connect timeout")
    func slowHandshake() throws {
        let link = try MemoryLink { $0.connectTimeout = .seconds(10) }
        while let bytes = try link.channel.readOutbound(as: ByteBuffer.self) { link.server.feed(bytes) }
        _ = link.server.handshake()
        var output = link.server.takeOutput()
        let count = output.readableBytes
        while self.closed(link) == nil, let byte = output.readSlice(length: 1) {
            try self.writeInbound(byte, link)
            link.loop.advanceTime(by: .seconds(1))
        }
        #expect(link.delegate.events == [.closed(.connectTimeout)])
        #expect(count - output.readableBytes == 10 && output.readableBytes > 0)
        #expect(!link.channel.isActive)
        link.finish()
    }

    /// The bytes until the connection ends, if the server sends these messages without end after its first output.
    private func bytes(of messages: ByteBuffer, _ link: MemoryLink) throws -> Int {
        var count = 0
        while link.channel.isActive, count < 10 << 20 {
            try self.writeInbound(messages, link)
            count += messages.readableBytes
        }
        return count
    }

    @Test("A handshake of HelloRequests without end ends after 128 KiB")
    func helloRequests() throws {
        let link = try MemoryLink()
        // HelloRequest, which a client ignores during a handshake (RFC 5246, section 7.4.1.1).
        let messages = self.record(22, [UInt8](repeating: 0, count: 16384))
        let count = try self.bytes(of: messages, link)
        #expect(count <= TLSSession.limitWithoutData + 2 * 16389)
        #expect(self.closed(link) == .flooded)
        link.finish()
    }

    @Test(
        "A certificate chain without end fails within 128 KiB, whatever its length says",
        arguments: [0xFF_FFFF, 100 * 1024 - 4]
    )
    func endlessChain(_ length: Int) throws {
        let link = try MemoryLink(configureServer: { $0.maximumVersion = .tls12 })
        while let bytes = try link.channel.readOutbound(as: ByteBuffer.self) { link.server.feed(bytes) }
        _ = link.server.handshake()
        // The ServerHello, which is the first message of the output. In TLS 1.2 it is not encrypted.
        var output = link.server.takeOutput()
        let messageCount = try #require(output.getInteger(at: 6, as: UInt32.self)) >> 8
        let hello = try #require(output.getBytes(at: 5, length: 4 + Int(messageCount)))
        #expect(hello[0] == 2)
        output.clear()
        try self.writeInbound(self.record(22, hello), link)
        // Certificate, with this length of its list; then certificates of 1,000 bytes that do not end.
        func three(_ count: Int) -> [UInt8] { bigEndian(UInt32(count)).suffix(3) }
        try self.writeInbound(self.record(22, [11] + three(length) + three(length - 3)), link)
        let certificates = (0..<16).flatMap { _ in three(1000) + [UInt8](repeating: 0x30, count: 1000) }
        let count = try self.bytes(of: self.record(22, certificates), link)
        #expect(count <= TLSSession.limitWithoutData + 16384)
        #expect(self.closed(link) == .handshakeFailed)
        link.finish()
    }

    @Test(
        "An alert during the handshake ends it",
        arguments: [
            (UInt8(40), WireError.Code.handshakeFailed), (70, .handshakeFailed), (80, .handshakeFailed),
            (120, .noHTTP2), (42, .clientCertificateRefused),
        ],
        [0, 1, 60]
    )
    func alerts(_ alert: (UInt8, WireError.Code), afterBytes count: Int) throws {
        let link = try MemoryLink(configureServer: { $0.maximumVersion = .tls12 })
        while let bytes = try link.channel.readOutbound(as: ByteBuffer.self) { link.server.feed(bytes) }
        _ = link.server.handshake()
        var output = link.server.takeOutput()
        if count == 1, let length = output.getInteger(at: 3, as: UInt16.self) {
            // After the ServerHello.
            try self.writeInbound(output.readSlice(length: 5 + Int(length)) ?? ByteBuffer(), link)
        } else {
            try self.writeInbound(output.readSlice(length: count) ?? ByteBuffer(), link)
        }
        try self.writeInbound(self.record(21, [2, alert.0]), link)
        if count == 60 {
            // The alert's bytes count as the rest of a record that had begun.
            #expect(self.closed(link) == nil || self.closed(link) == .handshakeFailed)
            link.loop.advanceTime(by: .seconds(10))
            #expect([.handshakeFailed, .connectTimeout].contains(self.closed(link)))
        } else {
            #expect(self.closed(link) == alert.1)
        }
        link.finish()
    }

    @Test("Warning alerts without end do not keep a handshake going")
    func warnings() throws {
        let link = try MemoryLink(configureServer: { $0.maximumVersion = .tls12 })
        let count = try self.bytes(of: self.record(21, [1, 90]), link)
        #expect(count <= TLSSession.limitWithoutData + 7)
        #expect(self.closed(link) != nil)
        link.finish()
    }

    // MARK: Records

    /// A connection whose server has received one push.
    private func linkWithPush() throws -> MemoryLink {
        let link = try MemoryLink()
        try link.shakeHands()
        link.submit(1...1)
        try link.exchange()
        return link
    }

    @Test("An alert inside a header block ends the connection, and its push is unknown")
    func alertInsideABlock() throws {
        let link = try self.linkWithPush()
        try link.send(.headers(1, status: 200, endHeaders: false))
        try link.sendAlert()
        #expect(
            link.delegate.events == [.ready, .finished([Ended(1, .unknown, .connectionLost)]), .closed(.tlsFailure)]
        )
        link.finish()
    }

    @Test("A record that is cut off by the end of the connection leaves its push unknown", arguments: [3, 5, 20])
    func truncatedRecord(_ count: Int) throws {
        let link = try self.linkWithPush()
        Frame.headers(1, status: 200, end: true).bytes.withUnsafeBytes { _ = link.server.write($0) }
        var record = link.server.takeOutput()
        try self.writeInbound(record.readSlice(length: count) ?? ByteBuffer(), link)
        link.channel.close(promise: nil)
        link.loop.run()
        #expect(
            link.delegate.events == [.ready, .finished([Ended(1, .unknown, .connectionLost)]), .closed(.closedByPeer)]
        )
        link.finish()
    }

    @Test("A record with a wrong tag ends the connection")
    func damagedRecord() throws {
        let link = try self.linkWithPush()
        Frame.headers(1, status: 200, end: true).bytes.withUnsafeBytes { _ = link.server.write($0) }
        var record = link.server.takeOutput()
        let last = record.writerIndex - 1
        record.setInteger(try #require(record.getInteger(at: last, as: UInt8.self)) ^ 1, at: last)
        try self.writeInbound(record, link)
        #expect(
            link.delegate.events == [.ready, .finished([Ended(1, .unknown, .connectionLost)]), .closed(.tlsFailure)]
        )
        link.finish()
    }

    enum Filler: Sendable, CaseIterable { case keyUpdates, tickets, padding }

    @Test("TLS records without data and padding, between useless frames, count as glitches", arguments: Filler.allCases)
    func recordsBetweenFrames(_ filler: Filler) throws {
        let link = try MemoryLink()
        try link.shakeHands()
        if filler == .padding { SSL_set_block_padding(link.server.ssl, 16384) }
        link.submit(1...1, within: .seconds(3600))
        try link.exchange()
        var message = ""
        link.delegate.onClosedError = { message = $0.message }
        var bytes = 0
        var frames = 0
        while link.channel.isActive, bytes < 10 << 20 {
            for _ in 0..<20 where filler != .padding {
                if filler == .keyUpdates {
                    _ = SSL_key_update(link.server.ssl, SSL_KEY_UPDATE_NOT_REQUESTED)
                } else {
                    _ = SSL_new_session_ticket(link.server.ssl)
                }
                _ = SSL_do_handshake(link.server.ssl)
            }
            self.nothing.withUnsafeBytes { _ = link.server.write($0) }
            frames += 1
            let output = link.server.takeOutput()
            bytes += output.readableBytes
            try self.writeInbound(output, link)
        }
        // Each record without data costs 16. Each KiB of padding costs one.
        let mostFrames = GlitchBudget.capacity / (filler == .padding ? 16 : 20 * 16) + 1
        #expect(frames <= mostFrames)
        #expect(
            link.delegate.events == [
                .ready, .finished([Ended(1, .unknown, .connectionLost)]), .closed(.flooded),
            ]
        )
        #expect(message.contains("advances no request"))
        link.finish()
    }

    @Test("Records of a byte count as glitches, even if they are parts of one large frame", arguments: [8, 16384])
    func recordsOfAByte(_ size: Int) throws {
        let link = try MemoryLink()
        try link.shakeHands()
        let frame = Frame(type: 0xFA, flags: 0, streamID: 0, payload: [UInt8](repeating: 0, count: size)).bytes
        var records = 0
        while link.channel.isActive, records < 100_000 {
            for byte in frame {
                [byte].withUnsafeBytes { _ = link.server.write($0) }
                records += 1
            }
            try self.writeInbound(link.server.takeOutput(), link)
        }
        #expect(records <= GlitchBudget.capacity + 2 * frame.count)
        #expect(link.delegate.events == [.ready, .closed(.flooded)])
        link.finish()
    }

    @Test("Responses in records of a byte stay within the budget")
    func responsesByteByByte() throws {
        let link = try MemoryLink()
        try link.shakeHands()
        for round in 0..<300 {
            link.submit(UInt64(round)...UInt64(round))
            try link.exchange()
            for byte in Frame.headers(Int32(2 * round + 1), status: 200, end: true).bytes {
                [byte].withUnsafeBytes { _ = link.server.write($0) }
            }
            try link.exchange()
        }
        #expect(link.delegate.tags.count == 300)
        let session = try #require(link.connection.session)
        #expect(session.glitches.lowest > GlitchBudget.capacity / 2)
        link.finish()
    }
}
