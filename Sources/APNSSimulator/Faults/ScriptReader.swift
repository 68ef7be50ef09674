internal import APNSModel

/// Parses faults from JSON.
struct ScriptReader {
    /// The kinds of effects.
    static let kinds = """
        respond, early-response, delay, pause, stall, refuse, reset, goaway, drop, silence, alert, settings, \
        ping-flood, settings-flood, slow-reader, clock, listener-down, close-on-accept, never-speak, handshake-stall, \
        tls, rapid-reset-limit
        """

    private let json: JSONReader

    init(_ value: JSONValue, path: String) throws(FaultScriptError) {
        self.json = try JSONReader(value, path: path)
    }

    static func script(_ value: JSONValue) throws(FaultScriptError) -> FaultScript {
        if case .array(let values) = value { return FaultScript(try self.faults(values, path: "")) }
        let json = try JSONReader(value, path: "")
        try json.allow(["seed", "faults"])
        guard let values = try json.array("faults") else { throw json.error("faults", "expected a list of faults") }
        let seed = try json.integer("seed", in: 0...Int64.max).map { UInt64($0) }
        return FaultScript(try self.faults(values, path: "faults"), seed: seed)
    }

    private static func faults(_ values: [JSONValue], path: String) throws(FaultScriptError) -> [Fault] {
        var faults: [Fault] = []
        for (index, value) in values.enumerated() {
            faults.append(try ScriptReader(value, path: "\(path)[\(index)]").fault())
        }
        return faults
    }

    func fault() throws(FaultScriptError) -> Fault {
        try self.json.allow(["when", "effect"])
        guard let value = self.json.object["effect"] else {
            throw self.json.error("effect", "a fault needs an effect")
        }
        let effect = try EffectReader(JSONReader(value, path: self.json.keyPath("effect"))).effect()
        var trigger = FaultTrigger()
        if let value = self.json.object["when"] {
            let when = try JSONReader(value, path: self.json.keyPath("when"))
            trigger = try Self.trigger(when)
            if let event = trigger.event, !effect.events.contains(event) {
                let events = effect.events.map(\.rawValue).joined(separator: ", ")
                throw when.error("on", "the effect '\(effect.name)' applies only to \(events)")
            }
        }
        return Fault(effect, when: trigger)
    }

    private static func trigger(_ json: JSONReader) throws(FaultScriptError) -> FaultTrigger {
        try json.allow([
            "on", "skip", "times", "always", "every", "probability", "perSecond", "deviceTokens", "connection",
            "fromMilliseconds", "toMilliseconds", "periodMilliseconds",
        ])
        let isEndless = try json.bool("always") ?? false
        let times = try json.int("times", in: 0...Int.max)
        if isEndless, times != nil { throw json.error("times", "give either 'times' or 'always', not both") }
        let period = try json.duration("periodMilliseconds")
        if let period, period < .milliseconds(1) {
            throw json.error("periodMilliseconds", "a period must be at least one millisecond")
        }
        return FaultTrigger(
            event: try json.choice("on", of: FaultTrigger.Event.self),
            skip: try json.int("skip", in: 0...Int.max) ?? 0,
            times: isEndless ? nil : times ?? 1,
            every: try json.int("every", in: 1...Int.max) ?? 1,
            probability: try json.number("probability", in: 0...1) ?? 1,
            perSecond: try json.int("perSecond", in: 1...Int.max),
            deviceTokens: try json.strings("deviceTokens").map { Set($0) },
            connection: try json.int("connection", in: 1...Int.max),
            from: try json.duration("fromMilliseconds") ?? .zero,
            until: try json.duration("toMilliseconds"),
            period: period
        )
    }
}

/// Parses an effect from JSON.
private struct EffectReader {
    let json: JSONReader

    init(_ json: JSONReader) throws(FaultScriptError) { self.json = json }

    private func allow(_ keys: String...) throws(FaultScriptError) { try self.json.allow(["kind"] + keys) }

    private func isProcessed() throws(FaultScriptError) -> Bool { try self.json.bool("processed") ?? false }

    func effect() throws(FaultScriptError) -> FaultEffect {
        guard let kind = try self.json.string("kind") else {
            throw self.json.error("kind", "an effect needs a kind; the kinds are \(ScriptReader.kinds)")
        }
        switch kind {
        case "respond": return .respond(try self.response())
        case "early-response": return .earlyResponse(try self.response())
        case "delay": return .delay(try self.distribution())
        case "pause":
            try self.allow("milliseconds", "everywhere")
            return .pause(try self.required("milliseconds"), everywhere: try self.json.bool("everywhere") ?? false)
        case "stall":
            try self.allow("processed")
            return .stall(isProcessed: try self.isProcessed())
        case "refuse":
            try self.allow()
            return .refuse
        case "reset":
            try self.allow("code", "processed")
            // 2: INTERNAL_ERROR.
            return .reset(code: try self.json.unsigned("code") ?? 2, isProcessed: try self.isProcessed())
        case "goaway": return FaultEffect(.goAway(try self.goAway()))
        case "drop":
            try self.allow("processed", "closeNotify", "ending")
            let ending = try self.json.choice("ending", of: ConnectionEnding.self)
            let isNotified = try self.json.bool("closeNotify") ?? false
            return .dropConnection(isProcessed: try self.isProcessed(), ending ?? (isNotified ? .closeNotify : .fin))
        case "silence":
            try self.allow("processed", "acknowledgesPings", "reads")
            return .silence(
                isProcessed: try self.isProcessed(),
                acknowledgesPings: try self.json.bool("acknowledgesPings") ?? false,
                reads: try self.json.bool("reads") ?? true
            )
        case "alert":
            try self.allow("alert", "processed")
            return .alert(try self.alert(), isProcessed: try self.isProcessed())
        default: return try self.besideEffect(kind)
        }
    }

