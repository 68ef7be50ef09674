import APNSModel
import Crypto
import PushQueue
import WebPush

/// The device tokens that APNs has declared invalid, as small values in the queue, so that homeservers forget them.
///
/// Only a hash of each token is stored, for 30 days. If requests do not say when the homeserver got the token, only the first is
/// told that it is invalid: the app may register the token again later, and such a request could not say so. If the token is
/// kept, APNs refuses one more push to it, and the next request is told.
struct DeadPushkeys: Sendable {
    static let prefix = "matrix/dead/"
    /// How long a token is remembered, in milliseconds.
    private static let lifetime: Int64 = 30 * 86_400_000
    /// The number of tokens that one call of the queue reads.
    private static let page = 500
    /// How often a value is read again because another relay has changed it at the same time.
    private static let attempts = 5

    let queue: any PushQueue

    /// An invalid token. All times are in milliseconds since 1970.
    struct Entry: Codable, Sendable {
        /// When the token became invalid.
        private var since: Int64
        /// When APNs refused a push to it last.
        private var refused: Int64
        fileprivate var stored: Int64
        /// When the relay stopped telling homeservers: after it told a request without a time, or after a later time showed that
        /// the app has registered the token again.
        private var ended: Int64?

        init(since: Int64, refused: QueueTime, stored: QueueTime) {
            self.since = since
            self.refused = refused.millisecondsSince1970
            self.stored = stored.millisecondsSince1970
        }

        /// Whether to tell a homeserver that the token is invalid.
        ///
        /// - Parameter pushkeyTime: when the homeserver got the token, in seconds since 1970; nil if it does not say.
        func isInvalid(pushkeyTime: Int64?) -> Bool {
            self.ended == nil && pushkeyTime.map { $0 <= self.since / 1_000 } ?? true
        }

        /// Whether homeservers stop being told after one with this time was answered.
        func ends(pushkeyTime: Int64?) -> Bool {
            self.ended == nil && pushkeyTime.map { $0 > self.since / 1_000 } ?? true
        }

        func ended(at now: QueueTime) -> Entry {
            var entry = self
            entry.ended = now.millisecondsSince1970
            return entry
        }

        /// Whether an entry for the same token says nothing new: another relay may have read the same refusal.
        func covers(_ other: Entry) -> Bool { other.refused <= self.ended ?? self.refused }
    }

    static func key(_ token: DeviceToken, _ app: String, _ environment: String) -> String {
        let text = Array("\(app)/\(environment)\u{0}".utf8) + TokenBytes.bytes(of: token)
        return self.prefix + Base64Text.encode(SHA256.hash(data: text))
    }

    /// The entry of a token; nil if it is not known as invalid.
    func entry(_ key: String) async throws(QueueError) -> Entry? {
        try await self.queue.value(forKey: key).flatMap { StoredJSON.decode(Entry.self, from: $0) }
    }

    /// Remembers a token.
    func add(_ entry: Entry, for key: String) async throws(QueueError) {
        try await self.change(key) { $0?.covers(entry) == true ? nil : entry }
    }

    /// Stops telling homeservers that a token is invalid.
    func end(_ key: String, now: QueueTime) async throws(QueueError) {
        try await self.change(key) { $0?.ended(at: now) }
    }

    /// - Parameter change: the new entry for the present one; nil to leave it as it is.
    private func change(_ key: String, _ change: (Entry?) -> Entry?) async throws(QueueError) {
        for _ in 0..<Self.attempts {
            let old = try await self.queue.value(forKey: key)
            guard let new = change(old.flatMap { StoredJSON.decode(Entry.self, from: $0) }) else { return }
            if try await self.queue.exchangeValue(StoredJSON.encode(new), forKey: key, expecting: old) { return }
        }
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
