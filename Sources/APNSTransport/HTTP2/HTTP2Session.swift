import CAPNSNghttp2
package import NIOCore

/// Events that a session receives from its peer, apart from the results of streams.
package enum HTTP2Event: Sendable, Hashable {
    /// The peer's SETTINGS. It may occur several times; the first time precedes all other events.
    case settings(maxConcurrentStreams: Int)
    case goAway(lastStreamID: Int32, code: HTTP2ErrorCode, debugData: [UInt8])
    case pingAcknowledged
}

/// Owns one `nghttp2_session`: an HTTP/2 session that consumes and produces bytes, without a socket. The subclasses
/// `HTTP2ClientSession` and `HTTP2ServerSession` have the state and the decisions of their role.
///
/// It is a class because nghttp2 keeps its address. Confined to the event loop of its connection. The C callbacks
/// record what happened in properties of the session, such as `streams`, `events`, `results` and `requests`. No task is
/// resumed and no request is submitted until the call that caused the callbacks has returned.
package class HTTP2Session {
    final let streams = StreamTable()
    // `@exclusivity(unchecked)`: the session is confined to one event loop, and no access re-enters these properties.
    /// The bodies being sent.
    @exclusivity(unchecked) final var bodies = RefCountTable<[UInt8]>()
    final var events: [HTTP2Event] = []
    /// The peer's current limit; 0 before its first SETTINGS.
    private(set) final var peerMaxConcurrentStreams = 0
    private(set) final var hasPeerSettings = false
    final var lowestGoAwayStreamID = Int32.max
    /// Whether the peer sent GOAWAY. A graceful GOAWAY names stream 2^31-1, so the id alone is not sufficient.
    final var hasGoAway = false
    /// How the peer ended the session: it violated the protocol, or its header block exceeded our limit.
    final var violation: WireError?
    private(set) final var hasSubmittedGoAway = false
    /// Counts frames that advanced an open stream: final HEADERS, DATA with bytes that are kept, RST_STREAM. A change
    /// shows that the peer is working on requests. Frames on closed streams and 1xx blocks do not show that, so they
    /// are not counted.
    final var progressFrames: UInt64 = 0
    /// The decompressed size of the header block being received, in bytes.
    @exclusivity(unchecked) final var headerBlockBytes = 0
    /// What the peer may still send without advancing a request. Unchecked like `bodies`.
    @exclusivity(unchecked) final var glitches: GlitchBudget
    final let memory = SessionMemory()
    private final var session: OpaquePointer?

    /// Creates nghttp2's session. The subclass then submits the first SETTINGS.
    ///
    /// - Parameters:
    ///   - prefixCount: How many bytes of the peer precede the first frame.
    ///   - make: Creates a client's or a server's session.
    ///   - configure: Sets the options.
    init(
        prefixCount: Int,
        make: (inout OpaquePointer?, OpaquePointer, UnsafeMutableRawPointer, OpaquePointer, SessionMemory) -> Int32,
        configure: (OpaquePointer) -> Void
    ) throws(WireError) {
        self.glitches = GlitchBudget(prefixCount: prefixCount)
        var callbacks: OpaquePointer?
        guard nghttp2_session_callbacks_new(&callbacks) == 0, let callbacks else {
            throw Self.error(NGHTTP2_ERR_NOMEM.rawValue)
        }
        defer { nghttp2_session_callbacks_del(callbacks) }
        Self.install(callbacks)

        var option: OpaquePointer?
        guard nghttp2_option_new(&option) == 0, let option else {
            throw Self.error(NGHTTP2_ERR_NOMEM.rawValue)
        }
        defer { nghttp2_option_del(option) }
        capns_option_disable_glitch_rate_limit(option)
        configure(option)

        var session: OpaquePointer?
        let context = Unmanaged.passUnretained(self).toOpaque()
        let code = make(&session, callbacks, context, option, self.memory)
        guard code == 0, let session else { throw Self.error(code) }
        self.session = session
    }

    deinit {
        // nghttp2 calls no callbacks here.
        if let session { nghttp2_session_del(session) }
    }

    // MARK: Overridden by the subclasses, and called by the callbacks unless stated otherwise

    /// A header block begins.
    ///
    /// - Parameter index: The index of its stream; nil if the stream is new.
    func headersBegin(streamID: Int32, index: Int?, isRequest: Bool) {}

    /// A field of a header block that is not one of trailers.
    func received(_ index: Int, name: UnsafeBufferPointer<UInt8>, value: UnsafeBufferPointer<UInt8>) {}

    /// A header block is complete.
    func headersComplete(_ index: Int) {}

    /// Returns how many of the next `count` bytes of the body are kept.
    func keepBody(_ index: Int, count: Int) -> Int { 0 }

    /// The peer has ended its side of the stream.
    func remoteComplete(_ index: Int) {}

    /// nghttp2 has produced the stream's HEADERS.
    func headersSent(_ index: Int, flags: UInt8) {}

    /// nghttp2 has discarded the HEADERS of this stream.
    func headersNotSent(streamID: Int32) {}

    /// nghttp2 has copied bytes of our body.
    func bodyCopied(count: Int) {}

    /// The stream is closed. It is released next.
    func streamClosed(_ index: Int, _ code: HTTP2ErrorCode) {}

    /// The stream's entry is about to be reused. Also called outside of callbacks.
    func willRelease(_ index: Int) {}

    /// The peer changes a setting.
    func received(_ setting: nghttp2_settings_entry) {}

    /// The peer has acknowledged our SETTINGS.
    func settingsAcknowledged() {}

    /// The peer sent GOAWAY.
    func goAwayReceived() {}

    /// The peer has enlarged the connection's send window.
    func windowGrew() {}

    /// Called after nghttp2 has processed bytes of the peer, outside of callbacks.
    func didReceive() throws(WireError) {}

    /// Called for each frame that nghttp2 has produced. Returns the bytes to send for it.
    func outgoing(_ frame: UnsafeRawBufferPointer) throws(WireError) -> UnsafeRawBufferPointer { frame }

    /// Counts a read from the network that brought no data. Called by the connection.
    func receivedNothing(now: NIODeadline) throws(WireError) {}

    /// Gives a result to every request that is not written yet. Called by the connection.
    func giveUpUnwritten(cause: StreamCause) {}

    /// Gives every stream its result, because the connection has ended. Called by the connection.
    package func concludeAll(cause: StreamCause) {}

    // MARK: Bytes

    /// Processes bytes from the peer.
    ///
    /// - Parameters:
    ///   - bytes: The data of one TLS record.
    ///   - overhead: The bytes and records around this data.
    ///   - now: The time on the connection's clock.
    package final func receive(
        _ bytes: UnsafeRawBufferPointer,
        _ overhead: TLSOverhead = TLSOverhead(),
        now: NIODeadline
    ) throws(WireError) {
        guard let session, let base = bytes.baseAddress else { return }
        self.glitches.read(bytes, overhead)
        let taken = capns_session_mem_recv(session, base.assumingMemoryBound(to: UInt8.self), bytes.count)
        if taken < 0 { throw self.violation ?? Self.error(Int32(clamping: taken)) }
        try self.didReceive()
        try self.checkGlitches(now)
    }

    final func checkGlitches(_ now: NIODeadline) throws(WireError) {
        guard self.glitches.isExhausted(now: now) else { return }
        let error = self.violation ?? GlitchBudget.error
        self.violation = error
        try? self.submitGoAway(lastStreamID: nil, code: .enhanceYourCalm)
        throw error
    }

    /// The next frame for the peer, valid until the next call. Empty if there is nothing to send.
    package final func nextFrame() throws(WireError) -> UnsafeRawBufferPointer {
        guard let session else { return UnsafeRawBufferPointer(start: nil, count: 0) }
        var data: UnsafePointer<UInt8>?
        let count = capns_session_mem_send(session, &data)
        if count < 0 { throw Self.error(Int32(clamping: count)) }
        return try self.outgoing(UnsafeRawBufferPointer(start: data, count: count))
    }

    /// Whether nothing is left to do on this connection (RFC 9113, section 6.8).
    package final var isFinished: Bool {
        guard let session else { return true }
        return nghttp2_session_want_read(session) == 0 && nghttp2_session_want_write(session) == 0
    }

    // MARK: Control frames

    package final func submitPing() throws(WireError) {
        try self.check { nghttp2_submit_ping($0, UInt8(NGHTTP2_FLAG_NONE.rawValue), nil) }
    }

    package final func submitReset(streamID: Int32, code: HTTP2ErrorCode) throws(WireError) {
        try self.check { nghttp2_submit_rst_stream($0, UInt8(NGHTTP2_FLAG_NONE.rawValue), streamID, code.rawValue) }
    }

    /// Submits a GOAWAY.
    ///
    /// - Parameter lastStreamID: The last stream that was or may be processed. `nil` means the last stream that the
    ///   peer opened.
    package final func submitGoAway(lastStreamID: Int32?, code: HTTP2ErrorCode, debugData: [UInt8] = [])
        throws(WireError)
    {
        self.hasSubmittedGoAway = true
        try self.check { session in
            let last = lastStreamID ?? nghttp2_session_get_last_proc_stream_id(session)
            return nghttp2_submit_goaway(
                session,
                UInt8(NGHTTP2_FLAG_NONE.rawValue),
                last,
                code.rawValue,
                debugData,
                debugData.count
            )
        }
    }

    final func submitSettings(_ settings: [nghttp2_settings_entry]) throws(WireError) {
        try self.check {
            nghttp2_submit_settings($0, UInt8(NGHTTP2_FLAG_NONE.rawValue), settings, settings.count)
        }
    }

    // MARK: Used by the subclasses and extensions

    /// Runs a call that returns 0 or an error code.
    final func check(_ call: (OpaquePointer) -> Int32) throws(WireError) {
        guard let session else { throw WireError(.closedLocally, "the session is closed") }
        let code = call(session)
        if code != 0 { throw Self.error(code) }
    }

    final func withSession<Result>(_ body: (OpaquePointer) -> Result) -> Result? {
        self.session.map(body)
    }

    final func readPeerSettings(_ frame: UnsafePointer<nghttp2_frame>) {
        guard let session else { return }
        for index in 0..<capns_frame_settings_count(frame) { self.received(capns_frame_setting(frame, index)) }
        let limit = nghttp2_session_get_remote_settings(session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS)
        // If a peer announces no limit, 100 is assumed, the minimum that RFC 9113, section 6.5.2, recommends.
        self.peerMaxConcurrentStreams = limit == UInt32.max ? 100 : Int(limit)
        self.hasPeerSettings = true
        self.events.append(.settings(maxConcurrentStreams: self.peerMaxConcurrentStreams))
    }

    /// Releases a stream that neither nghttp2 nor this session uses any more.
    final func release(_ index: Int) {
        guard self.streams[index].streamID != 0 else { return }
        self.willRelease(index)
        self.bodies.release(entry: self.streams[index].outgoing)
        self.streams.discard(index)
    }

    static func setting(_ id: nghttp2_settings_id, _ value: UInt32) -> nghttp2_settings_entry {
        nghttp2_settings_entry(settings_id: Int32(bitPattern: id.rawValue), value: value)
    }

    static func text(_ code: Int32) -> String {
        String(cString: nghttp2_strerror(code))
    }

    /// Maps an nghttp2 error. An error that shows a mistake in this library is a broken invariant. Lack of memory,
    /// floods and errors of the peer are not.
    static func error(_ code: Int32) -> WireError {
        switch code {
        case NGHTTP2_ERR_INVALID_STATE.rawValue, NGHTTP2_ERR_INVALID_ARGUMENT.rawValue,
            NGHTTP2_ERR_CALLBACK_FAILURE.rawValue:
            WireError(.invariantBroken, "nghttp2: \(self.text(code))")
        case NGHTTP2_ERR_FLOODED.rawValue:
            WireError(.flooded, "the peer sends frames that require replies, and does not read the replies")
        case NGHTTP2_ERR_NOMEM.rawValue:
            WireError(.closedLocally, "out of memory")
        case NGHTTP2_ERR_BAD_CLIENT_MAGIC.rawValue:
            WireError(.protocolViolation, "the peer does not speak HTTP/2")
        default:
            WireError(.protocolViolation, "nghttp2: \(self.text(code))")
        }
    }
}