    private func besideEffect(_ kind: String) throws(FaultScriptError) -> FaultEffect {
        switch kind {
        case "settings": return FaultEffect(.settings(try self.settings()))
        case "ping-flood":
            try self.allow("count")
            return .pingFlood(try self.json.int("count", in: 1...1_000_000) ?? 1000)
        case "settings-flood":
            try self.allow("count")
            return .settingsFlood(try self.json.int("count", in: 1...10_000) ?? 1000)
        case "slow-reader":
            try self.allow("bytes", "everyMilliseconds")
            return .slowReader(
                bytes: try self.json.int("bytes", in: 1...1 << 20) ?? 16,
                every: try self.json.duration("everyMilliseconds") ?? .milliseconds(10)
            )
        case "clock":
            try self.allow("offsetSeconds")
            let limit = Simulator.clockOffsetLimit
            guard let offset = try self.json.integer("offsetSeconds", in: -limit...limit) else {
                throw self.json.error("offsetSeconds", "expected the offset of the clock in seconds")
            }
            return .clock(offsetSeconds: offset)
        case "listener-down":
            try self.allow("milliseconds")
            return .listenerDown(try self.required("milliseconds"))
        default: return try self.entranceEffect(kind)
        }
    }

    private func entranceEffect(_ kind: String) throws(FaultScriptError) -> FaultEffect {
        switch kind {
        case "close-on-accept":
            try self.allow("ending")
            return .closeOnAccept(try self.json.choice("ending", of: ConnectionEnding.self) ?? .fin)
        case "never-speak":
            try self.allow("milliseconds")
            return .neverSpeak(for: try self.json.duration("milliseconds"))
        case "handshake-stall":
            try self.allow("afterBytes", "milliseconds")
            return .handshakeStall(
                afterBytes: try self.json.int("afterBytes", in: 0...1 << 20) ?? 100,
                for: try self.json.duration("milliseconds")
            )
        case "tls":
            try self.allow("certificate", "alpn", "versions", "handshakeAlert")
            var fault = TLSFault()
            fault.certificate = try self.json.choice("certificate", of: TLSFault.Certificate.self) ?? .valid
            fault.alpn = try self.json.choice("alpn", of: TLSFault.ALPN.self) ?? .h2
            fault.versions = try self.json.choice("versions", of: TLSFault.Versions.self) ?? .all
            fault.handshakeAlert = try self.json.int("handshakeAlert", in: 0...255).map { UInt8($0) }
            return .tls(fault)
        case "rapid-reset-limit":
            try self.allow("burst", "perSecond")
            return .rapidResetLimit(
                burst: try self.json.int("burst", in: 0...1_000_000) ?? 1000,
                rate: try self.json.int("perSecond", in: 0...1_000_000) ?? 33
            )
        default:
            throw self.json.error("kind", "unknown effect; the effects are \(ScriptReader.kinds)")
        }
    }

    private func required(_ key: String) throws(FaultScriptError) -> Duration {
        guard let duration = try self.json.duration(key) else {
            throw self.json.error(key, "expected a time in milliseconds")
        }
        return duration
    }

    private func alert() throws(FaultScriptError) -> UInt8 {
        let names = TLSAlertName.all
        if case .string(let name)? = self.json.object["alert"] {
            guard let number = names[name] else {
                let all = names.keys.sorted().joined(separator: ", ")
                throw self.json.error("alert", "unknown name; the names are \(all); a number up to 255 is valid too")
            }
            return number
        }
        guard let number = try self.json.int("alert", in: 0...255) else {
            throw self.json.error("alert", "expected an alert's number or name (RFC 8446, section 6.2)")
        }
        return UInt8(number)
    }

