package import APNSModel

// Writes faults as JSON in the form that `ScriptReader` reads.

extension FaultScript {
    var json: JSONValue {
        var object: [String: JSONValue] = ["faults": .array(self.faults.map(\.json))]
        if let seed { object["seed"] = .integer(Int64(clamping: seed)) }
        return .object(object)
    }
}

extension Fault {
    var json: JSONValue { .object(["when": self.when.json, "effect": self.effect.json]) }
}

extension FaultTrigger {
    package var json: JSONValue {
        var object: [String: JSONValue] = [:]
        if let event { object["on"] = .string(event.rawValue) }
        if self.skip != 0 { object["skip"] = .integer(Int64(self.skip)) }
        object[self.times == nil ? "always" : "times"] = self.times.map { .integer(Int64($0)) } ?? .bool(true)
        if self.every != 1 { object["every"] = .integer(Int64(self.every)) }
        if self.probability != 1 { object["probability"] = .double(self.probability) }
        if let perSecond { object["perSecond"] = .integer(Int64(perSecond)) }
        if let deviceTokens { object["deviceTokens"] = .array(deviceTokens.sorted().map { .string($0) }) }
        if let connection { object["connection"] = .integer(Int64(connection)) }
        if self.from != .zero { object["fromMilliseconds"] = self.from.json }
        if let until { object["toMilliseconds"] = until.json }
        if let period { object["periodMilliseconds"] = period.json }
        return .object(object)
    }
}

extension Duration {
    fileprivate var json: JSONValue { .double(self.inMilliseconds) }
}

extension ScriptedResponse {
    var json: [String: JSONValue] {
        var object: [String: JSONValue] = ["status": .integer(Int64(self.status))]
        if let reason { object["reason"] = .string(reason.rawValue) }
        if let timestamp { object["timestamp"] = .integer(timestamp) }
        if let body { object["body"] = .string(String(decoding: body, as: UTF8.self)) }
        if let bodyBytes { object["bodyBytes"] = .integer(Int64(bodyBytes)) }
        switch self.id {
        case .asUsual: break
        case .missing: object["apnsID"] = .string("")
        case .text(let text): object["apnsID"] = .string(text)
        }
        if !self.headers.isEmpty { object["headers"] = .object(self.headers.mapValues { .string($0) }) }
        if self.headerBytes > 0 { object["headerBytes"] = .integer(Int64(self.headerBytes)) }
        if !self.informational.isEmpty {
            object["informational"] = .array(self.informational.map { .integer(Int64($0)) })
        }
        if !self.trailers.isEmpty { object["trailers"] = .object(self.trailers.mapValues { .string($0) }) }
        if let cutAfter { object["cutAfter"] = .integer(Int64(cutAfter)) }
        if let cutCode {
            if self.cutAfter != nil { object["cutCode"] = .integer(Int64(cutCode)) }
        } else {
            object["neverEnds"] = .bool(true)
        }
        if let resetCode { object["resetCode"] = .integer(Int64(resetCode)) }
        if let isProcessed { object["processed"] = .bool(isProcessed) }
        return object
    }
}

extension FaultEffect {
    package var json: JSONValue {
        var object = self.parts
        object["kind"] = .string(self.name)
        return .object(object)
    }

    private var parts: [String: JSONValue] {
        switch self.kind {
        case .respond(let response), .earlyResponse(let response): return response.json
        case .stall(let isProcessed): return ["processed": .bool(isProcessed)]
        case .reset(code: 7, isProcessed: false): return [:]
        case .reset(let code, let isProcessed):
            return ["code": .integer(Int64(code)), "processed": .bool(isProcessed)]
        case .goAway(let goAway): return Self.parts(of: goAway)
        case .drop(let isProcessed, let ending):
            return ["processed": .bool(isProcessed), "ending": .string(ending.rawValue)]
        case .silence(let isProcessed, let acknowledgesPings, let reads):
            return [
                "processed": .bool(isProcessed), "acknowledgesPings": .bool(acknowledgesPings), "reads": .bool(reads),
            ]
        case .alert(let number, let isProcessed):
            return ["alert": .integer(Int64(number)), "processed": .bool(isProcessed)]
        case .delay(let distribution): return Self.parts(of: distribution)
        case .pause(let duration, let everywhere):
            return ["milliseconds": duration.json, "everywhere": .bool(everywhere)]
        case .settings(let settings): return Self.parts(of: settings)
        case .pingFlood(let count), .settingsFlood(let count): return ["count": .integer(Int64(count))]
        case .slowReader(let bytes, let interval):
            return ["bytes": .integer(Int64(bytes)), "everyMilliseconds": interval.json]
        case .clock(let offset): return ["offsetSeconds": .integer(offset)]
        case .listenerDown(let duration): return ["milliseconds": duration.json]
        case .closeOnAccept(let ending): return ["ending": .string(ending.rawValue)]
        case .neverSpeak(let duration): return duration.map { ["milliseconds": $0.json] } ?? [:]
        case .handshakeStall(let bytes, let duration):
            var parts: [String: JSONValue] = ["afterBytes": .integer(Int64(bytes))]
            if let duration { parts["milliseconds"] = duration.json }
            return parts
        case .tls(let fault):
            var parts: [String: JSONValue] = [
                "certificate": .string(fault.certificate.rawValue), "alpn": .string(fault.alpn.rawValue),
                "versions": .string(fault.versions.rawValue),
            ]
            if let alert = fault.handshakeAlert { parts["handshakeAlert"] = .integer(Int64(alert)) }
            return parts
        case .rapidResetLimit(let burst, let rate):
            return ["burst": .integer(Int64(burst)), "perSecond": .integer(Int64(rate))]
        }
    }

    private static func parts(of goAway: GoAway) -> [String: JSONValue] {
        var parts: [String: JSONValue] = ["code": .integer(Int64(goAway.code))]
        switch goAway.point {
        case .afterThisRequest: break
        case .beforeThisRequest: parts["beforeThisRequest"] = .bool(true)
        case .streamID(let id): parts["lastStreamID"] = .integer(Int64(id))
        }
        if let reason = goAway.reason { parts["reason"] = .string(reason) }
        if let debug = goAway.debug { parts["debug"] = .string(debug) }
        if let notice = goAway.notice { parts["noticeMilliseconds"] = notice.json }
        return parts
    }

    private static func parts(of distribution: DelayDistribution) -> [String: JSONValue] {
        switch distribution {
        case .fixed(let duration): ["milliseconds": duration.json]
        case .uniform(let low, let high): ["fromMilliseconds": low.json, "toMilliseconds": high.json]
        case .exponential(let mean): ["meanMilliseconds": mean.json]
        case .logNormal(let median, let spread): ["medianMilliseconds": median.json, "spread": .double(spread)]
        }
    }

    private static func parts(of settings: [HTTP2Setting]) -> [String: JSONValue] {
        var parts: [String: JSONValue] = [:]
        var others: [String: JSONValue] = [:]
        for setting in settings {
            let value = JSONValue.integer(Int64(setting.value))
            if let name = HTTP2Setting.names.first(where: { $0.identifier == setting.identifier })?.name {
                parts[name] = value
            } else {
                others["\(setting.identifier)"] = value
            }
        }
        if !others.isEmpty { parts["others"] = .object(others) }
        return parts
    }
}
