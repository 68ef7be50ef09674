public import APNSModel

/// Where a GOAWAY cuts.
public enum GoAwayPoint: Sendable, Hashable {
    /// The request that triggered it is the last one that is processed. For other events: the last one that came.
    case afterThisRequest
    /// The request that triggered it is the first one that is not processed, unless a later stream was already.
    case beforeThisRequest
    /// This stream id. One below a stream that was answered already is a lie, as a faulty server would tell it.
    /// So is one above the streams that are open: those that come later are ignored all the same.
    case streamID(Int32)
}

/// How a connection is closed without GOAWAY.
public enum ConnectionEnding: String, Sendable, Hashable, CaseIterable {
    /// TCP's end alone. With bytes of the client unread the system makes a reset of it.
    case fin
    /// TCP's reset.
    case rst
    /// TLS is ended properly.
    case closeNotify = "close-notify"
}

/// What is wrong with a server's TLS. As it is made, nothing.
public struct TLSFault: Sendable, Hashable {
    /// Which certificate the server shows.
    public enum Certificate: String, Sendable, Hashable, CaseIterable {
        /// One for the simulator's names, from its authority.
        case valid
        /// One for another name.
        case otherHost = "other-host"
        /// One whose time is over.
        case expired
        /// One whose time has not come.
        case notYetValid = "not-yet-valid"
        /// From an authority that is not the simulator's.
        case untrusted
    }

    /// What the server makes of ALPN (RFC 7301).
    public enum ALPN: String, Sendable, Hashable, CaseIterable {
        /// It chooses `h2`, as APNs does.
        case h2
        /// It takes `http/1.1` only: alert 120 to whoever offers `h2` alone.
        case http11 = "http/1.1"
        /// It chooses nothing, as a server that does not know ALPN.
        case none
    }

    /// The versions of TLS that the server speaks.
    public enum Versions: String, Sendable, Hashable, CaseIterable {
        /// 1.2 and 1.3.
        case all
        /// 1.2 alone.
        case tls12 = "1.2"
        /// 1.3 alone.
        case tls13 = "1.3"
    }

    /// Which certificate it shows. Default: the right one.
    public var certificate = Certificate.valid
    /// What it makes of ALPN. Default: it chooses `h2`.
    public var alpn = ALPN.h2
    /// Which versions it speaks. Default: 1.2 and 1.3.
    public var versions = Versions.all
    /// Every handshake is refused with this alert (RFC 8446, section 6.2), for example 40, handshake_failure.
    public var handshakeAlert: UInt8?

    /// Nothing is wrong.
    public init() {}
}

/// One setting of a SETTINGS frame (RFC 9113, section 6.5.2).
public struct HTTP2Setting: Sendable, Hashable {
    /// The setting's number.
    public var identifier: UInt16
    /// Its value; whether it makes sense is for the client to judge.
    public var value: UInt32

    /// A setting by its number.
    public init(identifier: UInt16, value: UInt32) {
        self.identifier = identifier
        self.value = value
    }

    /// SETTINGS_HEADER_TABLE_SIZE, in bytes.
    public static func headerTableSize(_ value: UInt32) -> HTTP2Setting { .init(identifier: 1, value: value) }
    /// SETTINGS_MAX_CONCURRENT_STREAMS.
    public static func maxConcurrentStreams(_ value: UInt32) -> HTTP2Setting { .init(identifier: 3, value: value) }
    /// SETTINGS_INITIAL_WINDOW_SIZE, in bytes; above 2^31-1 it is taken as that.
    public static func initialWindowSize(_ value: UInt32) -> HTTP2Setting {
        .init(identifier: 4, value: min(value, 0x7FFF_FFFF))
    }
    /// SETTINGS_MAX_FRAME_SIZE, in bytes; beyond 2^14 to 2^24-1 it is taken as these.
    public static func maxFrameSize(_ value: UInt32) -> HTTP2Setting {
        .init(identifier: 5, value: min(max(value, 1 << 14), 1 << 24 - 1))
    }
    /// SETTINGS_MAX_HEADER_LIST_SIZE, in bytes.
    public static func maxHeaderListSize(_ value: UInt32) -> HTTP2Setting { .init(identifier: 6, value: value) }
}

/// What goes wrong. See `Docs/Simulator.md` for each as JSON.
public struct FaultEffect: Sendable, Hashable {
    struct GoAway: Sendable, Hashable {
        var point = GoAwayPoint.afterThisRequest
        var reason: String?
        /// Instead of the reason.
        var debug: String?
        var code: UInt32 = 0
        /// How long a first GOAWAY with 2^31-1 goes before; nil: it does not.
        var notice: Duration?
    }

