public import APNSModel

/// The last stream that a GOAWAY covers.
public enum GoAwayPoint: Sendable, Hashable {
    /// The request that triggered the GOAWAY is the last one that is processed. For other events: the last request
    /// received.
    case afterThisRequest
    /// The request that triggered the GOAWAY is the first one that is not processed, unless a later stream already was.
    case beforeThisRequest
    /// This stream id. It may contradict the streams that were processed, to simulate a faulty server: an id below a
    /// stream that already got its response, or one above all open streams, although later streams are ignored in any
    /// case.
    case streamID(Int32)
}

/// How a connection is closed without GOAWAY.
public enum ConnectionEnding: String, Sendable, Hashable, CaseIterable {
    /// Sends only a TCP FIN. If the client sent bytes that are unread, the system sends a reset instead.
    case fin
    /// Sends a TCP reset.
    case rst
    /// Ends TLS with close_notify.
    case closeNotify = "close-notify"
}

/// A fault in the server's TLS. The default value has no fault.
public struct TLSFault: Sendable, Hashable {
    /// The certificate that the server presents.
    public enum Certificate: String, Sendable, Hashable, CaseIterable {
        /// A certificate for the simulator's names, from its authority.
        case valid
        /// A certificate for another name.
        case otherHost = "other-host"
        /// An expired certificate.
        case expired
        /// A certificate that is not yet valid.
        case notYetValid = "not-yet-valid"
        /// A certificate from an authority other than the simulator's.
        case untrusted
    }

    /// The server's reaction to ALPN (RFC 7301).
    public enum ALPN: String, Sendable, Hashable, CaseIterable {
        /// Selects `h2`, as APNs does.
        case h2
        /// Supports only `http/1.1`: a client that offers only `h2` gets alert 120.
        case http11 = "http/1.1"
        /// Selects no protocol, as a server without ALPN does.
        case none
    }

    /// The TLS versions that the server supports.
    public enum Versions: String, Sendable, Hashable, CaseIterable {
        /// 1.2 and 1.3.
        case all
        /// Only 1.2.
        case tls12 = "1.2"
        /// Only 1.3.
        case tls13 = "1.3"
    }

    /// The alert with which the server refuses a client's certificate (RFC 8446, section 6.2).
    public enum CertificateRefusal: String, Sendable, Hashable, CaseIterable {
        /// Alert 42: the certificate is damaged or otherwise unusable.
        case bad = "bad_certificate"
        /// Alert 44.
        case revoked = "certificate_revoked"
        /// Alert 45.
        case expired = "certificate_expired"
        /// Alert 48: the certificate's authority is not trusted.
        case unknownCA = "unknown_ca"
        /// Alert 116: any certificate is accepted, and only clients without one are refused.
        case missing = "certificate_required"
    }

    /// The certificate that the server presents. Default: the valid one.
    public var certificate = Certificate.valid
    /// The server's reaction to ALPN. Default: it selects `h2`.
    public var alpn = ALPN.h2
    /// The TLS versions that the server supports. Default: 1.2 and 1.3.
    public var versions = Versions.all
    /// The alert with which every handshake is rejected (RFC 8446, section 6.2), for example 40, handshake_failure. Nil
    /// for none.
    public var handshakeAlert: UInt8?
    /// The server asks for a client certificate, and refuses it with this alert. A client without one gets
    /// certificate_required (in TLS 1.2, handshake_failure). In TLS 1.3 the alert arrives when the client has finished its
    /// handshake, as from APNs. Nil for none.
    public var clientCertificate: CertificateRefusal?

    /// TLS without a fault.
    public init() {}
}

/// One setting of a SETTINGS frame (RFC 9113, section 6.5.2).
public struct HTTP2Setting: Sendable, Hashable {
    /// The setting's number.
    public var identifier: UInt16
    /// Its value. The simulator does not check it.
    public var value: UInt32

    /// A setting with any number.
    public init(identifier: UInt16, value: UInt32) {
        self.identifier = identifier
        self.value = value
    }

    /// SETTINGS_HEADER_TABLE_SIZE, in bytes.
    public static func headerTableSize(_ value: UInt32) -> HTTP2Setting { .init(identifier: 1, value: value) }
    /// SETTINGS_MAX_CONCURRENT_STREAMS.
    public static func maxConcurrentStreams(_ value: UInt32) -> HTTP2Setting { .init(identifier: 3, value: value) }
    /// SETTINGS_INITIAL_WINDOW_SIZE, in bytes, at most 2^31-1; larger values are clamped.
    public static func initialWindowSize(_ value: UInt32) -> HTTP2Setting {
        .init(identifier: 4, value: min(value, 0x7FFF_FFFF))
    }
    /// SETTINGS_MAX_FRAME_SIZE, in bytes, clamped to 2^14 to 2^24-1.
    public static func maxFrameSize(_ value: UInt32) -> HTTP2Setting {
        .init(identifier: 5, value: min(max(value, 1 << 14), 1 << 24 - 1))
    }
    /// SETTINGS_MAX_HEADER_LIST_SIZE, in bytes.
    public static func maxHeaderListSize(_ value: UInt32) -> HTTP2Setting { .init(identifier: 6, value: value) }
}