    private func response() throws(FaultScriptError) -> ScriptedResponse {
        try self.allow(
            "status",
            "reason",
            "timestamp",
            "body",
            "bodyBytes",
            "endless",
            "apnsID",
            "headers",
            "headerBytes",
            "informational",
            "trailers",
            "cutAfter",
            "cutCode",
            "neverEnds",
            "resetCode",
            "processed"
        )
        let reason = try self.json.string("reason").map { RejectionReason(rawValue: $0) }
        let body = try self.json.string("body")
        let status = try self.json.int("status", in: 200...599)
        let isError = reason != nil || body != nil
        var response = ScriptedResponse(status: status ?? reason?.status ?? (isError ? 400 : 200), reason: reason)
        response.timestamp = try self.json.integer("timestamp", in: Int64.min...Int64.max)
        response.body = body.map { Array($0.utf8) }
        response.bodyBytes = try self.json.int("bodyBytes", in: 0...Int.max)
        if try self.json.bool("endless") == true { response.bodyBytes = .max }
        switch try self.json.string("apnsID") {
        case nil: break
        case "": response.id = .missing
        case let text?: response.id = .text(text)
        }
        response.headers = try self.json.fields("headers")
        response.headerBytes = try self.json.int("headerBytes", in: 0...ScriptedResponse.headerLimit) ?? 0
        response.trailers = try self.json.fields("trailers")
        for value in try self.json.array("informational") ?? [] {
            guard let status = value.wholeNumber, (100...199).contains(status), status != 101 else {
                throw self.json.error("informational", "expected a list of statuses from 100 to 199, without 101")
            }
            response.informational.append(Int(status))
        }
        response.cutAfter = try self.json.int("cutAfter", in: 0...Int.max)
        if let code = try self.json.unsigned("cutCode") { response.cutCode = code }
        if try self.json.bool("neverEnds") == true {
            response.cutCode = nil
            response.cutAfter = response.cutAfter ?? .max
        }
        response.resetCode = try self.json.unsigned("resetCode")
        response.isProcessed = try self.json.bool("processed")
        return response
    }

    private func distribution() throws(FaultScriptError) -> DelayDistribution {
        try self.allow(
            "milliseconds",
            "fromMilliseconds",
            "toMilliseconds",
            "meanMilliseconds",
            "medianMilliseconds",
            "spread"
        )
        if let low = try self.json.duration("fromMilliseconds"), let high = try self.json.duration("toMilliseconds") {
            guard low <= high else { throw self.json.error("toMilliseconds", "this is less than fromMilliseconds") }
            return .uniform(low, high)
        }
        if let mean = try self.json.duration("meanMilliseconds") { return .exponential(mean: mean) }
        if let median = try self.json.duration("medianMilliseconds") {
            return .logNormal(median: median, spread: try self.json.number("spread", in: 0...10) ?? 0.5)
        }
        return .fixed(try self.required("milliseconds"))
    }

    private func goAway() throws(FaultScriptError) -> FaultEffect.GoAway {
        try self.allow("lastStreamID", "beforeThisRequest", "reason", "debug", "code", "noticeMilliseconds")
        var goAway = FaultEffect.GoAway()
        if let id = try self.json.integer("lastStreamID", in: 0...Int64(Int32.max)) {
            goAway.point = .streamID(Int32(id))
        } else if try self.json.bool("beforeThisRequest") == true {
            goAway.point = .beforeThisRequest
        }
        goAway.reason = try self.json.string("reason")
        goAway.debug = try self.json.string("debug")
        goAway.code = try self.json.unsigned("code") ?? 0
        goAway.notice = try self.json.duration("noticeMilliseconds")
        return goAway
    }

    private func settings() throws(FaultScriptError) -> [HTTP2Setting] {
        let names = HTTP2Setting.names
        try self.json.allow(["kind"] + names.map(\.name) + ["others"])
        var settings: [HTTP2Setting] = []
        for (name, identifier, range) in names {
            guard let value = try self.json.integer(name, in: range) else { continue }
            settings.append(HTTP2Setting(identifier: identifier, value: UInt32(value)))
        }
        if let value = self.json.object["others"] {
            let others = try JSONReader(value, path: self.json.keyPath("others"))
            for key in others.object.keys.sorted() {
                guard let identifier = UInt16(key), identifier > 6, let value = try others.unsigned(key) else {
                    throw others.error(key, "expected a setting's number above 6 and its value")
                }
                settings.append(HTTP2Setting(identifier: identifier, value: value))
            }
        }
        return settings
    }
}

/// The TLS alerts that concern certificates, by their names in RFC 8446, section 6.2.
enum TLSAlertName {
    static let all: [String: UInt8] = [
        "handshake_failure": 40, "bad_certificate": 42, "unsupported_certificate": 43, "certificate_revoked": 44,
        "certificate_expired": 45, "certificate_unknown": 46, "unknown_ca": 48, "access_denied": 49,
        "internal_error": 80, "certificate_required": 116, "no_application_protocol": 120,
    ]
}

extension HTTP2Setting {
    /// All settings of RFC 9113, section 6.5.2, that a server may send, with their valid values.
    static let names: [(name: String, identifier: UInt16, range: ClosedRange<Int64>)] = [
        ("headerTableSize", 1, 0...Int64(UInt32.max)), ("maxConcurrentStreams", 3, 0...Int64(UInt32.max)),
        ("initialWindowSize", 4, 0...Int64(Int32.max)), ("maxFrameSize", 5, 1 << 14...1 << 24 - 1),
        ("maxHeaderListSize", 6, 0...Int64(UInt32.max)),
    ]
}