    enum Kind: Sendable, Hashable {
        // These decide a request's fate, or a connection's.
        case respond(ScriptedResponse)
        case earlyResponse(ScriptedResponse)
        case stall(isProcessed: Bool)
        case reset(code: UInt32, isProcessed: Bool)
        case goAway(GoAway)
        case drop(isProcessed: Bool, ConnectionEnding)
        case silence(isProcessed: Bool, acknowledgesPings: Bool, reads: Bool)
        case alert(UInt8, isProcessed: Bool)
        // These go beside it.
        case delay(DelayDistribution)
        case pause(Duration, everywhere: Bool)
        case settings([HTTP2Setting])
        case frame(RawFrame)
        case malformed(MalformedFrame)
        case pingFlood(Int)
        case settingsFlood(Int)
        case slowReader(bytes: Int, every: Duration)
        case clock(offsetSeconds: Int64)
        case listenerDown(Duration)
        // These meet a connection before its TLS.
        case closeOnAccept(ConnectionEnding)
        case neverSpeak(Duration?)
        case handshakeStall(afterBytes: Int, Duration?)
        case tls(TLSFault)
        case rapidResetLimit(burst: Int, rate: Int)
    }

    var kind: Kind

    init(_ kind: Kind) { self.kind = kind }

    // MARK: Answers

    /// Answers with this reason; nothing is checked. The status is the one the reason has in APNs' table (400 for an
    /// unknown one), the timestamp is milliseconds since 1970.
    public static func respond(_ reason: RejectionReason, timestamp: Int64? = nil) -> FaultEffect {
        self.respond(ScriptedResponse(reason, timestamp: timestamp))
    }

    /// Answers with this status and reason, which may not fit together.
    ///
    /// - Parameters:
    ///   - status: from 200 to 599.
    ///   - reason: nil: no body.
    public static func respond(status: Int, reason: RejectionReason?) -> FaultEffect {
        self.respond(ScriptedResponse(status: status, reason: reason))
    }

    /// Answers with a body of which nobody knows the form, as an edge server or a proxy might.
    public static func respond(status: Int, body: [UInt8]) -> FaultEffect {
        self.respond(ScriptedResponse(status: status).with { $0.body = body })
    }

    /// Answers as described, right or wrong.
    public static func respond(_ response: ScriptedResponse) -> FaultEffect { FaultEffect(.respond(response)) }

