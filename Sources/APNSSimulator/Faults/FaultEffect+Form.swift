@_spi(Relay) internal import APNSModel

extension FaultEffect: ScriptObject {
    /// One effect of each kind, with the values that it has if a script does not give them.
    static let kinds: [FaultEffect] = [
        .respond(status: 200, reason: nil), .earlyResponse(ScriptedResponse(status: 200)), .delay(.zero),
        .pause(.zero), .stall(), .refuse,
        // 2: INTERNAL_ERROR.
        .reset(code: 2), .goAway(), .dropConnection(), .silence, .settings(), .pingFlood(1000),
        .settingsFlood(1000), .slowReader(bytes: 16, every: .milliseconds(10)), .clock(offsetSeconds: 0),
        .listenerDown(.zero), .closeOnAccept(), .neverSpeak(), .handshakeStall(), .tls(TLSFault()),
        .rapidResetLimit(),
    ]

    package init(_ object: JSONReader) throws(JSONFieldError) {
        let names = Self.kinds.map(\.name).joined(separator: ", ")
        guard let name = try object.read("kind", .text) else {
            throw object.error("kind", "an effect needs a kind; the kinds are \(names)")
        }
        guard let effect = Self.kinds.first(where: { $0.name == name }) else {
            throw object.error("kind", "unknown effect; the effects are \(names)")
        }
        self = effect
        try self.read(object)
    }

    package mutating func describe(in form: inout ScriptForm) {
        var name = self.name
        form.value("kind", &name, .text)
        self.kind.describe(in: &form)
    }
}

extension FaultEffect.Kind {
    fileprivate mutating func describe(in form: inout ScriptForm) {
        switch self {
        case .respond(var response):
            response.describe(in: &form)
            self = .respond(response)
        case .earlyResponse(var response):
            response.describe(in: &form)
            self = .earlyResponse(response)
        case .stall(var isProcessed):
            form.value("processed", &isProcessed, .bool)
            self = .stall(isProcessed: isProcessed)
        // The effect `refuse`, whose name says everything.
        case .reset(code: 7, isProcessed: false): break
        case .reset(var code, var isProcessed):
            form.value("code", &code, .code)
            form.value("processed", &isProcessed, .bool)
            self = .reset(code: code, isProcessed: isProcessed)
        case .goAway(var goAway):
            goAway.describe(in: &form)
            self = .goAway(goAway)
        case .drop(var isProcessed, var ending):
            form.value("processed", &isProcessed, .bool)
            form.value("ending", &ending, .choice)
            self = .drop(isProcessed: isProcessed, ending)
        case .silence(var isProcessed, var acknowledgesPings, var reads):
            form.value("processed", &isProcessed, .bool)
            form.value("acknowledgesPings", &acknowledgesPings, .bool)
            form.value("reads", &reads, .bool)
            self = .silence(isProcessed: isProcessed, acknowledgesPings: acknowledgesPings, reads: reads)
        case .delay(var distribution):
            distribution.describe(in: &form)
            self = .delay(distribution)
        case .pause(var duration, var everywhere):
            form.required("milliseconds", &duration, .milliseconds, else: Self.needsTime)
            form.value("everywhere", &everywhere, .bool)
            self = .pause(duration, everywhere: everywhere)
        case .settings(var settings):
            HTTP2Setting.describe(&settings, in: &form)
            self = .settings(settings)
        case .pingFlood(var count):
            form.value("count", &count, .integer(in: 1...1_000_000))
            self = .pingFlood(count)
        case .settingsFlood(var count):
            form.value("count", &count, .integer(in: 1...10_000))
            self = .settingsFlood(count)
        case .slowReader(var bytes, var interval):
            form.value("bytes", &bytes, .integer(in: 1...1 << 20))
            form.value("everyMilliseconds", &interval, .milliseconds)
            self = .slowReader(bytes: bytes, every: interval)
        case .clock(var offset):
            let limit = Simulator.clockOffsetLimit
            let problem = "expected the offset of the clock in seconds"
            form.required("offsetSeconds", &offset, .integer(in: -limit...limit), else: problem)
            self = .clock(offsetSeconds: offset)
        case .listenerDown(var duration):
            form.required("milliseconds", &duration, .milliseconds, else: Self.needsTime)
            self = .listenerDown(duration)
        case .closeOnAccept(var ending):
            form.value("ending", &ending, .choice)
            self = .closeOnAccept(ending)
        case .neverSpeak(var duration):
            form.optional("milliseconds", &duration, .milliseconds)
            self = .neverSpeak(duration)
        case .handshakeStall(var bytes, var duration):
            form.value("afterBytes", &bytes, .integer(in: 0...1 << 20))
            form.optional("milliseconds", &duration, .milliseconds)
            self = .handshakeStall(afterBytes: bytes, duration)
        case .tls(var fault):
            form.value("certificate", &fault.certificate, .choice)
            form.value("alpn", &fault.alpn, .choice)
            form.value("versions", &fault.versions, .choice)
            form.optional("handshakeAlert", &fault.handshakeAlert, TLSAlertName.value)
            form.optional("clientCertificate", &fault.clientCertificate, .choice)
            self = .tls(fault)
        case .rapidResetLimit(var burst, var rate):
            form.value("burst", &burst, .integer(in: 0...1_000_000))
            form.value("perSecond", &rate, .integer(in: 0...1_000_000))
            self = .rapidResetLimit(burst: burst, rate: rate)
        }
    }

