public import APNSModel

/// A list of faults as data, for `apns simulator --faults FILE` and for tests.
///
/// As JSON: `{"faults":[{"when":{"skip":100,"times":5},"effect":{"kind":"answer","status":503,
/// "reason":"ServiceUnavailable"}}]}`.
public struct FaultScript: Sendable, Hashable, Codable {
    public var faults: [Fault]

    public init(_ faults: [Fault] = []) {
        self.faults = faults
    }
}

/// A misbehaviour: when it happens and what it is.
///
/// Each fault counts the requests that match it, in the order in which the simulator sees them. Of the faults that
/// apply to one request, delays add up, SETTINGS are sent, and the first one that decides the request's fate does so.
public struct Fault: Sendable, Hashable, Codable {
    public var when: FaultTrigger
    public var effect: FaultEffect

    public init(_ effect: FaultEffect, when: FaultTrigger = .next) {
        self.when = when
        self.effect = effect
    }

    /// The next `count` requests are answered 503 `ServiceUnavailable`.
    public static func serviceUnavailable(count: Int) -> Fault {
        Fault(.answer(.serviceUnavailable), when: .next(count))
    }

    /// The next `count` requests are answered 500 `InternalServerError`.
    public static func internalServerError(count: Int) -> Fault {
        Fault(.answer(.internalServerError), when: .next(count))
    }

    /// The next `count` requests are refused: RST_STREAM(REFUSED_STREAM), not processed.
    public static func refuse(count: Int) -> Fault {
        Fault(.refuse, when: .next(count))
    }

    /// Each of the next `count` requests is answered with this reason and its status.
    public static func answer(_ reason: RejectionReason, count: Int = 1) -> Fault {
        Fault(.answer(reason), when: .next(count))
    }
}

/// Which requests a fault applies to. All conditions must hold.
public struct FaultTrigger: Sendable, Hashable, Codable {
    /// How many matching requests pass before it begins.
    public var skip: Int
    /// How many requests it then applies to; nil: all that follow.
    public var times: Int?
    /// From 0 to 1: how likely it applies to a matching request after `skip`. Drawn from the configuration's seed.
    public var probability: Double
    /// Only pushes to these device tokens, in lower case; nil: to all.
    public var deviceTokens: Set<String>?
    /// Only requests on the connection with this number; nil: on all.
    public var connection: Int?

    public init(
        skip: Int = 0,
        times: Int? = 1,
        probability: Double = 1,
        deviceTokens: Set<String>? = nil,
        connection: Int? = nil
    ) {
        self.skip = skip
        self.times = times
        self.probability = probability
        self.deviceTokens = deviceTokens.map { Set($0.map { $0.lowercased() }) }
        self.connection = connection
    }

    /// The next request.
    public static let next = FaultTrigger()
    /// Every request from now on.
    public static let always = FaultTrigger(times: nil)

    public static func next(_ times: Int) -> FaultTrigger { FaultTrigger(times: times) }

    /// The `number`th request from now, counted from 1, and the `times - 1` that follow it.
    public static func nth(_ number: Int, times: Int = 1) -> FaultTrigger {
        FaultTrigger(skip: max(number - 1, 0), times: times)
    }

    /// Each request with this probability, from 0 to 1.
    public static func probability(_ probability: Double) -> FaultTrigger {
        FaultTrigger(times: nil, probability: probability)
    }

    /// Every push to this device token.
    public static func deviceToken(_ token: String) -> FaultTrigger {
        FaultTrigger(times: nil, deviceTokens: [token])
    }

    private enum CodingKeys: String, CodingKey {
        case skip, times, always, probability, deviceTokens, connection
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        let isEndless = try container.decodeIfPresent(Bool.self, forKey: .always) ?? false
        let times = try container.decodeIfPresent(Int.self, forKey: .times)
        self.init(
            skip: try container.decodeIfPresent(Int.self, forKey: .skip) ?? 0,
            times: isEndless ? nil : times ?? 1,
            probability: try container.decodeIfPresent(Double.self, forKey: .probability) ?? 1,
            deviceTokens: try container.decodeIfPresent(Set<String>.self, forKey: .deviceTokens),
            connection: try container.decodeIfPresent(Int.self, forKey: .connection)
        )
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        if self.skip != 0 { try container.encode(self.skip, forKey: .skip) }
        if let times {
            try container.encode(times, forKey: .times)
        } else {
            try container.encode(true, forKey: .always)
        }
        if self.probability != 1 { try container.encode(self.probability, forKey: .probability) }
        try container.encodeIfPresent(self.deviceTokens?.sorted(), forKey: .deviceTokens)
        try container.encodeIfPresent(self.connection, forKey: .connection)
    }
}

