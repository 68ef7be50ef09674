import APNSModel
import APNSSimulator
import NIOHTTP1

/// The settings that can change while the simulator runs.
extension ControlAPI {
    func settings(_ request: ControlRequest) throws -> ControlResponse {
        try self.allow([.GET, .PATCH], request)
        try request.allowQuery([])
        if request.method == .PATCH { try self.changeSettings(request) }
        let settings = self.settings.members ?? [:]
        return .json(.object(settings.merging(["offlineStorageRules": self.rules]) { $1 }))
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
    var settings: JSONValue {
        .object([
            "offlineStorage": .string(self.simulator.offlineStorage.rawValue),
            "limitsProviderTokenUpdates": self.simulator.asksForToken
                ? .bool(self.simulator.limitsProviderTokenUpdates) : .null,
        ])
    }

    /// What the values of `offlineStorage` mean.
    private var rules: JSONValue {
        .array(
            OfflineStorage.allCases.map {
                .object([
                    "name": .string($0.rawValue), "message": .string($0.message), "source": .string($0.source),
                ])
            }
        )
    }
}
