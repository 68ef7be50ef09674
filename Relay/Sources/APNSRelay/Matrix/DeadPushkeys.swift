import APNSModel
import Crypto
import PushQueue
import WebPush

/// The device tokens that APNs has declared invalid, as small values in the queue, so that homeservers forget them.
///
/// Only a hash of each token is stored. A token is remembered for 30 days, or until a homeserver that does not say when it got the
/// token was told. If a homeserver still has it after that, APNs refuses one more push to it, and it is remembered again.
struct DeadPushkeys: Sendable {
    static let prefix = "matrix/dead/"
    /// How long a token is remembered, in milliseconds.
    private static let lifetime: Int64 = 30 * 86_400_000
    /// The number of tokens that one call of the queue reads.
    private static let page = 500

    let queue: any PushQueue

    private struct Entry: Codable {
        /// When the token became invalid, in milliseconds since 1970.
        var since: Int64
        /// When that was stored.
        var stored: Int64
    }

    private static func key(_ token: DeviceToken, _ app: String, _ environment: String) -> String {
        let text = Array("\(app)/\(environment)\u{0}".utf8) + TokenBytes.bytes(of: token)
        return self.prefix + Base64Text.encode(SHA256.hash(data: text))
    }

    /// Remembers a token.
    ///
    /// - Parameter since: when it became invalid, in milliseconds since 1970.
    func add(
        _ token: DeviceToken,
        _ app: String,
        _ environment: String,
        since: Int64,
        now: QueueTime
    ) async throws(QueueError) {
        let entry = Entry(since: since, stored: now.millisecondsSince1970)
        try await self.queue.setValue(StoredJSON.encode(entry), forKey: Self.key(token, app, environment))
    }

    /// Whether to tell a homeserver that a token is invalid.
    ///
    /// - Parameter pushkeyTime: when the homeserver got the token, in seconds since 1970; nil if it does not say.
    func reject(
        _ token: DeviceToken,
        _ app: String,
        _ environment: String,
        pushkeyTime: Int64?
    ) async throws(QueueError) -> Bool {
        let key = Self.key(token, app, environment)
        guard let entry = try await self.queue.value(forKey: key).flatMap({ StoredJSON.decode(Entry.self, from: $0) })
        else { return false }
        if let pushkeyTime, pushkeyTime <= entry.since / 1_000 { return true }
        // With a later time, the app has registered the token again. Without a time, nobody would notice that, so the token is
        // rejected only once.
        try await self.queue.setValue(nil, forKey: key)
        return pushkeyTime == nil
    }

    /// Forgets the tokens that were stored too long ago.
    func prune(now: QueueTime) async throws(QueueError) {
        var last: String?
        while !Task.isCancelled {
            let values = try await self.queue.values(withPrefix: Self.prefix, after: last, limit: Self.page)
            for (key, value) in values {
                let stored = StoredJSON.decode(Entry.self, from: value)?.stored ?? 0
                guard now.millisecondsSince1970 - stored > Self.lifetime else { continue }
                _ = try await self.queue.exchangeValue(nil, forKey: key, expecting: value)
            }
            guard values.count == Self.page else { return }
            last = values.last?.key
        }
    }
}