/// What a fault does. `Docs/Simulator.md` describes each effect in JSON.
public struct FaultEffect: Sendable, Hashable {
    struct GoAway: Sendable, Hashable {
        var point = GoAwayPoint.afterThisRequest
        var reason: String?
        /// Debug data that replaces the reason.
        var debug: String?
        var code: UInt32 = 0
        /// The time between a first GOAWAY with 2^31-1 and the final one; nil to send only the final one.
        var notice: Duration?
    }

    enum Kind: Sendable, Hashable {
        // Effects that decide the result of a request or of a connection.
        case respond(ScriptedResponse)
        case earlyResponse(ScriptedResponse)
        case stall(isProcessed: Bool)
        case reset(code: UInt32, isProcessed: Bool)
        case goAway(GoAway)
        case drop(isProcessed: Bool, ConnectionEnding)
        case silence(isProcessed: Bool, acknowledgesPings: Bool, reads: Bool)
        // Effects in addition to the result of a request.
        case delay(DelayDistribution)
        case pause(Duration, everywhere: Bool)
        case settings([HTTP2Setting])
        case pingFlood(Int)
        case settingsFlood(Int)
        case slowReader(bytes: Int, every: Duration)
        case clock(offsetSeconds: Int64)
        case listenerDown(Duration)
        // Effects on a connection before its TLS handshake.
        case closeOnAccept(ConnectionEnding)
        case neverSpeak(Duration?)
        case handshakeStall(afterBytes: Int, Duration?)
        case tls(TLSFault)
        case rapidResetLimit(burst: Int, rate: Int)
    }

    var kind: Kind

    init(_ kind: Kind) { self.kind = kind }

    // MARK: Responses

    /// Responds with this reason without checking the request. The status is the reason's status in APNs' table (400
    /// for an unknown reason); the timestamp is in milliseconds since 1970.
    public static func respond(_ reason: RejectionReason, timestamp: Int64? = nil) -> FaultEffect {
        self.respond(ScriptedResponse(reason, timestamp: timestamp))
    }

    /// Responds with this status and reason, which need not match.
    ///
    /// - Parameters:
    ///   - status: 200 to 599.
    ///   - reason: the reason; nil for no body.
    public static func respond(status: Int, reason: RejectionReason?) -> FaultEffect {
        self.respond(ScriptedResponse(status: status, reason: reason))
    }

    /// Responds with a body of unknown form, as an edge server or a proxy might.
    public static func respond(status: Int, body: [UInt8]) -> FaultEffect {
        self.respond(ScriptedResponse(status: status).with { $0.body = body })
    }

    /// Sends this response, whether valid or not.
    public static func respond(_ response: ScriptedResponse) -> FaultEffect { FaultEffect(.respond(response)) }

