import Hummingbird

/// The endpoint that reads the settings again.
struct ReloadRoutes: Sendable {
    /// Nil if the settings cannot be read again.
    let reload: SettingsReload?

    var routes: [APIRoute] {
        [APIRoute(.post, "/v1/reload", .oneOf([.operate])) { try await self.reload($0) }]
    }

    private func reload(_ request: APIRequest) async throws -> Response {
        _ = try request.query()
        guard let reload else {
            throw APIError(.conflict, .conflict, "This relay was not started with settings that can be read again.")
        }
        do {
            return .json(try await reload.reload("a request of \(request.caller.name)"))
        } catch let error as SettingsReloadError {
            throw APIError(
                .unprocessableContent,
                .invalidSettings,
                "Nothing was changed.\n" + error.messages.joined(separator: "\n")
            )
        }
    }
}
