import CAPNSNghttp2

// The C callbacks. Each one recovers the session and calls one of its methods. No method calls nghttp2 during a
// `mutating` access to a property, so a callback never reads a property that is being changed.
extension HTTP2Session {
    static func install(_ callbacks: OpaquePointer) {
        nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks) { session, frame, context in
            HTTP2Session.with(context) { $0.onBeginHeaders(session, frame) }
        }
        nghttp2_session_callbacks_set_on_header_callback(callbacks) {
            session,
            frame,
            name,
            nameLength,
            value,
            valueLength,
            _,
            context in
            guard let context else { return 0 }
            return Unmanaged<HTTP2Session>.fromOpaque(context)._withUnsafeGuaranteedRef { owner in
                guard owner.countHeader(nameLength + valueLength) else { return NGHTTP2_ERR_CALLBACK_FAILURE.rawValue }
                owner.onHeader(
                    session,
                    frame,
                    name: UnsafeBufferPointer(start: name, count: nameLength),
                    value: UnsafeBufferPointer(start: value, count: valueLength)
                )
                return 0
            }
        }
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks) {
            session,
            _,
            streamID,
            data,
            length,
            context in
            HTTP2Session.with(context) {
                $0.onData(session, streamID, UnsafeBufferPointer(start: data, count: length))
            }
        }
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks) { session, frame, context in
            HTTP2Session.with(context) { $0.onFrameReceived(session, frame) }
        }
        nghttp2_session_callbacks_set_on_frame_send_callback(callbacks) { session, frame, context in
            HTTP2Session.with(context) { $0.onFrameSent(session, frame) }
        }
        nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks) { session, frame, _, context in
            HTTP2Session.with(context) { $0.onFrameNotSent(session, frame) }
        }
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks) { session, streamID, code, context in
            HTTP2Session.with(context) { $0.onStreamClose(session, streamID, HTTP2ErrorCode(rawValue: code)) }
        }
    }

    /// nghttp2 calls this to read the body of a stream. `source` is the stream's index plus 1.
    static let readBody: capns_data_read_callback = { _, streamID, buffer, length, flags, source, context in
        guard let context, let buffer, let flags, let source else {
            return Int(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue)
        }
        let index = Int(bitPattern: source.pointee.ptr) - 1
        return Unmanaged<HTTP2Session>.fromOpaque(context)._withUnsafeGuaranteedRef { session in
            guard session.streams.contains(index, streamID: streamID) else {
                // The stream no longer exists, so there is no body to send.
                return Int(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue)
            }
            let (copied, isComplete) = session.copyBody(index, into: buffer, capacity: length)
            if isComplete { flags.pointee |= UInt32(NGHTTP2_DATA_FLAG_EOF.rawValue) }
            return copied
        }
    }

    private static func with(_ context: UnsafeMutableRawPointer?, _ body: (HTTP2Session) -> Void) -> Int32 {
        if let context {
            Unmanaged<HTTP2Session>.fromOpaque(context)._withUnsafeGuaranteedRef(body)
        }
        return 0
    }

    private func index(_ session: OpaquePointer?, _ streamID: Int32) -> Int? {
        let index = Int(bitPattern: nghttp2_session_get_stream_user_data(session, streamID)) - 1
        return self.streams.contains(index, streamID: streamID) ? index : nil
    }

    private func copyBody(
        _ index: Int,
        into buffer: UnsafeMutablePointer<UInt8>,
        capacity: Int
    ) -> (copied: Int, isComplete: Bool) {
        let offset = self.streams[index].outgoingOffset
        let total = self.streams[index].outgoingCount
        let count = min(capacity, total - offset)
        if count > 0, let body = self.bodies[self.streams[index].outgoing] {
            body.withUnsafeBufferPointer { body in
                if let base = body.baseAddress, offset + count <= body.count {
                    buffer.update(from: base + offset, count: count)
                }
            }
            self.streams[index].outgoingOffset = offset + count
            self.bodyCopied(count: count)
        }
        return (max(count, 0), offset + count >= total)
    }

    private func onBeginHeaders(_ session: OpaquePointer?, _ frame: UnsafePointer<nghttp2_frame>?) {
        self.headerBlockBytes = 0
        guard let frame else { return }
        let streamID = capns_frame_stream_id(frame)
        let isRequest = capns_frame_headers_category(frame) == NGHTTP2_HCAT_REQUEST
        self.headersBegin(streamID: streamID, index: self.index(session, streamID), isRequest: isRequest)
    }

    /// Adds to the size of the header block, and returns whether it is within the limit. A block of a few kilobytes can
    /// refer to one large field of the dynamic table thousands of times (RFC 7541, section 2.3.2).
    private func countHeader(_ count: Int) -> Bool {
        // Each field counts 32 bytes in addition to its name and value (RFC 9113, section 6.5.2).
        self.headerBlockBytes += count + 32
        guard self.headerBlockBytes > StreamTable.headerBlockLimit else { return true }
        self.violation = WireError(
            .protocolViolation,
            "the peer sent a header block of more than \(StreamTable.headerBlockLimit) bytes"
        )
        return false
    }

    private func onHeader(
        _ session: OpaquePointer?,
        _ frame: UnsafePointer<nghttp2_frame>?,
        name: UnsafeBufferPointer<UInt8>,
        value: UnsafeBufferPointer<UInt8>
    ) {
        guard let frame, let index = self.index(session, capns_frame_stream_id(frame)),
            !self.streams[index].hasFinalHeaders  // otherwise these are trailers
        else { return }
        self.received(index, name: name, value: value)
    }

    private func onData(_ session: OpaquePointer?, _ streamID: Int32, _ data: UnsafeBufferPointer<UInt8>) {
        guard let index = self.index(session, streamID) else { return }
        let count = self.keepBody(index, count: data.count)
        guard count > 0 else { return }
        self.noteProgress(index)
        self.glitches.kept(count)
        self.streams[index].body.append(contentsOf: data.prefix(count))
    }

    private func noteProgress(_ index: Int) {
        if !self.streams[index].isConcluded { self.progressFrames &+= 1 }
    }

    private func onFrameReceived(_ session: OpaquePointer?, _ frame: UnsafePointer<nghttp2_frame>?) {
        guard let frame else { return }
        let flags = capns_frame_flags(frame)
        switch nghttp2_frame_type(UInt32(capns_frame_type(frame))) {
        case NGHTTP2_HEADERS:
            self.glitches.decompressed(self.headerBlockBytes)
            guard let index = self.index(session, capns_frame_stream_id(frame)) else { return }
            let hadFinalHeaders = self.streams[index].hasFinalHeaders
            self.headersComplete(index)
            if self.streams[index].hasFinalHeaders, !hadFinalHeaders {
                self.noteProgress(index)
                // A stream that was given up has earned its share at its end.
                if !self.streams[index].isConcluded { self.glitches.streamAdvanced() }
            }
            if flags & UInt8(NGHTTP2_FLAG_END_STREAM.rawValue) != 0 { self.remoteComplete(index) }
        case NGHTTP2_DATA:
            guard flags & UInt8(NGHTTP2_FLAG_END_STREAM.rawValue) != 0,
                let index = self.index(session, capns_frame_stream_id(frame))
            else { return }
            self.remoteComplete(index)
        case NGHTTP2_RST_STREAM:
            if let index = self.index(session, capns_frame_stream_id(frame)) { self.noteProgress(index) }
        case NGHTTP2_SETTINGS:
            if flags & UInt8(NGHTTP2_FLAG_ACK.rawValue) == 0 {
                self.glitches.costlyFrame()
                self.readPeerSettings(frame)
            } else {
                self.settingsAcknowledged()
            }
        case NGHTTP2_WINDOW_UPDATE:
            if capns_frame_stream_id(frame) == 0 { self.windowGrew() }
        case NGHTTP2_PING:
            if flags & UInt8(NGHTTP2_FLAG_ACK.rawValue) != 0 { self.events.append(.pingAcknowledged) }
        case NGHTTP2_PRIORITY:
            self.glitches.costlyFrame()
        case NGHTTP2_GOAWAY:
            self.glitches.costlyFrame()
            let last = capns_frame_goaway_last_stream_id(frame)
            self.hasGoAway = true
            self.goAwayReceived()
            self.lowestGoAwayStreamID = min(self.lowestGoAwayStreamID, last)
            let debug = UnsafeBufferPointer(
                start: capns_frame_goaway_debug_data(frame),
                count: min(capns_frame_goaway_debug_data_length(frame), StreamTable.bodyLimit)
            )
            self.events.append(
                .goAway(
                    lastStreamID: last,
                    code: HTTP2ErrorCode(rawValue: capns_frame_goaway_error_code(frame)),
                    debugData: Array(debug)
                )
            )
        default:
            break
        }
    }

    private func onFrameSent(_ session: OpaquePointer?, _ frame: UnsafePointer<nghttp2_frame>?) {
        guard let frame else { return }
        if capns_frame_type(frame) == UInt8(NGHTTP2_GOAWAY.rawValue) {
            self.noteGoAwaySent(frame)
            return
        }
        guard capns_frame_type(frame) == UInt8(NGHTTP2_HEADERS.rawValue),
            let index = self.index(session, capns_frame_stream_id(frame))
        else { return }
        self.headersSent(index, flags: capns_frame_flags(frame))
    }

    /// Records why nghttp2 ended the session: it sends a GOAWAY whose debug data describes the peer's violation.
    private func noteGoAwaySent(_ frame: UnsafePointer<nghttp2_frame>) {
        let code = HTTP2ErrorCode(rawValue: capns_frame_goaway_error_code(frame))
        guard self.violation == nil, !self.hasSubmittedGoAway, code != .noError else { return }
        let debug = UnsafeBufferPointer(
            start: capns_frame_goaway_debug_data(frame),
            count: capns_frame_goaway_debug_data_length(frame)
        )
        let detail = debug.isEmpty ? "" : ": " + PeerText.printable(debug)
        self.violation = WireError(.protocolViolation, "the peer broke the HTTP/2 protocol (\(code))\(detail)")
    }

    private func onFrameNotSent(_ session: OpaquePointer?, _ frame: UnsafePointer<nghttp2_frame>?) {
        guard let frame, nghttp2_frame_type(UInt32(capns_frame_type(frame))) == NGHTTP2_HEADERS else { return }
        self.headersNotSent(streamID: capns_frame_stream_id(frame))
    }

    private func onStreamClose(_ session: OpaquePointer?, _ streamID: Int32, _ code: HTTP2ErrorCode) {
        guard let index = self.index(session, streamID) else { return }
        self.streamClosed(index, code)
        self.release(index)
    }
}