    /// Responds with a body that starts as JSON and is truncated. The stream ends normally.
    public static func malformedBody(status: Int = 400) -> FaultEffect {
        self.respond(status: status, body: Array(#"{"reason":"BadDev"#.utf8))
    }

    /// Responds with a body of this size; `Int.max` for an endless body.
    public static func oversizedBody(status: Int = 400, bytes: Int = 1 << 20) -> FaultEffect {
        self.respond(ScriptedResponse(status: status).with { $0.bodyBytes = max(bytes, 0) })
    }

    /// Resets the stream after this many bytes of the body; 0 to reset it directly after the headers.
    public static func cutBody(_ response: ScriptedResponse, after bytes: Int, code: UInt32 = 2) -> FaultEffect {
        self.respond(
            response.with {
                $0.cutAfter = max(bytes, 0)
                $0.cutCode = code
            }
        )
    }

    /// Responds once the headers have arrived, without waiting for the body. The client sees an early response only if
    /// its body takes longer than its headers: see `Simulator.Configuration.initialWindowSize`.
    public static func earlyResponse(_ reason: RejectionReason) -> FaultEffect {
        self.earlyResponse(ScriptedResponse(reason))
    }

    /// Sends any response once the headers have arrived. With `resetCode` 0, RST_STREAM(NO_ERROR) follows: the server
    /// does not need the rest of the body.
    public static func earlyResponse(_ response: ScriptedResponse) -> FaultEffect {
        FaultEffect(.earlyResponse(response))
    }

    /// Decides the response immediately and sends it later.
    public static func delay(_ duration: Duration) -> FaultEffect { FaultEffect(.delay(.fixed(duration))) }
    /// Decides the response immediately and sends it after a delay that is drawn from the seed for each request.
    public static func delay(_ distribution: DelayDistribution) -> FaultEffect { FaultEffect(.delay(distribution)) }

    /// Never responds; the connection continues.
    ///
    /// - Parameter isProcessed: whether the push is processed nevertheless (if APNs would accept it).
    public static func stall(isProcessed: Bool = false) -> FaultEffect {
        FaultEffect(.stall(isProcessed: isProcessed))
    }

    /// Holds back all responses for a time, on this connection or on all, and then sends them. PINGs are acknowledged
    /// meanwhile.
    public static func pause(_ duration: Duration, everywhere: Bool = false) -> FaultEffect {
        FaultEffect(.pause(duration, everywhere: everywhere))
    }

    // MARK: Streams

    /// RST_STREAM(REFUSED_STREAM), which guarantees that the push was not processed.
    public static let refuse = FaultEffect(.reset(code: 7, isProcessed: false))

    /// RST_STREAM with this code (RFC 9113, section 7) instead of a response.
    public static func reset(code: UInt32, isProcessed: Bool = false) -> FaultEffect {
        FaultEffect(.reset(code: code, isProcessed: isProcessed))
    }

    // MARK: Connections

    /// GOAWAY. Streams up to the point are processed, including those that are still arriving; later streams are not.
    /// The connection closes when the last of them is done.
    ///
    /// - Parameters:
    ///   - point: the last stream that is processed.
    ///   - reason: sent in the debug data as `{"reason":…}`; nil for no debug data.
    ///   - code: the HTTP/2 error code; 0 is NO_ERROR.
    public static func goAway(
        _ point: GoAwayPoint = .afterThisRequest,
        reason: String? = nil,
        code: UInt32 = 0
    ) -> FaultEffect {
        FaultEffect(.goAway(GoAway(point: point, reason: reason, code: code)))
    }

    /// GOAWAY with this text as debug data.
    public static func goAway(_ point: GoAwayPoint = .afterThisRequest, debug: String, code: UInt32) -> FaultEffect {
        FaultEffect(.goAway(GoAway(point: point, debug: debug, code: code)))
    }

    /// The graceful GOAWAY in two steps (RFC 9113, section 6.8): first with 2^31-1, then, after `notice`, with the real
    /// last stream id.
    public static func gracefulGoAway(notice: Duration, reason: String? = nil) -> FaultEffect {
        FaultEffect(.goAway(GoAway(reason: reason, notice: notice)))
    }

    /// Closes the connection without GOAWAY. Earlier requests get their responses; later ones are lost.
    ///
    /// - Parameters:
    ///   - isProcessed: whether the request that triggered it is processed, with its response lost.
    ///   - ending: how TLS and TCP end.
    public static func dropConnection(isProcessed: Bool = false, _ ending: ConnectionEnding = .fin) -> FaultEffect {
        FaultEffect(.drop(isProcessed: isProcessed, ending))
    }

    /// From this request on, the connection accepts bytes and sends nothing, not even a response to a PING.
    public static let silence = FaultEffect(.silence(isProcessed: false, acknowledgesPings: false, reads: true))

    /// From now on, no request on the connection gets a response: the connection is half-open.
    ///
    /// - Parameters:
    ///   - isProcessed: whether arriving pushes are processed nevertheless.
    ///   - acknowledgesPings: whether PINGs and SETTINGS are still acknowledged.
    ///   - reads: whether the socket is still read.
    public static func silence(
        isProcessed: Bool = false,
        acknowledgesPings: Bool = false,
        reads: Bool = true
    ) -> FaultEffect {
        FaultEffect(.silence(isProcessed: isProcessed, acknowledgesPings: acknowledgesPings, reads: reads))
    }

    /// Sends SETTINGS_MAX_CONCURRENT_STREAMS.
    public static func settings(maxConcurrentStreams: UInt32) -> FaultEffect {
        self.settings(.maxConcurrentStreams(maxConcurrentStreams))
    }

    /// Sends one SETTINGS frame.
    public static func settings(_ settings: HTTP2Setting...) -> FaultEffect { FaultEffect(.settings(settings)) }

    /// Sends this many PINGs at once, each of which the client must acknowledge. At most 1,000,000.
    public static func pingFlood(_ count: Int) -> FaultEffect { FaultEffect(.pingFlood(min(max(count, 0), 1_000_000))) }

    /// Sends this many empty SETTINGS frames at once, each of which the client must acknowledge. At most 10,000,
    /// because nghttp2 scans all unacknowledged ones for each frame.
    public static func settingsFlood(_ count: Int) -> FaultEffect {
        FaultEffect(.settingsFlood(min(max(count, 0), 10_000)))
    }

    /// From now on, reads at most this many bytes from the socket in each interval. The client's send window runs out.
    public static func slowReader(bytes: Int, every interval: Duration) -> FaultEffect {
        FaultEffect(.slowReader(bytes: min(max(bytes, 1), 1 << 20), every: interval))
    }

    // MARK: The server

    /// From now on, shifts the server's clock by this many seconds. It affects `date` and the age of provider tokens.
    public static func clock(offsetSeconds: Int64) -> FaultEffect { FaultEffect(.clock(offsetSeconds: offsetSeconds)) }

    /// Refuses new connections for a time (the port is closed); open connections stay.
    public static func listenerDown(_ duration: Duration) -> FaultEffect { FaultEffect(.listenerDown(duration)) }

    // MARK: New connections

    /// Closes new connections as soon as they are accepted; `closeNotify` acts as `fin`.
    public static func closeOnAccept(_ ending: ConnectionEnding = .fin) -> FaultEffect {
        FaultEffect(.closeOnAccept(ending))
    }

    /// Accepts new connections and sends nothing on them, for a time or (nil) forever.
    public static func neverSpeak(for duration: Duration? = nil) -> FaultEffect { FaultEffect(.neverSpeak(duration)) }

    /// Stops the TLS handshake after this many bytes of the server, for a time or (nil) forever.
    public static func handshakeStall(afterBytes: Int = 100, for duration: Duration? = nil) -> FaultEffect {
        FaultEffect(.handshakeStall(afterBytes: max(afterBytes, 0), duration))
    }

    /// Applies this TLS fault to new connections.
    public static func tls(_ fault: TLSFault) -> FaultEffect { FaultEffect(.tls(fault)) }

    /// Presents this certificate to new connections.
    public static func certificate(_ certificate: TLSFault.Certificate) -> FaultEffect {
        var fault = TLSFault()
        fault.certificate = certificate
        return self.tls(fault)
    }

    /// Reacts in this way to the ALPN of new connections.
    public static func alpn(_ alpn: TLSFault.ALPN) -> FaultEffect {
        var fault = TLSFault()
        fault.alpn = alpn
        return self.tls(fault)
    }

    /// Ends the handshake of new connections with this alert (RFC 8446, section 6.2).
    public static func handshakeAlert(_ description: UInt8) -> FaultEffect {
        var fault = TLSFault()
        fault.handshakeAlert = description
        return self.tls(fault)
    }

    /// Asks new connections for a client certificate, and refuses it with this alert.
    public static func clientCertificate(_ refusal: TLSFault.CertificateRefusal) -> FaultEffect {
        var fault = TLSFault()
        fault.clientCertificate = refusal
        return self.tls(fault)
    }

    /// Ends a connection when the client has sent `burst` RST_STREAM frames and then more than `rate` per second. The
    /// defaults are nghttp2's.
    public static func rapidResetLimit(burst: Int = 1000, rate: Int = 33) -> FaultEffect {
        FaultEffect(.rapidResetLimit(burst: max(burst, 0), rate: max(rate, 0)))
    }

    // MARK: Properties

    /// The events to which this effect can apply. The first is the default if a trigger names no event.
    public var events: [FaultTrigger.Event] {
        switch self.kind {
        case .respond, .stall, .delay: [.request]
        case .reset: [.request, .headers]
        case .earlyResponse: [.headers]
        case .goAway, .drop, .silence, .settings, .pingFlood, .settingsFlood, .slowReader:
            [.request, .open, .time]
        case .pause, .clock, .listenerDown: [.request, .open, .time, .connect]
        case .closeOnAccept, .neverSpeak, .handshakeStall, .tls, .rapidResetLimit: [.connect]
        }
    }

    /// Whether the effect applies in addition to others and does not decide the result of a request.
    var isBeside: Bool {
        switch self.kind {
        case .respond, .earlyResponse, .stall, .reset, .goAway, .drop, .silence: false
        default: true
        }
    }

    /// The name of its kind in scripts and in the ledger.
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
        case .delay: "delay"
        case .pause: "pause"
        case .settings: "settings"
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
