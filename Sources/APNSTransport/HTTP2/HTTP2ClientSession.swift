import CAPNSNghttp2
import NIOCore

/// The client's side of a session: submits requests, and gives each exactly one result.
package final class HTTP2ClientSession: HTTP2Session {
    package struct Configuration: Sendable {
        /// The names of the fields whose values differ between requests, with `:path` first.
        package var variableNames: [String] = [":path"]
        /// Which fields of responses with status 200 are kept. `nil` means all.
        package var responseFilter: ResponseFilter?
        /// The maximum number of bytes kept of a response's body. APNs' responses to pushes are far smaller.
        package var responseBodyLimit = StreamTable.bodyLimit

        package init() {}
    }

    /// Once the next stream id reaches this value, the connection should be replaced (RFC 9113, section 5.1.1).
    static let nearlyExhaustedStreamID: Int32 = Int32.max - 2048

    let configuration: Configuration
    // `@exclusivity(unchecked)`: see `HTTP2Session`.
    /// The header blocks of recent requests, and of requests whose HEADERS nghttp2 has not produced yet, including held
    /// requests.
    @exclusivity(unchecked) private var sharedFields = RefCountTable<SharedFields>()
    /// The entries of `sharedFields` that were used recently; each holds one use.
    @exclusivity(unchecked) private var recentFixed: [RecentFields] = []
    private var nextRecent = 0
    /// Results since the owner last took them.
    @exclusivity(unchecked) var results: [StreamResult] = []
    /// How many of `results` precede the first GOAWAY in the bytes just read; `nil` if there was none.
    var resultsBeforeGoAway: Int?
    /// Streams whose response was complete before our request was. They are reset after nghttp2 returns.
    private var earlyResponses: [Int32] = []
    /// The number of streams and held requests without a result.
    var openCount = 0
    /// The number of streams whose HEADERS nghttp2 has not produced yet.
    var unwrittenCount = 0
    /// Whether new requests are held, because the path to the peer is being checked.
    @exclusivity(unchecked) package var waitsForPathCheck = false
    /// The requests being held.
    @exclusivity(unchecked) var held = HeldRequests()
    @exclusivity(unchecked) var windowRule = SendWindowRule()
    var windowLimit = WindowStreamLimit()
    /// How often the peer has enlarged the connection's send window.
    private(set) var windowUpdates: UInt64 = 0
    /// Bytes of open streams' bodies that nghttp2 has not copied yet.
    @exclusivity(unchecked) var uncopiedBodyBytes = 0
    /// Bytes kept of incomplete responses.
    @exclusivity(unchecked) var keptBytes = 0
    /// Encodes the header blocks of requests.
    @exclusivity(unchecked) private var encoder: HeaderEncoder
    /// HEADERS that nghttp2 has produced, with our header block. See `encodeHeaders`.
    @exclusivity(unchecked) private var headersFrame = HeadersFrame()

    package init(configuration: Configuration) throws(WireError) {
        self.configuration = configuration
        self.encoder = HeaderEncoder(names: configuration.variableNames)
        self.results.reserveCapacity(64)
        try super.init(
            prefixCount: 0,
            make: { session, callbacks, context, option, memory in
                memory.withFunctions { nghttp2_session_client_new3(&session, callbacks, context, option, $0) }
            },
            configure: {
                // nghttp2 keeps closed streams for a priority tree, which APNs does not use, and recognises late frames
                // on them by it (RFC 9113, section 5.1). Such frames do no harm to a client.
                nghttp2_option_set_no_closed_streams($0, 1)
            }
        )
        try self.submitSettings([Self.setting(NGHTTP2_SETTINGS_ENABLE_PUSH, 0)])
    }

    deinit {
        for index in self.streams.indices { self.streams[index].values?.release(to: self.memory) }
    }

    // MARK: Callbacks

    override func headersBegin(streamID: Int32, index: Int?, isRequest: Bool) {
        guard let index, !self.streams[index].hasFinalHeaders else { return }
        self.streams[index].pendingStatus = 0
        self.keptBytes -= self.streams[index].fields.byteCount
        self.streams[index].fields.removeAll()
    }

    override func received(_ index: Int, name: UnsafeBufferPointer<UInt8>, value: UnsafeBufferPointer<UInt8>) {
        if name.count == 7, name[0] == UInt8(ascii: ":") {
            // nghttp2 has verified that this is `:status` with three digits.
            self.streams[index].pendingStatus = value.reduce(0) { $0 &* 10 &+ UInt16($1 &- 48) }
        } else if self.streams[index].pendingStatus == 200, let filter = self.configuration.responseFilter,
            self.encoder.isName(filter.echoed, name)
                ? self.streams[index].echo.matches(value) || !filter.keeps(name) : !filter.keeps(name)
        {
            // This field of an ordinary response contains nothing new.
        } else if self.streams[index].fields.byteCount + name.count + value.count <= StreamTable.fieldLimit,
            // The same number of bytes as the list needs for it.
            self.countKept(name.count + value.count + 4)
        {
            self.streams[index].fields.append(name: name, value: value)
        }
    }

    override func headersComplete(_ index: Int) {
        // 1xx blocks come before the final one (RFC 9113, section 8.1). A block after the final one contains trailers.
        if !self.streams[index].hasFinalHeaders, self.streams[index].pendingStatus >= 200 {
            self.streams[index].hasFinalHeaders = true
            self.streams[index].status = self.streams[index].pendingStatus
        }
    }

    /// Keeps enough to read the reason.
    override func keepBody(_ index: Int, count: Int) -> Int {
        let kept = min(self.configuration.responseBodyLimit - self.streams[index].body.count, count)
        return kept > 0 && self.countKept(kept) ? kept : 0
    }

    override func remoteComplete(_ index: Int) {
        self.streams[index].isRemoteComplete = true
        guard self.streams[index].hasFinalHeaders, !self.streams[index].isConcluded else { return }
        self.conclude(index, cause: .responded)
        if self.streams[index].outgoingOffset < self.streams[index].outgoingCount {
            // The server may respond before it has received the whole request (RFC 9113, section 8.1). nghttp2 would
            // continue to send the body; a reset frees the stream immediately.
            self.earlyResponses.append(self.streams[index].streamID)
        }
    }

    override func headersSent(_ index: Int, flags: UInt8) {
        guard !self.streams[index].isWritten else { return }
        self.streams[index].isWritten = true
        self.encodeHeaders(index, flags: flags)
        self.releaseShared(self.streams[index].sharedFields)
        self.streams[index].sharedFields = RefCountTable<[UInt8]>.none
        if !self.streams[index].isConcluded { self.unwrittenCount -= 1 }
    }

    override func headersNotSent(streamID: Int32) {
        guard let index = self.streams.index(of: streamID) else { return }
        self.conclude(index, cause: self.hasGoAway ? .goAway : .noCapacity)
        self.release(index)
    }

    override func bodyCopied(count: Int) { self.uncopiedBodyBytes -= count }

    override func streamClosed(_ index: Int, _ code: HTTP2ErrorCode) {
        // nghttp2 closes the streams above a GOAWAY's last id with REFUSED_STREAM.
        let isAboveGoAway = self.streams[index].streamID > self.lowestGoAwayStreamID
        self.conclude(index, cause: isAboveGoAway ? .goAway : .reset(code))
    }

    override func willRelease(_ index: Int) {
        self.uncopiedBodyBytes -= self.streams[index].outgoingCount - self.streams[index].outgoingOffset
        self.forgetKept(index)
        self.releaseShared(self.streams[index].sharedFields)
        self.streams[index].values?.release(to: self.memory)
    }

    override func received(_ setting: nghttp2_settings_entry) {
        // A frame may lower the table's size and raise it again, and the encoder must announce both to the peer
        // (RFC 7541, section 4.2). nghttp2 keeps the smallest and the last value.
        guard UInt32(bitPattern: setting.settings_id) == NGHTTP2_SETTINGS_HEADER_TABLE_SIZE.rawValue else { return }
        self.encoder.setPeerLimit(Int(clamping: setting.value))
    }

    override func goAwayReceived() {
        if self.resultsBeforeGoAway == nil { self.resultsBeforeGoAway = self.results.count }
    }

    override func windowGrew() {
        self.windowUpdates &+= 1
        self.windowRule.windowGrew()
    }

    // MARK: Bytes

    override func didReceive() throws(WireError) {
        for streamID in self.earlyResponses {
            _ = self.withSession { session in
                // The peer may have reset it in the same bytes.
                guard nghttp2_session_get_stream_user_data(session, streamID) != nil else { return }
                _ = nghttp2_submit_rst_stream(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), streamID, 0)
            }
        }
        self.earlyResponses.removeAll(keepingCapacity: true)
        if self.hasGoAway || self.openCount > self.peerMaxConcurrentStreams {
            // nghttp2 would silently keep unwritten requests until the peer allows more streams, or forever.
            self.giveUpUnwritten(cause: self.hasGoAway ? .goAway : .noCapacity)
        }
    }

    override func receivedNothing(now: NIODeadline) throws(WireError) {
        self.glitches.readNothing()
        try self.checkGlitches(now)
    }

    override func outgoing(_ frame: UnsafeRawBufferPointer) throws(WireError) -> UnsafeRawBufferPointer {
        guard frame.count > 3 else { return frame }
        // For HEADERS, nghttp2 has just called `on_frame_send`, and `encodeHeaders` has built our frame.
        let headers = self.headersFrame.take()
        guard frame[3] == UInt8(NGHTTP2_HEADERS.rawValue) else {
            guard headers == nil else { throw Self.headersNotAlone }
            return frame
        }
        guard let headers, HeadersFrame.isOneFrame(frame) else { throw Self.headersNotAlone }
        return headers
    }

    private static let headersNotAlone = WireError(.invariantBroken, "nghttp2 did not return exactly one HEADERS frame")

    override func giveUpUnwritten(cause: StreamCause) {
        self.giveUpHeld(cause: cause)
        guard self.unwrittenCount > 0 else { return }
        for index in self.streams.indices
        where self.streams[index].streamID != 0 && !self.streams[index].isWritten && !self.streams[index].isConcluded {
            self.giveUp(index, cause: cause)
        }
    }

    package override func concludeAll(cause: StreamCause) {
        self.giveUpHeld(cause: cause)
        for index in self.streams.indices where self.streams[index].streamID != 0 {
            self.conclude(index, cause: cause)
        }
    }

    // MARK: Fields of a request

    /// The header blocks that requests share.
    private struct SharedFields {
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
    private static let sharedFieldLimit = 60
    /// How many entries of `sharedFields` are kept for later requests, so that requests with different shared fields can
    /// alternate without encoding them again.
    private static let recentLimit = 8

    /// The entry of the fields that a request shares with others.
    ///
    /// - Returns: The entry, with one additional use that the caller must release; `nil` if there are too many fields,
    ///   or if they are too long.
    func sharedEntry(_ shared: HeaderBlock, _ credential: HeaderBlock?) -> Int32? {
        let (sharedID, credentialID) = (ObjectIdentifier(shared), credential.map(ObjectIdentifier.init))
        // A loop over the array would retain it.
        for index in self.recentFixed.indices {
            let recent = self.recentFixed[index]
            guard recent.shared == sharedID, recent.credential == credentialID else { continue }
            self.sharedFields.retain(entry: recent.entry)
            return recent.entry
        }
        let fields = SharedFields(blocks: [shared, credential].compactMap { $0 })
        guard fields.count <= Self.sharedFieldLimit, fields.byteLimit <= StreamTable.headerBlockLimit else {
            return nil
        }
        let entry = self.sharedFields.insert(fields)
        self.sharedFields.retain(entry: entry)
        let recent = RecentFields(entry: entry, shared: sharedID, credential: credentialID)
        if self.recentFixed.count < Self.recentLimit {
            self.recentFixed.append(recent)
        } else {
            self.releaseShared(self.recentFixed[self.nextRecent].entry)
            self.recentFixed[self.nextRecent] = recent
            self.nextRecent = (self.nextRecent + 1) % Self.recentLimit
        }
        return entry
    }

    /// Retains these fields for one more stream.
    func retainShared(_ entry: Int32) { self.sharedFields.retain(entry: entry) }

    func releaseShared(_ entry: Int32) {
        if self.sharedFields.release(entry: entry) { self.encoder.forget(entry: entry) }
    }

    /// Builds the HEADERS frame that `nextFrame` returns in place of nghttp2's, which contains one placeholder field.
    ///
    /// nghttp2 decides the order of frames and tracks the states of streams. It does not use a header block that it has
    /// produced, so ours can take its place.
    func encodeHeaders(_ index: Int, flags: UInt8) {
        let sharedFields = self.streams[index].sharedFields
        guard let values = self.streams[index].values else { return }
        let lengths = values.lengths
        // Read `sharedFields` only if it is needed: that retains blocks, whose reference counts other threads change, too.
        let sharedLimit = self.encoder.sharedCount(of: sharedFields) ?? self.sharedFields[sharedFields]?.byteLimit ?? 0
        let limit = sharedLimit + self.encoder.namesLimit + lengths.wideSum
        self.headersFrame.make(streamID: self.streams[index].streamID, flags: flags, limit: limit) {
            self.encoder.encode(
                values.start,
                lengths,
                entry: sharedFields,
                { self.sharedFields[sharedFields]?.blocks ?? [] },
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
}