/// How long an answer is kept back.
public enum DelayDistribution: Sendable, Hashable {
    case fixed(Duration)
    /// Equally likely anywhere between the two.
    case uniform(Duration, Duration)
    /// Exponential with this mean: mostly short, sometimes long. Cut off at 20 times the mean.
    case exponential(mean: Duration)

    func draw(using random: inout SeededRandom) -> Duration {
        switch self {
        case .fixed(let duration): duration
        case .uniform(let low, let high): low + (high - low) * random.unit()
        case .exponential(let mean): mean * min(20, -Logarithm.natural(1 - random.unit()))
        }
    }
}

/// Where a GOAWAY cuts.
public enum GoAwayPoint: Sendable, Hashable {
    /// The request that triggered it is the last one that is processed.
    case afterThisRequest
    /// The request that triggered it is the first one that is not processed, unless a later stream was already.
    case beforeThisRequest
    /// This stream id. One below a stream that was answered already is a lie, as a faulty server would tell it.
    /// So is one above the streams that are open: those that come later are ignored all the same.
    case streamID(Int32)
}

/// What goes wrong. Codable as an object with a `kind` and that kind's keys; durations are milliseconds.
public struct FaultEffect: Sendable, Hashable {
    enum Kind: Sendable, Hashable {
        case answer(Verdict)
        case answerBody(status: Int, body: [UInt8])
        case delay(DelayDistribution)
        case stall(isProcessed: Bool)
        case reset(code: UInt32, isProcessed: Bool)
        case goAway(GoAwayPoint, reason: String?, code: UInt32)
        case drop(isProcessed: Bool, closeNotify: Bool)
        case silence
        case settings(maxConcurrentStreams: UInt32)
        case earlyAnswer(Verdict)
    }

    var kind: Kind

    init(_ kind: Kind) { self.kind = kind }

    /// Answers with this reason; nothing is checked. The status is the one the reason has in APNs' table (400 for an
    /// unknown one), the timestamp is milliseconds since 1970.
    public static func answer(_ reason: RejectionReason, timestamp: Int64? = nil) -> FaultEffect {
        FaultEffect(.answer(.rejected(reason, timestamp: timestamp)))
    }

    /// Answers with this status and reason, which may not fit together.
    ///
    /// - Parameters:
    ///   - status: from 200 to 599.
    ///   - reason: nil: no body.
    public static func answer(status: Int, reason: RejectionReason?) -> FaultEffect {
        FaultEffect(.answer(Verdict(status: min(max(status, 200), 599), reason: reason)))
    }

    /// Answers with a body of which nobody knows the form, as an edge server or a proxy might.
    public static func answer(status: Int, body: [UInt8]) -> FaultEffect {
        FaultEffect(.answerBody(status: min(max(status, 200), 599), body: body))
    }

