import NIOCore
import Testing

@testable import APNSTransport

/// A server does not forgive frames on streams that the client has ended (RFC 9113, section 5.1). nghttp2 recognises
/// them as long as it keeps closed streams.
struct ServerStreamStateTests {
    /// What the client has done with its stream before it sends another frame on it.
    enum History: CaseIterable {
        case ended, reset, responded
    }

    /// Lets the server process bytes.
    ///
    /// - Returns: the frames that it sends.
    private func send(_ bytes: [UInt8], to session: HTTP2ServerSession) throws -> [Frame] {
        bytes.withUnsafeBytes { bytes in
            // A violation is reported by the frames that the session still sends.
            _ = try? session.receive(bytes, now: .uptimeNanoseconds(0))
        }
        var written: [UInt8] = []
        while case let frame = try session.nextFrame(), !frame.isEmpty { written += frame }
        return Frame.parse(written)
    }

    @Test("A frame on a stream that the client has ended is an error", arguments: History.allCases, [true, false])
    func lateFrames(history: History, isHeaders: Bool) throws {
        let session = try HTTP2ServerSession(configuration: HTTP2ServerSession.Configuration())
        _ = try self.send(Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + Frame.settings().bytes, to: session)
        _ = try self.send(Frame.request(1, end: history != .reset).bytes, to: session)
        switch history {
        case .ended: break
        case .reset: _ = try self.send(Frame.reset(1, .cancel).bytes, to: session)
        case .responded:
            try session.respond(streamID: 1, status: 200, fields: FieldList(), body: [])
            _ = try self.send([], to: session)
        }
        let late = isHeaders ? Frame.request(1, end: true) : Frame.data(1, "{}", end: true)
        let frames = try self.send(late.bytes, to: session)
        // STREAM_CLOSED is 5. It is the last field of both frames' fixed part.
        let isRefused = frames.contains { frame in
            frame.kind == .reset && frame.payload.suffix(4) == [0, 0, 0, 5]
                || frame.kind == .goAway && frame.payload[4..<8] == [0, 0, 0, 5]
        }
        #expect(isRefused, "\(frames)")
    }
}