    fileprivate static let needsTime = "expected a time in milliseconds"
}

extension FaultEffect.GoAway {
    fileprivate mutating func describe(in form: inout ScriptForm) {
        var id: Int32? = if case .streamID(let id) = self.point { id } else { nil }
        var isBefore = self.point == .beforeThisRequest
        form.optional("lastStreamID", &id, .integer(in: 0...Int32.max))
        form.value("beforeThisRequest", &isBefore, .bool, omitting: false)
        self.point = id.map { .streamID($0) } ?? (isBefore ? .beforeThisRequest : .afterThisRequest)
        var reason = self.reason.map { RejectionReason(rawValue: $0) }
        form.reason(&reason)
        self.reason = reason?.rawValue
        form.optional("debug", &self.debug, .text)
        form.value("code", &self.code, .code)
        form.optional("noticeMilliseconds", &self.notice, .milliseconds)
    }
}

extension DelayDistribution {
    fileprivate mutating func describe(in form: inout ScriptForm) {
        var fixed, low, high, mean, median: Duration?
        var spread: Double?
        switch self {
        case .fixed(let duration): fixed = duration
        case .uniform(let shortest, let longest): (low, high) = (shortest, longest)
        case .exponential(let value): mean = value
        case .logNormal(let value, let factor): (median, spread) = (value, factor)
        }
        form.optional("milliseconds", &fixed, .milliseconds)
        form.optional("fromMilliseconds", &low, .milliseconds)
        form.optional("toMilliseconds", &high, .milliseconds)
        form.optional("meanMilliseconds", &mean, .milliseconds)
        form.optional("medianMilliseconds", &median, .milliseconds)
        form.optional("spread", &spread, .number(in: 0...10))
        if let low, let high {
            if low > high { form.fail("toMilliseconds", "this is less than fromMilliseconds") }
            self = .uniform(low, high)
        } else if let mean {
            self = .exponential(mean: mean)
        } else if let median {
            self = .logNormal(median: median, spread: spread ?? 0.5)
        } else if let fixed {
            self = .fixed(fixed)
        } else {
            form.fail("milliseconds", FaultEffect.Kind.needsTime)
        }
    }
}

extension ScriptForm {
    /// The key `reason`, and the key `unknown` for a reason that Apple does not list. A misspelt reason would otherwise test
    /// something else than it seems to.
    fileprivate mutating func reason(_ reason: inout RejectionReason?) {
        let known = RejectionReason.known
        var isUnknown = reason.map { !known.contains($0) } ?? false
        self.optional("reason", &reason, JSONField<String>.text.map({ RejectionReason(rawValue: $0) }, { $0.rawValue }))
        self.value("unknown", &isUnknown, .bool, omitting: false)
        guard self.isReading, !isUnknown, let reason, !known.contains(reason) else { return }
        let nearest = NearestKey.of(reason.rawValue, among: known.map(\.rawValue))
        let advice = nearest.map { "did you mean \($0)? " } ?? ""
        self.fail("reason", "Apple lists no such reason; \(advice)\"unknown\": true allows any text")
    }
}

extension ScriptedResponse {
    fileprivate mutating func describe(in form: inout ScriptForm) {
        let text = JSONField<String>.text
        form.reason(&self.reason)
        form.optional("body", &self.body, text.map({ Array($0.utf8) }, { String(decoding: $0, as: UTF8.self) }))
        if form.isReading {
            let isError = self.reason != nil || self.body != nil
            self.status = self.reason?.status ?? (isError ? 400 : 200)
        }
        form.value("status", &self.status, .integer(in: 200...599))
        form.optional("timestamp", &self.timestamp, .integer(in: Int64.min...Int64.max))
        var isEndless = self.bodyBytes == .max
        var bodyBytes = isEndless ? nil : self.bodyBytes
        form.optional("bodyBytes", &bodyBytes, .integer(in: 0...Int.max))
        form.value("endless", &isEndless, .bool, omitting: false)
        self.bodyBytes = isEndless ? .max : bodyBytes
        self.describeFields(in: &form)
        form.optional("cutAfter", &self.cutAfter, .integer(in: 0...Int.max))
        form.value("cutCode", &self.cutCode, .code, omitting: 2)
        form.value("neverEnds", &self.neverEnds, .bool, omitting: false)
        form.optional("resetCode", &self.resetCode, .code)
        form.optional("processed", &self.isProcessed, .bool)
    }

