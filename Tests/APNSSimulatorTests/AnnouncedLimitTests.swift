import NIOCore
import Testing

@testable import APNSTransport

/// A stream limit binds a client only after the client has acknowledged it. The tests send frames byte by byte.
struct AnnouncedLimitTests {
    private let settings: [UInt8] = [0, 0, 0, 4, 0, 0, 0, 0, 0]
    private let acknowledgement: [UInt8] = [0, 0, 0, 4, 1, 0, 0, 0, 0]

    /// HEADERS with END_STREAM and END_HEADERS: `:method: POST`, `:scheme: https`, `:path: /` from HPACK's table, and
    /// `:authority: x`.
    private func headers(_ streamID: UInt8) -> [UInt8] {
        [0, 0, 6, 1, 5, 0, 0, 0, streamID, 0x83, 0x87, 0x84, 0x01, 0x01, UInt8(ascii: "x")]
    }

    private func session() throws -> HTTP2ServerSession {
        var configuration = HTTP2ServerSession.Configuration()
        configuration.maxConcurrentStreams = 1000
        configuration.announcedMaxConcurrentStreams = 1
        return try HTTP2ServerSession(configuration: configuration)
    }

    private func receive(_ session: HTTP2ServerSession, _ bytes: [UInt8]) throws {
        try bytes.withUnsafeBytes { try session.receive($0, now: .now()) }
    }

    private func frames(_ session: HTTP2ServerSession) throws -> [[UInt8]] {
        var frames: [[UInt8]] = []
        while case let frame = try session.nextFrame(), !frame.isEmpty { frames.append(Array(frame)) }
        return frames
    }

    private let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)

    @Test func theFirstSettingsHaveTheAnnouncedLimit() throws {
        let session = try self.session()
        let first = try #require(try self.frames(session).first)
        #expect(first == [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 1])
        try session.submitSettings(maxConcurrentStreams: 1000)
        #expect(try self.frames(session) == [[0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 3, 232]])
    }

    @Test func streamsBeforeTheAcknowledgementAreAccepted() throws {
        let session = try self.session()
        try self.receive(session, self.preface + self.settings + self.headers(1) + self.headers(3) + self.headers(5))
        #expect(session.requests.map(\.streamID) == [1, 3, 5])
    }

    @Test func anAcknowledgedLimitRefusesMoreStreams() throws {
        let session = try self.session()
        try self.receive(session, self.preface + self.settings)
        _ = try self.frames(session)
        try self.receive(session, self.acknowledgement + self.headers(1) + self.headers(3))
        #expect(session.requests.map(\.streamID) == [1])
        // RST_STREAM, stream 3, REFUSED_STREAM.
        #expect(try self.frames(session) == [[0, 0, 4, 3, 0, 0, 0, 0, 3, 0, 0, 0, 7]])
        try session.submitSettings(maxConcurrentStreams: 1000)
        _ = try self.frames(session)
        try self.receive(session, self.acknowledgement + self.headers(5) + self.headers(7))
        #expect(session.requests.map(\.streamID) == [1, 5, 7])
    }
}
