import APNSModel
import APNSSimulator
import NIOHTTP1

/// Faults.
extension ControlAPI {
    func faults(_ request: ControlRequest, _ id: String?) throws -> ControlResponse {
        try request.allowQuery([])
        if let id {
            try self.allow([.DELETE], request)
            guard let number = Int(id), self.simulator.removeFault(id: number) else {
                throw ControlError.notFound(
                    "There is no fault \(id). It may have applied for the last time. See /v1/faults."
                )
            }
            return .noContent
        }
        try self.allow([.GET, .POST, .DELETE], request)
        switch request.method {
        case .POST:
            let script = try FaultScript(orFault: request.body)
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
}
