import APNSSealing
import Foundation

/// The gateway, as far as it keeps messages that are too large for a notification.
enum MessageKeeper {
    static func fetch(_ kept: KeptWebPushMessage) async throws -> WebPushMessage {
        let (body, _) = try await URLSession.shared.data(for: request("GET", kept))
        return try WebPushMessage(fetched: Array(body))
    }

    static func discard(_ kept: KeptWebPushMessage) async throws {
        _ = try await URLSession.shared.data(for: request("DELETE", kept))
    }

    private static func request(_ method: String, _ kept: KeptWebPushMessage) throws -> URLRequest {
        var request = URLRequest(url: Subscriptions.gateway.appendingPathComponent(kept.path))
        request.httpMethod = method
        let secret = try Subscriptions.fetchSecret(of: kept.subscription)
        request.setValue("Bearer \(secret)", forHTTPHeaderField: "authorization")
        return request
    }
}
