import APNSSealing
import Foundation

/// What the app and its extension share: the keys and the secret of each subscription, and which messages came.
enum Subscriptions {
    static let gateway = URL(string: "https://push.example.com")!

    static func keys(of subscription: String) throws -> WebPushKeys? {
        let data = try SharedKeychain.data("web-push-\(subscription)")
        return data.isEmpty ? nil : try WebPushKeys(rawRepresentation: Array(data))
    }

    static func store(_ keys: WebPushKeys, of subscription: String) throws {
        try SharedKeychain.replace("web-push-\(subscription)", with: Data(keys.rawRepresentation))
    }

    static func fetchSecret(of subscription: String) throws -> String {
        String(decoding: try SharedKeychain.data("web-push-secret-\(subscription)"), as: UTF8.self)
    }

    static func store(fetchSecret: String, of subscription: String) throws {
        try SharedKeychain.replace("web-push-secret-\(subscription)", with: Data(fetchSecret.utf8))
    }

    static func seen() throws -> SeenWebPushes {
        let data = try SharedKeychain.data("web-push-seen")
        return data.isEmpty ? SeenWebPushes() : try JSONDecoder().decode(SeenWebPushes.self, from: data)
    }

    /// Only the extension changes this item.
    static func store(_ seen: SeenWebPushes) throws {
        try SharedKeychain.replace("web-push-seen", with: JSONEncoder().encode(seen))
    }
}

/// Returns what the server needs besides the endpoint.
func subscribe(_ subscription: String, fetchSecret: String) throws -> (p256dh: String, auth: String) {
    let keys = WebPushKeys()
    try Subscriptions.store(keys, of: subscription)
    try Subscriptions.store(fetchSecret: fetchSecret, of: subscription)
    return (keys.p256dh, keys.auth)
}
