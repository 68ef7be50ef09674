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
            return .json(Self.list(added), status: .created)
        case .DELETE:
            self.simulator.removeFaults()
            return .noContent
        default:
            return .json(Self.list(self.simulator.activeFaults))
        }
    }

    /// The maximum number of active faults.
    private static let faultLimit = 1000

    private static func list(_ faults: [ActiveFault]) -> JSONObject {
        let entries: [JSONObject] = faults.map { active in
            [
                "id": active.id, "when": active.fault.when.json, "effect": active.fault.effect.json,
                "matched": active.matched, "applied": active.applied,
            ]
        }
        return ["faults": entries]
    }
}
