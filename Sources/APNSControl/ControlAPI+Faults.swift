import APNSModel
import APNSSimulator
import NIOHTTP1

/// Faults and their presets.
extension ControlAPI {
    func faults(_ request: ControlRequest, _ id: String?) throws(ControlError) -> ControlResponse {
        try request.allowQuery([])
        if let id {
            try self.allow([.DELETE], request)
            guard let number = Int(id), self.simulator.removeFault(id: number) else {
                throw .notFound("There is no fault \(id). It may have applied for the last time. See /v1/faults.")
            }
            return .noContent
        }
        try self.allow([.GET, .POST, .DELETE], request)
        switch request.method {
        case .POST:
            let script = try Self.script(request.body)
            guard self.simulator.activeFaults.count + script.faults.count <= Self.faultLimit else {
                throw ControlError(
                    .conflict,
                    "limit-reached",
                    "There can be \(Self.faultLimit) faults at once, because each is checked for each push. Remove some."
                )
            }
            let added = self.simulator.inject(script)
            return .json(Self.json(added), status: .created)
        case .DELETE:
            self.simulator.removeFaults()
            return .noContent
        default:
            return .json(Self.json(self.simulator.activeFaults))
        }
    }

    /// The maximum number of active faults.
    private static let faultLimit = 1000

    private static func script(_ body: [UInt8]) throws(ControlError) -> FaultScript {
        try ControlError.mapping { () throws(FaultScriptError) in try FaultScript(orFault: body) }
    }

    private static func json(_ faults: [ActiveFault]) -> JSONValue { .object(["faults": self.list(faults)]) }

    private static func list(_ faults: [ActiveFault]) -> JSONValue {
        .array(
            faults.map { active in
                .object([
                    "id": .integer(Int64(active.id)), "when": active.fault.when.json,
                    "effect": active.fault.effect.json, "matched": .integer(Int64(active.matched)),
                    "applied": .integer(Int64(active.applied)),
                ])
            }
        )
    }

    /// A frequently used fault, or an action on open connections.
    enum Preset: String, CaseIterable {
        case unavailable, goaway, drop, slow
        case refuseKey = "refuse-key"

        var title: String {
            switch self {
            case .unavailable: "503 for ten seconds"
            case .goaway: "GOAWAY now"
            case .drop: "Drop a connection"
            case .slow: "Slow responses for ten seconds"
            case .refuseKey: "Refuse the key"
            }
        }

        var description: String {
            switch self {
            case .unavailable: "Each request gets 503 ServiceUnavailable."
            case .goaway: "All connections end after the requests that have arrived."
            case .drop: "The newest connection is closed without GOAWAY."
            case .slow: "Each response is sent two seconds late."
            case .refuseKey: "Each request gets 403 InvalidProviderToken, until you remove this fault."
            }
        }

        /// The fault that it adds; nil if it acts on the open connections instead.
        fileprivate var fault: Fault? {
            switch self {
            case .unavailable: Fault(.respond(.serviceUnavailable), when: .during(.zero..<(.seconds(10))))
            case .slow: Fault(.delay(.fixed(.seconds(2))), when: .during(.zero..<(.seconds(10))))
            case .refuseKey: Fault(.respond(.invalidProviderToken), when: .always)
            case .goaway, .drop: nil
            }
        }
    }

    func presets(_ request: ControlRequest, _ name: String?) async throws(ControlError) -> ControlResponse {
        try request.allowQuery([])
        guard let name else {
            try self.allow([.GET], request)
            let presets = Preset.allCases.map { preset in
                JSONValue.object([
                    "name": .string(preset.rawValue), "title": .string(preset.title),
                    "description": .string(preset.description),
                ])
            }
            return .json(.object(["presets": .array(presets)]))
        }
        try self.allow([.POST], request)
        guard let preset = Preset(rawValue: name) else {
            let names = Preset.allCases.map(\.rawValue).joined(separator: ", ")
            throw .notFound("There is no preset '\(name)'. The presets are \(names).")
        }
        var connections = 0
        switch preset {
        case .goaway:
            connections = await self.simulator.goAway()
        case .drop:
            if let newest = self.simulator.connectionNumbers.last {
                connections = await self.simulator.dropConnections(.number(newest))
            }
        default: break
        }
        let added = preset.fault.map { self.simulator.inject($0) } ?? []
        return .json(.object(["faults": Self.list(added), "connections": .integer(Int64(connections))]))
    }
}
