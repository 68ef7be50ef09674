import CAPNSNghttp2
import Synchronization

/// A request that a server received.
package struct ServerRequest: Sendable {
    package var streamID: Int32
    package var fields: FieldList
    package var body: [UInt8]
    /// `false` if the request was reported early and its body may still arrive.
    package var isComplete: Bool
}

/// A switch shared by many server connections. While it is on, requests are reported twice: when their headers are
/// complete, and again when their body is. It may be set from any thread.
package final class HeaderReporting: Sendable {
    private let flag = Atomic(false)

    package init() {}

    package var isOn: Bool {
        get { self.flag.load(ordering: .acquiring) }
        set { self.flag.store(newValue, ordering: .releasing) }
    }
}

/// The server's side of a session: reports requests, and sends responses.
package final class HTTP2ServerSession: HTTP2Session {
    package struct Configuration: Sendable {
        /// The first SETTINGS_MAX_CONCURRENT_STREAMS.
        package var maxConcurrentStreams: UInt32 = 100
        /// A smaller limit that the first SETTINGS_MAX_CONCURRENT_STREAMS announces instead of `maxConcurrentStreams`.
        /// It applies until the server submits another limit. nghttp2 by itself would refuse streams that a client
        /// opened before the client knew the limit. With this setting, streams above the limit are refused only after
        /// the client has acknowledged it (RFC 9113, section 6.5.3).
        package var announcedMaxConcurrentStreams: UInt32?
        /// How many RST_STREAM frames a client may send at once (burst) and per second (rate) before the session ends.
        package var resetBurst: UInt64 = 1_000_000
        package var resetRate: UInt64 = 1_000_000
        /// Whether requests are reported when their headers are complete, rather than when their body is.
        package var reportsRequestsEarly = false
        /// See `HeaderReporting`.
        package var headerReporting: HeaderReporting?
        /// SETTINGS_INITIAL_WINDOW_SIZE in bytes. `nil` means the protocol's default of 65,535.
        package var initialWindowSize: UInt32?

        package init() {}
    }

    private let configuration: Configuration
    /// Requests received since the owner last took them.
    var requests: [ServerRequest] = []
    /// Streams closed since the owner last took them.
    var closedStreams: [(streamID: Int32, code: HTTP2ErrorCode)] = []
    private var lastRespondedIndex = 0
    /// The responses whose `ResponseEnding` is not `endStream`, by stream id.
    var scriptedBodies: [Int32: ScriptedBody] = [:]
    /// See `Configuration.announcedMaxConcurrentStreams`.
    private var announcedLimit: UInt32?
    private var isLimitAcknowledged = false
    /// Streams above the announced limit. They are refused after nghttp2 returns.
    private var refusedStreams: [Int32] = []
    /// The first frame, containing the announced limit. Freed with the session.
    private var firstFrame: UnsafeMutableRawBufferPointer?
    /// The fields of the message that is being passed to nghttp2.
    private let scratch: UnsafeMutableBufferPointer<nghttp2_nv>

    package init(configuration: Configuration) throws(WireError) {
        self.configuration = configuration
        self.announcedLimit = configuration.announcedMaxConcurrentStreams
        self.scratch = .allocate(capacity: 64)
        self.scratch.initialize(repeating: nghttp2_nv())
        try super.init(
            prefixCount: Int(NGHTTP2_CLIENT_MAGIC_LEN),
            make: { session, callbacks, context, option, memory in
                memory.withFunctions { nghttp2_session_server_new3(&session, callbacks, context, option, $0) }
            },
            configure: {
                capns_option_set_stream_reset_rate_limit($0, configuration.resetBurst, configuration.resetRate)
            }
        )
        var settings = [Self.setting(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, configuration.maxConcurrentStreams)]
        if let size = configuration.initialWindowSize {
            settings.append(Self.setting(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, size))
        }
        try self.submitSettings(settings)
    }

    deinit {
        self.scratch.deallocate()
        self.firstFrame?.deallocate()
    }

    // MARK: Callbacks

    override func headersBegin(streamID: Int32, index: Int?, isRequest: Bool) {
        guard isRequest else { return }
        let index = self.streams.allocate()
        self.streams[index].streamID = streamID
        _ = self.withSession {
            nghttp2_session_set_stream_user_data($0, streamID, UnsafeMutableRawPointer(bitPattern: index + 1))
        }
        if self.announcedLimit != nil, !self.admits(index) { self.streams[index].isConcluded = true }
    }

    /// Whether a new stream is within the limit that the client has acknowledged. If not, the stream is recorded in
    /// `refusedStreams`.
    private func admits(_ index: Int) -> Bool {
        guard let limit = self.announcedLimit, self.isLimitAcknowledged, self.streams.count > Int(limit) else {
            return true
        }
        self.refusedStreams.append(self.streams[index].streamID)
        return false
    }

    override func received(_ index: Int, name: UnsafeBufferPointer<UInt8>, value: UnsafeBufferPointer<UInt8>) {
        guard self.streams[index].fields.byteCount + name.count + value.count <= StreamTable.fieldLimit else { return }
        self.streams[index].fields.append(name: name, value: value)
    }

    override func headersComplete(_ index: Int) {
        guard !self.streams[index].hasFinalHeaders, !self.streams[index].isConcluded else { return }
        self.streams[index].hasFinalHeaders = true
        if self.configuration.reportsRequestsEarly || self.configuration.headerReporting?.isOn == true {
            self.report(index, isComplete: false)
        }
    }

    /// Keeps more than the largest body that APNs accepts, so that the server can detect a body that is too large.
    override func keepBody(_ index: Int, count: Int) -> Int {
        min(16 * StreamTable.bodyLimit - self.streams[index].body.count, count)
    }

    override func remoteComplete(_ index: Int) {
        self.streams[index].isRemoteComplete = true
        guard !self.streams[index].isConcluded, !self.configuration.reportsRequestsEarly else { return }
        self.report(index, isComplete: true)
    }

    override func streamClosed(_ index: Int, _ code: HTTP2ErrorCode) {
        if !self.scriptedBodies.isEmpty { self.scriptedBodies[self.streams[index].streamID] = nil }
        self.closedStreams.append((self.streams[index].streamID, code))
    }

    override func settingsAcknowledged() { self.isLimitAcknowledged = true }

    private func report(_ index: Int, isComplete: Bool) {
        self.requests.append(
            ServerRequest(
                streamID: self.streams[index].streamID,
                fields: self.streams[index].fields,
                body: self.streams[index].body,
                isComplete: isComplete
            )
        )
    }

    // MARK: Bytes

    override func didReceive() throws(WireError) {
        for streamID in self.refusedStreams { try self.submitReset(streamID: streamID, code: .refusedStream) }
        self.refusedStreams.removeAll(keepingCapacity: true)
    }

    override func outgoing(_ frame: UnsafeRawBufferPointer) throws(WireError) -> UnsafeRawBufferPointer {
        guard let limit = self.announcedLimit, self.firstFrame == nil else { return frame }
        let copy = Self.copy(of: frame, announcing: limit)
        self.firstFrame = copy
        return UnsafeRawBufferPointer(start: copy.baseAddress, count: frame.count)
    }

    /// Copies the first SETTINGS frame (RFC 9113, section 6.5.1), replacing the limit of streams.
    private static func copy(
        of frame: UnsafeRawBufferPointer,
        announcing limit: UInt32
    ) -> UnsafeMutableRawBufferPointer {
        let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: max(frame.count, 1), alignment: 8)
        copy.copyMemory(from: frame)
        guard frame.count >= 9, frame[3] == 4, frame[4] == 0 else { return copy }  // type SETTINGS, no ACK
        for entry in stride(from: 9, through: frame.count - 6, by: 6) where frame[entry] == 0 && frame[entry + 1] == 3 {
            copy.storeBytes(of: limit.bigEndian, toByteOffset: entry + 2, as: UInt32.self)
        }
        return copy
    }

    // MARK: Settings and responses

    package func submitSettings(maxConcurrentStreams: UInt32) throws(WireError) {
        self.announcedLimit = nil
        try self.submitSettings([Self.setting(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, maxConcurrentStreams)])
    }

    /// Sends SETTINGS with these identifiers and values, in this order (RFC 9113, section 6.5.1).
    ///
    /// - Throws: `invariantBroken` for values that the protocol forbids, which nghttp2 does not send.
    package func submitSettings(_ settings: [(identifier: UInt16, value: UInt32)]) throws(WireError) {
        if settings.contains(where: { $0.identifier == 3 }) { self.announcedLimit = nil }
        try self.submitSettings(
            settings.map { nghttp2_settings_entry(settings_id: Int32($0.identifier), value: $0.value) }
        )
    }

    /// Responds to a request. Does nothing if its stream is already closed.
    package func respond(streamID: Int32, status: Int, fields: FieldList, body: [UInt8]) throws(WireError) {
        guard let index = self.streams.index(of: streamID, hint: self.lastRespondedIndex) else { return }
        self.lastRespondedIndex = index
        self.bodies.release(entry: self.streams[index].outgoing)
        self.streams[index].outgoing = body.isEmpty ? RefCountTable<[UInt8]>.none : self.bodies.insert(body)
        self.streams[index].outgoingCount = body.count
        self.streams[index].outgoingOffset = 0
        let code = self.withResponseFields(status: status, fields: fields) { nva, count in
            self.withSession {
                capns_submit_response(
                    $0,
                    streamID,
                    nva,
                    count,
                    body.isEmpty ? nil : Self.readBody,
                    UInt(bitPattern: index + 1)
                )
            }
        }
        if let code = code ?? nil, code != 0 { throw Self.error(code) }
    }

    /// Lays out the fields of a response for nghttp2, which copies them.
    func withResponseFields<Result>(
        status: Int,
        fields: FieldList,
        _ body: (UnsafePointer<nghttp2_nv>, Int) -> Result
    ) -> Result? {
        var digits = (UInt8(ascii: "0"), UInt8(ascii: "0"), UInt8(ascii: "0"))
        digits.0 += UInt8(truncatingIfNeeded: status / 100 % 10)
        digits.1 += UInt8(truncatingIfNeeded: status / 10 % 10)
        digits.2 += UInt8(truncatingIfNeeded: status % 10)
        let statusName: StaticString = ":status"
        return withUnsafeBytes(of: &digits) { digits in
            let first = (
                FieldList.Bytes(start: statusName.utf8Start, count: statusName.utf8CodeUnitCount),
                digits.bindMemory(to: UInt8.self)
            )
            return self.withFields(fields, after: first, body)
        }
    }

    /// Lays out fields for nghttp2, which copies them.
    func withFields<Result>(
        _ fields: FieldList,
        after first: (FieldList.Bytes, FieldList.Bytes)? = nil,
        _ body: (UnsafePointer<nghttp2_nv>, Int) -> Result
    ) -> Result? {
        var count = 0
        let add = { (name: FieldList.Bytes, value: FieldList.Bytes) in
            guard count < self.scratch.count else { return }
            self.scratch[count] = nghttp2_nv(
                name: UnsafeMutablePointer(mutating: name.baseAddress),
                value: UnsafeMutablePointer(mutating: value.baseAddress),
                namelen: name.count,
                valuelen: value.count,
                flags: UInt8(NGHTTP2_NV_FLAG_NONE.rawValue)
            )
            count += 1
        }
        if let first { add(first.0, first.1) }
        return fields.withFields(each: add) {
            self.scratch.baseAddress.map { body(UnsafePointer($0), count) }
        }
    }
}
