import APNSModel
import APNSSimulator
import NIOHTTP1

/// The settings that can change while the simulator runs.
extension ControlAPI {
    func settings(_ request: ControlRequest) throws -> ControlResponse {
        try self.allow([.GET, .PATCH], request)
        try request.allowQuery([])
        if request.method == .PATCH { try self.changeSettings(request) }
        var settings = self.settings
        settings["offlineStorageRules"] = OfflineStorage.allCases.map { rule -> JSONObject in
            ["name": rule, "message": rule.message, "source": rule.source]
        }
        return .json(settings)
    }

    private func changeSettings(_ request: ControlRequest) throws {
        let object = try request.object(["offlineStorage", "limitsProviderTokenUpdates"])
        let storage: OfflineStorage? = try object.read("offlineStorage", .choice)
        let limits = try object.read("limitsProviderTokenUpdates", .bool)
        if limits != nil, !self.simulator.asksForToken {
            throw ControlError(
                .conflict,
                "no-provider-tokens",
                "limitsProviderTokenUpdates cannot be set, because this simulator accepts requests without a provider "
                    + "token. Start it without --without-token."
            )
        }
        if let storage { self.simulator.offlineStorage = storage }
        if let limits { self.simulator.limitsProviderTokenUpdates = limits }
    }

    /// The settings and their values. `limitsProviderTokenUpdates` is null if no provider token is required.
    var settings: JSONObject {
        let limits = self.simulator.asksForToken ? JSONValue.bool(self.simulator.limitsProviderTokenUpdates) : .null
        return ["offlineStorage": self.simulator.offlineStorage, "limitsProviderTokenUpdates": limits]
    }
}