    /// A body that begins as JSON and breaks off, in a stream that ends as it should.
    public static func malformedBody(status: Int = 400) -> FaultEffect {
        self.respond(status: status, body: Array(#"{"reason":"BadDev"#.utf8))
    }

    /// A body of so many bytes; `Int.max` of them are an endless one.
    public static func oversizedBody(status: Int = 400, bytes: Int = 1 << 20) -> FaultEffect {
        self.respond(ScriptedResponse(status: status).with { $0.bodyBytes = max(bytes, 0) })
    }

    /// The stream is reset when so many bytes of the body are out; 0: right behind the headers.
    public static func cutBody(_ response: ScriptedResponse, after bytes: Int, code: UInt32 = 2) -> FaultEffect {
        self.respond(
            response.with {
                $0.cutAfter = max(bytes, 0)
                $0.cutCode = code
            }
        )
    }

    /// Answers when the headers have come, without waiting for the body. It is early for a client only if its body
    /// takes longer than its headers: see `Simulator.Configuration.initialWindowSize`.
    public static func earlyResponse(_ reason: RejectionReason) -> FaultEffect {
        self.earlyResponse(ScriptedResponse(reason))
    }

    /// The same with any response; `resetCode` 0 is the RST_STREAM(NO_ERROR) that says that no more body is wanted.
    public static func earlyResponse(_ response: ScriptedResponse) -> FaultEffect {
        FaultEffect(.earlyResponse(response))
    }

    /// Decides at once and answers later.
    public static func delay(_ duration: Duration) -> FaultEffect { FaultEffect(.delay(.fixed(duration))) }
    /// Decides at once and answers after a time that is drawn from the seed for each request.
    public static func delay(_ distribution: DelayDistribution) -> FaultEffect { FaultEffect(.delay(distribution)) }

    /// Never answers; the connection goes on.
    ///
    /// - Parameter isProcessed: the push is accepted all the same (if it is one that APNs accepts).
    public static func stall(isProcessed: Bool = false) -> FaultEffect {
        FaultEffect(.stall(isProcessed: isProcessed))
    }

    /// For a time no request is answered, on this connection or everywhere; then all responses go out. PINGs are answered.
    public static func pause(_ duration: Duration, everywhere: Bool = false) -> FaultEffect {
        FaultEffect(.pause(duration, everywhere: everywhere))
    }

    // MARK: Streams

    /// RST_STREAM(REFUSED_STREAM): the promise that the push was not processed.
    public static let refuse = FaultEffect(.reset(code: 7, isProcessed: false))

    /// RST_STREAM with this code (RFC 9113, section 7) and no response.
    public static func reset(code: UInt32, isProcessed: Bool = false) -> FaultEffect {
        FaultEffect(.reset(code: code, isProcessed: isProcessed))
    }

    // MARK: Connections

    /// GOAWAY. Streams up to the point are processed, also those that are still arriving; those above are not. The
    /// connection closes when the last one is done.
    ///
    /// - Parameters:
    ///   - point: where it cuts.
    ///   - reason: goes into the debug data as `{"reason":…}`; nil: no debug data.
    ///   - code: the HTTP/2 error code; 0 is NO_ERROR.
    public static func goAway(
        _ point: GoAwayPoint = .afterThisRequest,
        reason: String? = nil,
        code: UInt32 = 0
    ) -> FaultEffect {
        FaultEffect(.goAway(GoAway(point: point, reason: reason, code: code)))
    }

    /// GOAWAY whose debug data is this text.
    public static func goAway(_ point: GoAwayPoint = .afterThisRequest, debug: String, code: UInt32) -> FaultEffect {
        FaultEffect(.goAway(GoAway(point: point, debug: debug, code: code)))
    }

    /// The graceful GOAWAY in two steps (RFC 9113, section 6.8): 2^31-1 first, and the real last stream id after `notice`.
    public static func gracefulGoAway(notice: Duration, reason: String? = nil) -> FaultEffect {
        FaultEffect(.goAway(GoAway(reason: reason, notice: notice)))
    }

    /// Closes the connection without GOAWAY. Requests that came before it have been answered, those behind it are lost.
    ///
    /// - Parameters:
    ///   - isProcessed: the request that triggered it is processed, and its response lost.
    ///   - closeNotify: TLS is ended properly.
    public static func dropConnection(isProcessed: Bool = false, closeNotify: Bool = false) -> FaultEffect {
        self.dropConnection(isProcessed: isProcessed, closeNotify ? .closeNotify : .fin)
    }

    /// Closes the connection without GOAWAY, in one of three ways.
    public static func dropConnection(isProcessed: Bool = false, _ ending: ConnectionEnding) -> FaultEffect {
        FaultEffect(.drop(isProcessed: isProcessed, ending))
    }

    /// From this request on the connection takes bytes and says nothing any more, not even to a PING.
    public static let silence = FaultEffect(.silence(isProcessed: false, acknowledgesPings: false, reads: true))

    /// From now on nothing is answered on the connection: half-open.
    ///
    /// - Parameters:
    ///   - isProcessed: the pushes that come are processed all the same.
    ///   - acknowledgesPings: PINGs and SETTINGS are still acknowledged.
    ///   - reads: false: the socket is not read any more either.
    public static func silence(
        isProcessed: Bool = false,
        acknowledgesPings: Bool = false,
        reads: Bool = true
    ) -> FaultEffect {
        FaultEffect(.silence(isProcessed: isProcessed, acknowledgesPings: acknowledgesPings, reads: reads))
    }

    /// A fatal TLS alert behind a finished handshake, as a server sends that has looked at a certificate too late:
    /// 42 bad_certificate, 44 certificate_revoked, 45 certificate_expired, 48 unknown_ca, 116 certificate_required
    /// (RFC 8446, section 6.2). In TLS 1.2 the connection is closed without it.
    public static func alert(_ description: UInt8, isProcessed: Bool = false) -> FaultEffect {
        FaultEffect(.alert(description, isProcessed: isProcessed))
    }

    /// SETTINGS_MAX_CONCURRENT_STREAMS.
    public static func settings(maxConcurrentStreams: UInt32) -> FaultEffect {
        self.settings(.maxConcurrentStreams(maxConcurrentStreams))
    }

    /// One SETTINGS frame.
    public static func settings(_ settings: HTTP2Setting...) -> FaultEffect { FaultEffect(.settings(settings)) }

    /// A frame of any type and content, in front of the response.
    public static func frame(_ frame: RawFrame) -> FaultEffect { FaultEffect(.frame(frame)) }

    /// A frame that breaks the protocol, in front of the response.
    public static func malformed(_ frame: MalformedFrame) -> FaultEffect { FaultEffect(.malformed(frame)) }

    /// So many PINGs at once, each of which the client has to acknowledge. At most 1,000,000.
    public static func pingFlood(_ count: Int) -> FaultEffect { FaultEffect(.pingFlood(min(max(count, 0), 1_000_000))) }

    /// So many empty SETTINGS at once, each of which the client has to acknowledge. At most 10,000: nghttp2 walks
    /// through all that are not acknowledged for each.
    public static func settingsFlood(_ count: Int) -> FaultEffect {
        FaultEffect(.settingsFlood(min(max(count, 0), 10_000)))
    }

    /// From now on at most so many bytes are read from the socket in each interval. The client's send window empties.
    public static func slowReader(bytes: Int, every interval: Duration) -> FaultEffect {
        FaultEffect(.slowReader(bytes: min(max(bytes, 1), 1 << 20), every: interval))
    }

    // MARK: The server

    /// From now on the server's clock is off by so many seconds: `date` and the age of provider tokens.
    public static func clock(offsetSeconds: Int64) -> FaultEffect { FaultEffect(.clock(offsetSeconds: offsetSeconds)) }

    /// For a time new connections are refused (the port is closed); those that are open stay.
    public static func listenerDown(_ duration: Duration) -> FaultEffect { FaultEffect(.listenerDown(duration)) }

    // MARK: New connections

    /// New connections are closed as soon as they are accepted; `closeNotify` counts as `fin`.
    public static func closeOnAccept(_ ending: ConnectionEnding = .fin) -> FaultEffect {
        FaultEffect(.closeOnAccept(ending))
    }

    /// New connections are accepted and nothing is said on them, for a time or (nil) for ever.
    public static func neverSpeak(for duration: Duration? = nil) -> FaultEffect { FaultEffect(.neverSpeak(duration)) }

    /// The TLS handshake stops after so many bytes of the server, for a time or (nil) for ever.
    public static func handshakeStall(afterBytes: Int = 100, for duration: Duration? = nil) -> FaultEffect {
        FaultEffect(.handshakeStall(afterBytes: max(afterBytes, 0), duration))
    }

    /// TLS as described.
    public static func tls(_ fault: TLSFault) -> FaultEffect { FaultEffect(.tls(fault)) }

    /// New connections meet this certificate.
    public static func certificate(_ certificate: TLSFault.Certificate) -> FaultEffect {
        var fault = TLSFault()
        fault.certificate = certificate
        return self.tls(fault)
    }

    /// New connections meet this response to ALPN.
    public static func alpn(_ alpn: TLSFault.ALPN) -> FaultEffect {
        var fault = TLSFault()
        fault.alpn = alpn
        return self.tls(fault)
    }

    /// The handshake of new connections ends with this alert (RFC 8446, section 6.2).
    public static func handshakeAlert(_ description: UInt8) -> FaultEffect {
        var fault = TLSFault()
        fault.handshakeAlert = description
        return self.tls(fault)
    }

    /// Connections end when a client has sent `burst` RST_STREAM and `rate` a second beyond; the defaults are nghttp2's.
    public static func rapidResetLimit(burst: Int = 1000, rate: Int = 33) -> FaultEffect {
        FaultEffect(.rapidResetLimit(burst: max(burst, 0), rate: max(rate, 0)))
    }

    // MARK: What goes with what

    /// The events that it can apply to; the first one is the one it applies to when a trigger names none.
    public var events: [FaultTrigger.Event] {
        switch self.kind {
        case .respond, .stall, .delay: [.request]
        case .reset: [.request, .headers]
        case .earlyResponse: [.headers]
        case .goAway, .drop, .silence, .alert, .settings, .frame, .malformed, .pingFlood, .settingsFlood, .slowReader:
            [.request, .open, .time]
        case .pause, .clock, .listenerDown: [.request, .open, .time, .connect]
        case .closeOnAccept, .neverSpeak, .handshakeStall, .tls, .rapidResetLimit: [.connect]
        }
    }

    /// Whether it goes beside others and decides nobody's fate.
    var isBeside: Bool {
        switch self.kind {
        case .respond, .earlyResponse, .stall, .reset, .goAway, .drop, .silence, .alert: false
        default: true
        }
    }

    /// Its kind as scripts and the ledger call it.
    public var name: String {
        switch self.kind {
        case .respond: "respond"
        case .earlyResponse: "early-response"
        case .stall: "stall"
        case .reset(code: 7, isProcessed: false): "refuse"
        case .reset: "reset"
        case .goAway: "goaway"
        case .drop: "drop"
        case .silence: "silence"
        case .alert: "alert"
        case .delay: "delay"
        case .pause: "pause"
        case .settings: "settings"
        case .frame: "frame"
        case .malformed: "malformed"
        case .pingFlood: "ping-flood"
        case .settingsFlood: "settings-flood"
        case .slowReader: "slow-reader"
        case .clock: "clock"
        case .listenerDown: "listener-down"
        case .closeOnAccept: "close-on-accept"
        case .neverSpeak: "never-speak"
        case .handshakeStall: "handshake-stall"
        case .tls: "tls"
        case .rapidResetLimit: "rapid-reset-limit"
        }
    }
}
