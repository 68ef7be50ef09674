import Crypto
import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import PushQueue

/// The endpoints that read and replace the settings of the fleet while the relays run.
///
/// A request to replace the settings names the version that it is based on. So if two operators change them at the same
/// time, one of them gets an error.
struct SettingsRoutes: Sendable {
    let live: LiveSettings
    let queue: any PushQueue
    let status: any RelayStatus
    let budget: BufferBudget

    private static let maxBodyBytes = 65_536

    var routes: [APIRoute] {
        [
            APIRoute(.get, "/v1/settings", .oneOf([.operate])) { try await self.read($0) },
            APIRoute(.put, "/v1/settings", .oneOf([.operate])) { try await self.replace($0) },
        ]
    }

    private func read(_ request: APIRequest) async throws -> Response {
        _ = try request.query()
        let stored = try await self.stored()
        guard let stored else { return Self.response(FleetSettings(), stored) }
        do throws(FleetSettings.Fault) {
            return Self.response(try FleetSettings(json: stored), stored)
        } catch {
            throw APIError(
                .conflict,
                .conflict,
                "A newer version of the relay has stored the settings. Update this relay, or replace them with If-Match: *."
            )
        }
    }

    private func replace(_ request: APIRequest) async throws -> Response {
        _ = try request.query()
        guard try request.mediaType() == "application/json" else {
            throw APIError(
                .unsupportedMediaType,
                .unsupportedMediaType,
                "Expected the content type application/json."
            )
        }
        guard let condition = request.request.headers[.ifMatch], !condition.isEmpty else {
            throw APIError(
                .preconditionRequired,
                .preconditionRequired,
                "The header If-Match is missing. Set it to the ETag of the settings that you have read."
            )
        }
        let settings = try await self.settings(request)
        let stored = try await self.stored()
        guard Self.matches(condition, stored) else { throw Self.changed }
        let isStored = try await self.queue.calling { queue throws(QueueError) in
            try await queue.exchangeValue(settings.json, forKey: FleetKey.settings, expecting: stored)
        }
        guard isStored else { throw Self.changed }
        request.logger.notice("An operator has changed the settings", metadata: ["caller": "\(request.caller.name)"])
        self.status.didStore(settings.json)
        return Self.response(settings, settings.json)
    }

    /// The settings in the body.
    private func settings(_ request: APIRequest) async throws -> FleetSettings {
        let reader = RequestBodyReader(limit: Self.maxBodyBytes, budget: self.budget)
        return try await reader.withBody(of: request) { body in
            do throws(FleetSettings.Fault) {
                let settings = try FleetSettings(json: Array(body.readableBytesView))
                if let unknown = settings.pausedApps.subtracting(self.live.apps.keys).min() {
                    throw FleetSettings.Fault(member: "pausedApps", message: "there is no app \(printable(unknown))")
                }
                return settings
            } catch {
                throw APIError(error)
            }
        }
    }

    private func stored() async throws(APIError) -> [UInt8]? {
        try await self.queue.calling { queue throws(QueueError) in try await queue.value(forKey: FleetKey.settings) }
    }

    private static func response(_ settings: FleetSettings, _ stored: [UInt8]?) -> Response {
        .body(
            ByteBuffer(bytes: settings.json),
            "application/json",
            headers: [.eTag: self.tag(stored)]
        )
    }

    /// The version of stored settings, as an entity tag.
    private static func tag(_ stored: [UInt8]?) -> String {
        guard let stored else { return "\"0\"" }
        let digest = SHA256.hash(data: stored).prefix(16).map { byte in
            (byte < 16 ? "0" : "") + String(byte, radix: 16)
        }
        return "\"\(digest.joined())\""
    }

    /// Whether the value of `If-Match` names the version: RFC 9110, section 13.1.1.
    private static func matches(_ condition: String, _ stored: [UInt8]?) -> Bool {
        let tags = condition.split(separator: ",").map { $0.filter { $0 != " " && $0 != "\t" } }
        return tags == ["*"] || tags.contains(self.tag(stored))
    }

    private static let changed = APIError(
        .preconditionFailed,
        .preconditionFailed,
        "The settings have changed since you read them. Nothing was stored; read them again."
    )
}