    private mutating func describeFields(in form: inout ScriptForm) {
        var id: String? =
            switch self.id {
            case .asUsual: nil
            case .missing: ""
            case .text(let text): text
            }
        form.optional("apnsID", &id, .text)
        self.id = id.map { $0.isEmpty ? .missing : .text($0) } ?? .asUsual
        form.value("headers", &self.headers, Self.fieldTexts, omitting: [:])
        form.value("headerBytes", &self.headerBytes, .integer(in: 0...Self.headerLimit), omitting: 0)
        form.value("informational", &self.informational, Self.informationalStatuses, omitting: [])
        form.value("trailers", &self.trailers, Self.fieldTexts, omitting: [:])
    }

    private static var informationalStatuses: JSONField<[Int]> {
        JSONField(
            "expected a list of statuses from 100 to 199, without 101",
            read: { value in
                guard case .array(let values) = value else { return nil }
                let statuses = values.compactMap(\.wholeNumber).filter { (100...199).contains($0) && $0 != 101 }
                return statuses.count == values.count ? statuses.map { Int($0) } : nil
            },
            write: { .array($0.map { .integer(Int64($0)) }) }
        )
    }

    /// Header fields.
    private static var fieldTexts: JSONField<[String: String]> {
        JSONField(
            read: { value, keyPath throws(JSONFieldError) in
                let object = try JSONReader(value, path: keyPath)
                var fields: [String: String] = [:]
                for name in object.object.keys {
                    guard let text = try object.read(name, .text) else { throw object.error(name, "expected a text") }
                    guard !name.isEmpty, name.utf8.count + text.utf8.count <= 16_384 else {
                        throw object.error(name, "a field needs a name, and has at most 16384 bytes")
                    }
                    fields[name] = text
                }
                return fields
            },
            write: { .object($0.mapValues { .string($0) }) }
        )
    }
}

/// The TLS alerts that concern certificates, by their names in RFC 8446, section 6.2.
enum TLSAlertName {
    static let all: [String: UInt8] = [
        "handshake_failure": 40, "bad_certificate": 42, "unsupported_certificate": 43, "certificate_revoked": 44,
        "certificate_expired": 45, "certificate_unknown": 46, "unknown_ca": 48, "access_denied": 49,
        "internal_error": 80, "certificate_required": 116, "no_application_protocol": 120,
    ]

    /// A number or a name. It is written as a number.
    static var value: JSONField<UInt8> {
        let number = JSONField<UInt8>.integer(in: 0...255)
        return JSONField(
            read: { value, keyPath throws(JSONFieldError) in
                guard case .string(let name) = value else { return try number.read(value, keyPath) }
                guard let alert = self.all[name] else {
                    let names = self.all.keys.sorted().joined(separator: ", ")
                    let problem = "unknown name; the names are \(names); a number up to 255 is valid too"
                    throw JSONFieldError(keyPath: keyPath, value: value, problem: problem)
                }
                return alert
            },
            write: number.write
        )
    }
}

extension HTTP2Setting {
    /// All settings of RFC 9113, section 6.5.2, that a server may send, with their valid values.
    private static let names: [(name: String, identifier: UInt16, range: ClosedRange<UInt32>)] = [
        ("headerTableSize", 1, 0...UInt32.max), ("maxConcurrentStreams", 3, 0...UInt32.max),
        ("initialWindowSize", 4, 0...UInt32(Int32.max)), ("maxFrameSize", 5, 1 << 14...1 << 24 - 1),
        ("maxHeaderListSize", 6, 0...UInt32.max),
    ]

    fileprivate static func describe(_ settings: inout [HTTP2Setting], in form: inout ScriptForm) {
        var described: [HTTP2Setting] = []
        var others = settings
        for (name, identifier, range) in self.names {
            var value = settings.last { $0.identifier == identifier }?.value
            form.optional(name, &value, .integer(in: range))
            if let value { described.append(HTTP2Setting(identifier: identifier, value: value)) }
            others.removeAll { $0.identifier == identifier }
        }
        form.value("others", &others, self.byNumber, omitting: [])
        settings = described + others
    }

    /// Settings by their numbers.
    private static var byNumber: JSONField<[HTTP2Setting]> {
        JSONField(
            read: { value, keyPath throws(JSONFieldError) in
                let object = try JSONReader(value, path: keyPath)
                var settings: [HTTP2Setting] = []
                for number in object.object.keys.sorted() {
                    guard let identifier = UInt16(number), identifier > 6, let value = try object.read(number, .code)
                    else { throw object.error(number, "expected a setting's number above 6 and its value") }
                    settings.append(HTTP2Setting(identifier: identifier, value: value))
                }
                return settings
            },
            write: { settings in
                let members = settings.map { ("\($0.identifier)", JSONValue.integer(Int64($0.value))) }
                return .object(Dictionary(members, uniquingKeysWith: { _, last in last }))
            }
        )
    }
}
