import CAPNSNghttp2

/// How a server's response ends.
package enum ResponseEnding: Sendable, Hashable {
    /// With END_STREAM, as the protocol requires.
    case endStream
    /// Never: END_STREAM is not sent. To end the stream, reset it.
    case open
    /// With a second block of fields, the trailers (RFC 9113, section 8.1).
    case trailers(FieldList)
    /// With END_STREAM after the body has been repeated, as fast as the client's windows allow, until this many bytes
    /// have been sent.
    case repeated(upTo: Int)
}

/// The rest of a response, which nghttp2 reads piece by piece.
struct ScriptedBody {
    var bytes: [UInt8]
    /// How many bytes nghttp2 has read.
    var offset = 0
    /// How many bytes nghttp2 may read in total.
    var total: Int
    var ending: ResponseEnding
}

/// Frames for a server that misbehaves on purpose.
extension HTTP2ServerSession {
    /// Responds to a request like `respond(streamID:status:fields:body:)`, with the given ending. Does nothing if its
    /// stream is already closed.
    package func respond(
        streamID: Int32,
        status: Int,
        fields: FieldList,
        body: [UInt8],
        ending: ResponseEnding
    ) throws(WireError) {
        if ending == .endStream {
            try self.respond(streamID: streamID, status: status, fields: fields, body: body)
            return
        }
        guard self.streams.index(of: streamID) != nil else { return }
        var total = body.count
        if case .repeated(let count) = ending { total = body.isEmpty ? 0 : max(count, 0) }
        self.scriptedBodies[streamID] = ScriptedBody(bytes: body, total: total, ending: ending)
        let code = self.withResponseFields(status: status, fields: fields) { nva, count in
            self.withSession { capns_submit_response($0, streamID, nva, count, Self.readScriptedBody, 0) }
        }
        if let code = code ?? nil, code != 0 { throw Self.error(code) }
    }

    /// Sends an interim response: a status from 100 to 199 (RFC 9113, section 8.1).
    package func inform(streamID: Int32, status: Int) throws(WireError) {
        guard self.streams.index(of: streamID) != nil else { return }
        let code = self.withResponseFields(status: status, fields: FieldList()) { nva, count in
            self.withSession { nghttp2_submit_headers($0, 0, streamID, nil, nva, count, nil) }
        }
        if let code = code ?? nil, code != 0 { throw Self.error(code) }
    }

    private static let readScriptedBody: capns_data_read_callback = { _, streamID, buffer, length, flags, _, context in
        guard let context, let buffer, let flags else { return Int(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue) }
        return Unmanaged<HTTP2ServerSession>.fromOpaque(context)._withUnsafeGuaranteedRef { session in
            session.readScriptedBody(streamID, into: UnsafeMutableBufferPointer(start: buffer, count: length), flags)
        }
    }

    private func readScriptedBody(
        _ streamID: Int32,
        into buffer: UnsafeMutableBufferPointer<UInt8>,
        _ flags: UnsafeMutablePointer<UInt32>
    ) -> Int {
        guard var body = self.scriptedBodies[streamID] else {
            return Int(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue)
        }
        var count = 0
        while count < buffer.count, body.offset < body.total, !body.bytes.isEmpty {
            let start = body.offset % body.bytes.count
            let piece = min(buffer.count - count, body.total - body.offset, body.bytes.count - start)
            for position in 0..<piece { buffer[count + position] = body.bytes[start + position] }
            count += piece
            body.offset += piece
        }
        self.scriptedBodies[streamID] = body
        if body.offset < body.total { return count }
        switch body.ending {
        case .endStream, .repeated:
            flags.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue
        case .open:
            if count == 0 { return Int(NGHTTP2_ERR_DEFERRED.rawValue) }
        case .trailers(let fields):
            flags.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue | NGHTTP2_DATA_FLAG_NO_END_STREAM.rawValue
            // nghttp2 requires trailers to be submitted here, and copies them.
            _ = self.withFields(fields) { nva, count in
                self.withSession { nghttp2_submit_trailer($0, streamID, nva, count) }
            }
        }
        return count
    }
}