    /// A body that begins as JSON and breaks off.
    public static func malformedBody(status: Int = 400) -> FaultEffect {
        self.answer(status: status, body: Array(#"{"reason":"BadDev"#.utf8))
    }

    /// A body of so many bytes, at most 16 MiB.
    public static func oversizedBody(status: Int = 400, bytes: Int = 1 << 20) -> FaultEffect {
        self.answer(status: status, body: Array(repeating: UInt8(ascii: " "), count: min(max(bytes, 0), 1 << 24)))
    }

    /// Decides at once and answers later.
    public static func delay(_ duration: Duration) -> FaultEffect { FaultEffect(.delay(.fixed(duration))) }
    public static func delay(_ distribution: DelayDistribution) -> FaultEffect { FaultEffect(.delay(distribution)) }

    /// Never answers; the connection goes on.
    ///
    /// - Parameter isProcessed: the push is accepted all the same (if it is one that APNs accepts).
    public static func stall(isProcessed: Bool = false) -> FaultEffect {
        FaultEffect(.stall(isProcessed: isProcessed))
    }

    /// RST_STREAM(REFUSED_STREAM): the promise that the push was not processed.
    public static let refuse = FaultEffect(.reset(code: 7, isProcessed: false))

    /// RST_STREAM with this code (RFC 9113, section 7).
    public static func reset(code: UInt32, isProcessed: Bool = false) -> FaultEffect {
        FaultEffect(.reset(code: code, isProcessed: isProcessed))
    }

    /// GOAWAY. Streams up to the point are processed, also those that are still arriving; those above are not. The
    /// connection closes when the last one is done.
    ///
    /// - Parameters:
    ///   - reason: goes into the debug data as `{"reason":…}`; nil: no debug data.
    ///   - code: the HTTP/2 error code; 0 is NO_ERROR.
    public static func goAway(
        _ point: GoAwayPoint = .afterThisRequest,
        reason: String? = nil,
        code: UInt32 = 0
    ) -> FaultEffect {
        FaultEffect(.goAway(point, reason: reason, code: code))
    }

    /// Closes the connection without GOAWAY. Requests that came before it have been answered, those behind it are lost.
    ///
    /// - Parameters:
    ///   - isProcessed: the request that triggered it is processed, and its answer lost.
    ///   - closeNotify: TLS is ended properly.
    public static func dropConnection(isProcessed: Bool = false, closeNotify: Bool = false) -> FaultEffect {
        FaultEffect(.drop(isProcessed: isProcessed, closeNotify: closeNotify))
    }

    /// From this request on the connection takes bytes and says nothing any more, not even to a PING.
    public static let silence = FaultEffect(.silence)

    /// SETTINGS_MAX_CONCURRENT_STREAMS on the request's connection.
    public static func settings(maxConcurrentStreams: UInt32) -> FaultEffect {
        FaultEffect(.settings(maxConcurrentStreams: maxConcurrentStreams))
    }

    /// Answers when the headers have come, without waiting for the body. It is early for a client only if its body
    /// takes longer than its headers: see `Simulator.Configuration.initialWindowSize`.
    public static func earlyAnswer(_ reason: RejectionReason) -> FaultEffect {
        FaultEffect(.earlyAnswer(.rejected(reason)))
    }
}

extension FaultEffect: Codable {
    private enum CodingKeys: String, CodingKey {
        case kind, status, reason, timestamp, body, processed, code, closeNotify, maxConcurrentStreams, lastStreamID
        case milliseconds, fromMilliseconds, toMilliseconds, meanMilliseconds, beforeThisRequest
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        func integer(_ key: CodingKeys) throws -> Int? { try container.decodeIfPresent(Int.self, forKey: key) }
        func duration(_ key: CodingKeys) throws -> Duration? {
            try container.decodeIfPresent(Double.self, forKey: key).map { .milliseconds(1) * $0 }
        }
        func verdict() throws -> Verdict {
            let reason = try container.decodeIfPresent(String.self, forKey: .reason).map(
                RejectionReason.init(rawValue:)
            )
            let status = try integer(.status) ?? reason?.status ?? (reason == nil ? 200 : 400)
            let timestamp = try container.decodeIfPresent(Int64.self, forKey: .timestamp)
            return Verdict(status: min(max(status, 200), 599), reason: reason, timestamp: timestamp)
        }
        let isProcessed = try container.decodeIfPresent(Bool.self, forKey: .processed) ?? false
        let code = try container.decodeIfPresent(UInt32.self, forKey: .code)
        switch try container.decode(String.self, forKey: .kind) {
        case "answer":
            if let body = try container.decodeIfPresent(String.self, forKey: .body) {
                self = .answer(status: try integer(.status) ?? 400, body: Array(body.utf8))
            } else {
                self.init(.answer(try verdict()))
            }
        case "delay":
            if let low = try duration(.fromMilliseconds), let high = try duration(.toMilliseconds) {
                self.init(.delay(.uniform(low, high)))
            } else if let mean = try duration(.meanMilliseconds) {
                self.init(.delay(.exponential(mean: mean)))
            } else {
                self.init(.delay(.fixed(try duration(.milliseconds) ?? .zero)))
            }
        case "stall": self = .stall(isProcessed: isProcessed)
        case "refuse": self = .refuse
        case "reset": self = .reset(code: code ?? 2, isProcessed: isProcessed)  // 2: INTERNAL_ERROR
        case "goaway":
            var point = GoAwayPoint.afterThisRequest
            if let id = try container.decodeIfPresent(Int32.self, forKey: .lastStreamID) {
                point = .streamID(id)
            } else if try container.decodeIfPresent(Bool.self, forKey: .beforeThisRequest) == true {
                point = .beforeThisRequest
            }
            let reason = try container.decodeIfPresent(String.self, forKey: .reason)
            self = .goAway(point, reason: reason, code: code ?? 0)
        case "drop":
            let closeNotify = try container.decodeIfPresent(Bool.self, forKey: .closeNotify) ?? false
            self = .dropConnection(isProcessed: isProcessed, closeNotify: closeNotify)
        case "silence": self = .silence
        case "settings":
            self = .settings(
                maxConcurrentStreams: try container.decode(UInt32.self, forKey: .maxConcurrentStreams)
            )
        case "early-answer": self.init(.earlyAnswer(try verdict()))
        case let kind:
            throw DecodingError.dataCorruptedError(
                forKey: .kind,
                in: container,
                debugDescription: """
                    there is no fault '\(kind)'; there are answer, delay, stall, refuse, reset, goaway, drop, \
                    silence, settings, early-answer
                    """
            )
        }
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        func encode(_ kind: String, _ verdict: Verdict) throws {
            try container.encode(kind, forKey: .kind)
            try container.encode(verdict.status, forKey: .status)
            try container.encodeIfPresent(verdict.reason?.rawValue, forKey: .reason)
            try container.encodeIfPresent(verdict.timestamp, forKey: .timestamp)
        }
        switch self.kind {
        case .answer(let verdict): try encode("answer", verdict)
        case .earlyAnswer(let verdict): try encode("early-answer", verdict)
        case .answerBody(let status, let body):
            try encode("answer", Verdict(status: status))
            try container.encode(String(decoding: body, as: UTF8.self), forKey: .body)
        case .delay(let distribution):
            try container.encode("delay", forKey: .kind)
            switch distribution {
            case .fixed(let duration): try container.encode(duration.inMilliseconds, forKey: .milliseconds)
            case .uniform(let low, let high):
                try container.encode(low.inMilliseconds, forKey: .fromMilliseconds)
                try container.encode(high.inMilliseconds, forKey: .toMilliseconds)
            case .exponential(let mean): try container.encode(mean.inMilliseconds, forKey: .meanMilliseconds)
            }
        case .stall(let isProcessed):
            try container.encode("stall", forKey: .kind)
            try container.encode(isProcessed, forKey: .processed)
        case .reset(let code, let isProcessed):
            try container.encode("reset", forKey: .kind)
            try container.encode(code, forKey: .code)
            try container.encode(isProcessed, forKey: .processed)
        case .goAway(let point, let reason, let code):
            try container.encode("goaway", forKey: .kind)
            try container.encodeIfPresent(reason, forKey: .reason)
            try container.encode(code, forKey: .code)
            switch point {
            case .afterThisRequest: break
            case .beforeThisRequest: try container.encode(true, forKey: .beforeThisRequest)
            case .streamID(let id): try container.encode(id, forKey: .lastStreamID)
            }
        case .drop(let isProcessed, let closeNotify):
            try container.encode("drop", forKey: .kind)
            try container.encode(isProcessed, forKey: .processed)
            try container.encode(closeNotify, forKey: .closeNotify)
        case .silence: try container.encode("silence", forKey: .kind)
        case .settings(let limit):
            try container.encode("settings", forKey: .kind)
            try container.encode(limit, forKey: .maxConcurrentStreams)
        }
    }
}

extension Duration {
    var inMilliseconds: Double { self / .milliseconds(1) }
}
