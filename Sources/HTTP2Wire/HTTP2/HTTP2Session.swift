import CAPNSNghttp2
package import NIOCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// Events that a session receives from its peer, apart from the results of streams.
package enum HTTP2Event: Sendable, Hashable {
    /// The peer's SETTINGS. It may occur several times; the first time precedes all other events.
    case settings(maxConcurrentStreams: Int)
    case goAway(lastStreamID: Int32, code: HTTP2ErrorCode, debugData: [UInt8])
    case pingAcknowledged
}

/// Owns one `nghttp2_session`: an HTTP/2 session that consumes and produces bytes, without a socket.
///
/// It is a class because nghttp2 keeps its address. Confined to the event loop of its connection. The C callbacks
/// record what happened in properties of this class, such as `streams`, `events`, `results` and `requests`. No task is
/// resumed and no request is submitted until the call that caused the callbacks has returned.
package final class HTTP2Session {
    package enum Role: Sendable {
        case client
        case server
    }

    package struct Configuration: Sendable {
        /// For a client: the names of the fields whose values differ between requests, with `:path` first.
        package var variableNames: [String] = [":path"]
        /// For a client: which fields of responses with status 200 are kept. `nil` means all.
        package var responseFilter: ResponseFilter?
        /// For a client: the maximum number of bytes kept of a response's body. APNs' responses to pushes are far
        /// smaller.
        package var responseBodyLimit = StreamTable.bodyLimit
        /// For a server: its first SETTINGS_MAX_CONCURRENT_STREAMS.
        package var maxConcurrentStreams: UInt32 = 100
        /// For a server: a smaller limit that its first SETTINGS_MAX_CONCURRENT_STREAMS announces instead of
        /// `maxConcurrentStreams`. It applies until the server submits another limit. nghttp2 by itself would refuse
        /// streams that a client opened before the client knew the limit. With this setting, streams above the limit
        /// are refused only after the client has acknowledged it (RFC 9113, section 6.5.3).
        package var announcedMaxConcurrentStreams: UInt32?
        /// For a server: how many RST_STREAM frames a client may send at once (burst) and per second (rate) before the
        /// session ends.
        package var resetBurst: UInt64 = 1_000_000
        package var resetRate: UInt64 = 1_000_000
        /// For a server: whether requests are reported when their headers are complete, rather than when their body is.
        package var reportsRequestsEarly = false
        /// For a server: see `HeaderReporting`.
        package var headerReporting: HeaderReporting?
        /// For a server: its SETTINGS_INITIAL_WINDOW_SIZE in bytes. `nil` means the protocol's default of 65,535.
        package var initialWindowSize: UInt32?

        package init() {}
    }

    /// Once the next stream id reaches this value, the connection should be replaced (RFC 9113, section 5.1.1).
    static let nearlyExhaustedStreamID: Int32 = Int32.max - 2048

    let role: Role
    let configuration: Configuration
    let streams = StreamTable()
    // `@exclusivity(unchecked)`: the session is confined to one event loop, and no access re-enters these properties.
    /// The bodies being sent.
    @exclusivity(unchecked) var bodies = RefCountTable<[UInt8]>()
    /// The header blocks of recent requests, and of requests whose HEADERS nghttp2 has not produced yet, including held
    /// requests.
    @exclusivity(unchecked) private var fixed = RefCountTable<FixedFields>()
    /// The entries of `fixed` that were used recently; each holds one use. Unchecked like `bodies`.
    @exclusivity(unchecked) private var recentFixed: [RecentFields] = []
    private var nextRecent = 0
    /// Results since the owner last took them. Unchecked like `bodies`.
    @exclusivity(unchecked) var results: [StreamResult] = []
    var events: [HTTP2Event] = []
    /// Server only: requests received since the owner last took them.
    var requests: [ServerRequest] = []
    /// Server only: streams closed since the owner last took them.
    var closedStreams: [(streamID: Int32, code: HTTP2ErrorCode)] = []
    var lastRespondedIndex = 0
    /// Server only: the responses whose `ResponseEnding` is not `endStream`, by stream id.
    var scriptedBodies: [Int32: ScriptedBody] = [:]
    /// Streams whose response was complete before our request was. They are reset after nghttp2 returns.
    var earlyResponses: [Int32] = []
    /// The peer's current limit; 0 before its first SETTINGS.
    private(set) var peerMaxConcurrentStreams = 0
    private(set) var hasPeerSettings = false
    var lowestGoAwayStreamID = Int32.max
    /// Server only: see `Configuration.announcedMaxConcurrentStreams`.
    var announcedLimit: UInt32?
    var isLimitAcknowledged = false
    /// Server only: streams above the announced limit. They are refused after nghttp2 returns.
    var refusedStreams: [Int32] = []
    /// Server only: the first frame, containing the announced limit. Freed with the session.
    private var firstFrame: UnsafeMutableRawBufferPointer?
    /// Whether the peer sent GOAWAY. A graceful GOAWAY names stream 2^31-1, so the id alone is not sufficient.
    var hasGoAway = false
    /// How many of `results` precede the first GOAWAY in the bytes just read; `nil` if there was none.
    var resultsBeforeGoAway: Int?
    /// How the peer ended the session: it violated the protocol, or its header block exceeded our limit.
    var violation: WireError?
    private(set) var hasSubmittedGoAway = false
    /// The number of streams and held requests without a result.
    var openCount = 0
    /// Counts frames that advanced an open stream: final HEADERS, DATA with bytes that are kept, RST_STREAM. A change
    /// shows that the peer is working on requests. Frames on closed streams and 1xx blocks do not show that, so they
    /// are not counted.
    var responseFrames: UInt64 = 0
    /// The number of streams whose HEADERS nghttp2 has not produced yet.
    var unwrittenCount = 0
    // Unchecked like `bodies`, because each push accesses them.
    /// Whether new requests are held, because the path to the peer is being checked.
    @exclusivity(unchecked) package var waitsForPathCheck = false
    /// The requests being held.
    @exclusivity(unchecked) var held = HeldRequests()
    @exclusivity(unchecked) var windowRule = SendWindowRule()
    var windowLimit = WindowStreamLimit()
    /// Client only: bytes of open streams' bodies that nghttp2 has not copied yet.
    @exclusivity(unchecked) var uncopiedBodyBytes = 0
    /// Client only: bytes kept of incomplete responses.
    @exclusivity(unchecked) var keptBytes = 0
    /// The decompressed size of the header block being received, in bytes.
    @exclusivity(unchecked) var headerBlockBytes = 0
    /// What the peer may still send without advancing a request. Unchecked like `bodies`.
    @exclusivity(unchecked) var glitches: GlitchBudget
    /// How often the peer has enlarged the connection's send window.
    var windowUpdates: UInt64 = 0

    let memory = SessionMemory()
    private var session: OpaquePointer?
    /// Client only: encodes the header blocks of requests. Unchecked like `bodies`.
    @exclusivity(unchecked) private var encoder: HeaderEncoder
    /// Client only: HEADERS that nghttp2 has produced, with our header block. See `encodeHeaders`.
    @exclusivity(unchecked) private var headersFrame = HeadersFrame()
    /// Server only: the fields of the message that is being passed to nghttp2.
    let scratch: UnsafeMutableBufferPointer<nghttp2_nv>

    package init(role: Role, configuration: Configuration) throws(WireError) {
        self.role = role
        self.configuration = configuration
        self.encoder = HeaderEncoder(names: role == .client ? configuration.variableNames : [])
        self.scratch = .allocate(capacity: role == .server ? 64 : 0)
        self.scratch.initialize(repeating: nghttp2_nv())
        self.glitches = GlitchBudget(prefixCount: role == .server ? Int(NGHTTP2_CLIENT_MAGIC_LEN) : 0)
        self.results.reserveCapacity(64)
        if role == .server { self.announcedLimit = configuration.announcedMaxConcurrentStreams }

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
        // nghttp2 keeps closed streams for a priority tree, which APNs does not use, and recognises late frames on them by
        // it (RFC 9113, section 5.1). A server must not forgive such frames. To a client they do no harm.
        if role == .client { nghttp2_option_set_no_closed_streams(option, 1) }
        capns_option_disable_glitch_rate_limit(option)
        if role == .server {
            capns_option_set_stream_reset_rate_limit(option, configuration.resetBurst, configuration.resetRate)
        }

        let context = Unmanaged.passUnretained(self).toOpaque()
        var session: OpaquePointer?
        let code =
            switch role {
            case .client:
                self.memory.withFunctions {
                    nghttp2_session_client_new3(&session, callbacks, context, option, $0)
                }
            case .server:
                self.memory.withFunctions {
                    nghttp2_session_server_new3(&session, callbacks, context, option, $0)
                }
            }
        guard code == 0, let session else {
            throw Self.error(code)
        }
        self.session = session

        var settings =
            switch role {
            case .client: [Self.setting(NGHTTP2_SETTINGS_ENABLE_PUSH, 0)]
            case .server:
                [Self.setting(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, configuration.maxConcurrentStreams)]
            }
        if role == .server, let size = configuration.initialWindowSize {
            settings.append(Self.setting(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, size))
        }
        try self.submitSettings(settings)
    }

    deinit {
        // nghttp2 calls no callbacks here.
        if let session { nghttp2_session_del(session) }
        for index in self.streams.indices { self.streams[index].values?.release(to: self.memory) }
        self.scratch.deallocate()
        self.firstFrame?.deallocate()
    }

    // MARK: Bytes

    /// Processes bytes from the peer, and updates `results`, `events` and `requests`. A client then calls
    /// `openHeld`.
    ///
    /// - Parameters:
    ///   - bytes: The data of one TLS record.
    ///   - overhead: The bytes and records around this data.
    ///   - now: The time on the connection's clock.
    package func receive(
        _ bytes: UnsafeRawBufferPointer,
        _ overhead: TLSOverhead = TLSOverhead(),
        now: NIODeadline
    ) throws(WireError) {
        guard let session, let base = bytes.baseAddress else { return }
        self.glitches.read(bytes, overhead)
        let taken = capns_session_mem_recv(session, base.assumingMemoryBound(to: UInt8.self), bytes.count)
        if taken < 0 { throw self.violation ?? Self.error(Int32(clamping: taken)) }
        for streamID in self.earlyResponses {
            // The peer may have reset it in the same bytes.
            guard nghttp2_session_get_stream_user_data(session, streamID) != nil else { continue }
            _ = nghttp2_submit_rst_stream(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), streamID, 0)
        }
        self.earlyResponses.removeAll(keepingCapacity: true)
        if !self.refusedStreams.isEmpty {
            for streamID in self.refusedStreams { try self.submitReset(streamID: streamID, code: .refusedStream) }
            self.refusedStreams.removeAll()
        }
        if self.hasGoAway || self.openCount > self.peerMaxConcurrentStreams {
            // nghttp2 would silently keep unwritten requests until the peer allows more streams, or forever.
            self.giveUpUnwritten(cause: self.hasGoAway ? .goAway : .noCapacity)
        }
        try self.checkGlitches(now)
    }

    /// Counts a read from the network that brought no data.
    func receivedNothing(now: NIODeadline) throws(WireError) {
        self.glitches.readNothing()
        try self.checkGlitches(now)
    }

    private func checkGlitches(_ now: NIODeadline) throws(WireError) {
        guard self.glitches.isExhausted(now: now) else { return }
        let error = self.violation ?? self.glitches.error
        self.violation = error
        try? self.submitGoAway(lastStreamID: nil, code: .enhanceYourCalm)
        throw error
    }

    /// The next frame for the peer, valid until the next call. Empty if there is nothing to send.
    package func nextFrame() throws(WireError) -> UnsafeRawBufferPointer {
        guard let session else { return UnsafeRawBufferPointer(start: nil, count: 0) }
        var data: UnsafePointer<UInt8>?
        let count = capns_session_mem_send(session, &data)
        if count < 0 { throw Self.error(Int32(clamping: count)) }
        let frame = UnsafeRawBufferPointer(start: data, count: count)
        if self.role == .client, count > 3 {
            // For HEADERS, nghttp2 has just called `on_frame_send`, and `encodeHeaders` has built our frame.
            let headers = self.headersFrame.take()
            guard frame[3] == UInt8(NGHTTP2_HEADERS.rawValue) else {
                guard headers == nil else { throw Self.headersNotAlone }
                return frame
            }
            guard let headers, HeadersFrame.isOneFrame(frame) else { throw Self.headersNotAlone }
            return headers
        }
        if let limit = self.announcedLimit, self.firstFrame == nil { return self.announce(limit, in: frame) }
        return frame
    }

    private static let headersNotAlone = WireError(.invariantBroken, "nghttp2 did not return exactly one HEADERS frame")

    private func announce(_ limit: UInt32, in frame: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        let copy = self.copy(of: frame, announcing: limit)
        self.firstFrame = copy
        return UnsafeRawBufferPointer(start: copy.baseAddress, count: frame.count)
    }

    /// Whether nothing is left to do on this connection (RFC 9113, section 6.8).
    package var isFinished: Bool {
        guard let session else { return true }
        return nghttp2_session_want_read(session) == 0 && nghttp2_session_want_write(session) == 0
    }

    // MARK: Control frames

    package func submitSettings(maxConcurrentStreams: UInt32) throws(WireError) {
        self.announcedLimit = nil
        try self.submitSettings([Self.setting(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, maxConcurrentStreams)])
    }

    package func submitPing() throws(WireError) {
        try self.check { nghttp2_submit_ping($0, UInt8(NGHTTP2_FLAG_NONE.rawValue), nil) }
    }

    package func submitReset(streamID: Int32, code: HTTP2ErrorCode) throws(WireError) {
        try self.check { nghttp2_submit_rst_stream($0, UInt8(NGHTTP2_FLAG_NONE.rawValue), streamID, code.rawValue) }
    }

    /// Submits a GOAWAY.
    ///
    /// - Parameter lastStreamID: The last stream that was or may be processed. `nil` means the last stream that the
    ///   peer opened.
    package func submitGoAway(lastStreamID: Int32?, code: HTTP2ErrorCode, debugData: [UInt8] = []) throws(WireError) {
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

    private func submitSettings(_ settings: [nghttp2_settings_entry]) throws(WireError) {
        try self.check {
            nghttp2_submit_settings($0, UInt8(NGHTTP2_FLAG_NONE.rawValue), settings, settings.count)
        }
    }

    // MARK: Used by the extensions

    /// Runs a call that returns 0 or an error code.
    func check(_ call: (OpaquePointer) -> Int32) throws(WireError) {
        guard let session else { throw WireError(.closedLocally, "the session is closed") }
        let code = call(session)
        if code != 0 { throw Self.error(code) }
    }

    func withSession<Result>(_ body: (OpaquePointer) -> Result) -> Result? {
        self.session.map(body)
    }

    func readPeerSettings(_ frame: UnsafePointer<nghttp2_frame>) {
        guard let session else { return }
        // A frame may lower the table's size and raise it again, and the encoder must announce both to the peer
        // (RFC 7541, section 4.2). nghttp2 keeps the smallest and the last value.
        for index in 0..<capns_frame_settings_count(frame) {
            let setting = capns_frame_setting(frame, index)
            guard UInt32(bitPattern: setting.settings_id) == NGHTTP2_SETTINGS_HEADER_TABLE_SIZE.rawValue else {
                continue
            }
            self.encoder.setPeerLimit(Int(clamping: setting.value))
        }
        let limit = nghttp2_session_get_remote_settings(session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS)
        // If a peer announces no limit, 100 is assumed, the minimum that RFC 9113, section 6.5.2, recommends.
        self.peerMaxConcurrentStreams = limit == UInt32.max ? 100 : Int(limit)
        self.hasPeerSettings = true
        self.events.append(.settings(maxConcurrentStreams: self.peerMaxConcurrentStreams))
    }

    // MARK: Fields of a request

    /// The header blocks that requests share.
    private struct FixedFields {
        var blocks: [HeaderBlock]

        var count: Int { self.blocks.reduce(0) { $0 + $1.lines.count } }
        var byteLimit: Int { self.blocks.reduce(0) { $0 + $1.byteLimit } }
    }

    /// Fields that are probably needed again. The blocks are compared by identity, which is safe because the entry
    /// keeps them alive.
    private struct RecentFields {
        var entry: Int32
        var shared: ObjectIdentifier
        var credential: ObjectIdentifier?
    }

    /// How many fields requests can share.
    private static let fixedFieldLimit = 60
    /// How many entries of `fixed` are kept for later requests, so that requests with different shared fields can
    /// alternate without encoding them again.
    private static let recentLimit = 8

    /// The entry of the fields that a request shares with others.
    ///
    /// - Returns: The entry, with one additional use that the caller must release; `nil` if there are too many fields,
    ///   or if they are too long.
    func fixedEntry(_ shared: HeaderBlock, _ credential: HeaderBlock?) -> Int32? {
        let (sharedID, credentialID) = (ObjectIdentifier(shared), credential.map(ObjectIdentifier.init))
        for recent in self.recentFixed where recent.shared == sharedID && recent.credential == credentialID {
            self.fixed.retain(entry: recent.entry)
            return recent.entry
        }
        let fields = FixedFields(blocks: [shared, credential].compactMap { $0 })
        guard fields.count <= Self.fixedFieldLimit, fields.byteLimit <= StreamTable.headerBlockLimit else { return nil }
        let entry = self.fixed.insert(fields)
        self.fixed.retain(entry: entry)
        let recent = RecentFields(entry: entry, shared: sharedID, credential: credentialID)
        if self.recentFixed.count < Self.recentLimit {
            self.recentFixed.append(recent)
        } else {
            self.releaseFixed(self.recentFixed[self.nextRecent].entry)
            self.recentFixed[self.nextRecent] = recent
            self.nextRecent = (self.nextRecent + 1) % Self.recentLimit
        }
        return entry
    }

    /// Retains these fields for one more stream.
    func retainFixed(_ entry: Int32) { self.fixed.retain(entry: entry) }

    func releaseFixed(_ entry: Int32) {
        if self.fixed.release(entry: entry) { self.encoder.forget(entry: entry) }
    }

    /// Builds the HEADERS frame that `nextFrame` returns in place of nghttp2's, which contains one placeholder field.
    ///
    /// nghttp2 decides the order of frames and tracks the states of streams. It does not use a header block that it has
    /// produced, so ours can take its place.
    func encodeHeaders(_ index: Int, flags: UInt8) {
        let fixed = self.streams[index].fixed
        guard let values = self.streams[index].values else { return }
        let lengths = values.lengths
        // Read `fixed` only if it is needed: that retains blocks, whose reference counts other threads change, too.
        let sharedLimit = self.encoder.sharedCount(of: fixed) ?? self.fixed[fixed]?.byteLimit ?? 0
        let limit = sharedLimit + self.encoder.namesLimit + lengths.wideSum
        self.headersFrame.make(streamID: self.streams[index].streamID, flags: flags, limit: limit) {
            self.encoder.encode(
                values.start,
                lengths,
                entry: fixed,
                { self.fixed[fixed]?.blocks ?? [] },
                to: $0
            )
        }
        values.release(to: self.memory)
        self.streams[index].values = nil
    }

    /// The value of a request's variable field, by its index among the names.
    func value(
        _ index: Int,
        in values: UnsafeBufferPointer<UInt8>,
        _ lengths: SIMD8<UInt16>
    ) -> UnsafeBufferPointer<UInt8> {
        var start = 0
        for before in 0..<index { start += Int(lengths[before]) }
        let end = start + Int(lengths[index])
        return end <= values.count ? UnsafeBufferPointer(rebasing: values[start..<end]) : .init(start: nil, count: 0)
    }

    /// Whether `name` is the name of this variable field.
    func isVariableName(_ index: Int, _ name: UnsafeBufferPointer<UInt8>) -> Bool { self.encoder.isName(index, name) }

    /// Releases a stream that neither nghttp2 nor this session uses any more.
    func release(_ index: Int) {
        guard self.streams[index].streamID != 0 else { return }
        if self.role == .client {
            self.uncopiedBodyBytes -= self.streams[index].outgoingCount - self.streams[index].outgoingOffset
            self.forgetKept(index)
        }
        self.releaseFixed(self.streams[index].fixed)
        self.streams[index].values?.release(to: self.memory)
        self.bodies.release(entry: self.streams[index].outgoing)
        self.streams.discard(index)
    }

    private static func setting(_ id: nghttp2_settings_id, _ value: UInt32) -> nghttp2_settings_entry {
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
