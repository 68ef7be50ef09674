import PushQueue

/// An attested key as it is stored.
struct StoredAttestedKey: Codable, Sendable {
    var app: String
    var environment: String
    var key: AttestedKey
    /// The number of subscriptions that the key owns. A relay that is killed while it registers one may leave it too high.
    var subscriptions = 0
    /// When a device used the key last, in seconds since 1970.
    var usedAt: Int64
}

/// The attested keys, as small values in the queue.
struct AttestedKeyStore: Sendable {
    private static let prefix = "web-push/attested-key/"
    /// How long a key without subscriptions stays, in seconds, so that a device that registers again needs no new key. It is
    /// longer than the life of a challenge, so that nobody can store an attestation a second time.
    static let patience: Int64 = 24 * 3_600

    let queue: any PushQueue

    /// Stores a new key.
    ///
    /// - Parameter id: the key's id in base64url.
    /// - Returns: whether it is new.
    func store(_ key: StoredAttestedKey, _ id: String) async throws(QueueError) -> Bool {
        try await self.queue.exchangeValue(StoredJSON.encode(key), forKey: Self.prefix + id, expecting: nil)
    }

    /// A key, with its bytes for ``exchange(_:_:for:)``; nil if it is not known.
    func key(_ id: String) async throws(QueueError) -> (key: StoredAttestedKey, bytes: [UInt8])? {
        guard let bytes = try await self.queue.value(forKey: Self.prefix + id),
            let key = StoredJSON.decode(StoredAttestedKey.self, from: bytes)
        else { return nil }
        return (key, bytes)
    }

    /// Replaces or deletes a key, unless it has changed.
    func exchange(
        _ id: String,
        _ bytes: [UInt8],
        for new: StoredAttestedKey?
    ) async throws(QueueError) -> Bool {
        try await self.queue.exchangeValue(
            new.map { StoredJSON.encode($0) },
            forKey: Self.prefix + id,
            expecting: bytes
        )
    }

    /// Counts a subscription that has ended.
    func removeSubscription(of id: String) async throws(QueueError) {
        while let (key, bytes) = try await self.key(id) {
            var new = key
            new.subscriptions = max(0, key.subscriptions - 1)
            if try await self.exchange(id, bytes, for: new) { return }
        }
    }

    /// Deletes the keys that own no subscription and have not been used for a day.
    ///
    /// - Parameters:
    ///   - now: the time in seconds since 1970.
    ///   - page: the number of keys that one call of the queue reads.
    /// - Returns: the number of deleted keys.
    func removeUnused(now: Int64, page: Int) async throws(QueueError) -> Int {
        var (removed, last): (Int, String?) = (0, nil)
        while !Task.isCancelled {
            let found = try await self.queue.values(withPrefix: Self.prefix, after: last, limit: page)
            for (place, bytes) in found {
                guard let key = StoredJSON.decode(StoredAttestedKey.self, from: bytes), key.subscriptions == 0,
                    key.usedAt < now - Self.patience
                else { continue }
                if try await self.queue.exchangeValue(nil, forKey: place, expecting: bytes) { removed += 1 }
            }
            guard found.count == page, let end = found.last else { break }
            last = end.key
        }
        return removed
    }
}
