import PushQueue

/// The subscriptions, as small values in the queue. Each is found by the hash of its endpoint's secret, by its id, and by its
/// device.
struct SubscriptionStore: Sendable {
    /// The beginning of the keys of all values of the gateway.
    static let prefix = "web-push/"
    private static let endpoints = "web-push/endpoint/"
    private static let ids = "web-push/id/"
    private static let devices = "web-push/device/"
    /// How far the dead tokens have been read.
    static let cursorKey = "web-push/cursor"

    /// The number of subscriptions that one device may have: one for each server, and each account.
    static let limitOfDevice = 500

    let queue: any PushQueue

    /// Stores a new subscription.
    func store(_ subscription: Subscription) async throws(QueueError) {
        try await self.queue.requireRoom()
        let hash = Array(subscription.endpointHash.utf8)
        // The endpoint comes last: whoever finds it, finds everything. Another order could leave an endpoint that nobody can
        // delete.
        try await self.queue.setValue(hash, forKey: Self.deviceKey(subscription))
        try await self.queue.setValue(hash, forKey: Self.ids + subscription.id)
        try await self.queue.setValue(
            StoredJSON.encode(subscription),
            forKey: Self.endpoints + subscription.endpointHash
        )
    }

    /// Whether a device has as many subscriptions as it may have. Requests at the same time may exceed the limit by their number.
    func isFull(_ deviceTag: String) async throws(QueueError) -> Bool {
        let limit = Self.limitOfDevice
        return try await self.queue.values(withPrefix: "\(Self.devices)\(deviceTag)/", after: nil, limit: limit).count
            >= limit
    }

    /// Removes a subscription, unless it has changed or ended.
    ///
    /// - Returns: whether it was removed.
    func remove(_ subscription: Subscription) async throws(QueueError) -> Bool {
        guard try await self.replace(subscription, by: nil) else { return false }
        try await self.queue.setValue(nil, forKey: Self.ids + subscription.id)
        try await self.queue.setValue(nil, forKey: Self.deviceKey(subscription))
        try await KeptMessages(queue: self.queue).removeAll(of: subscription.id)
        if let owner = subscription.owner {
            try await AttestedKeyStore(queue: self.queue).removeSubscription(of: owner)
        }
        return true
    }

    /// Replaces a subscription, unless it has changed or ended.
    ///
    /// - Returns: whether it was replaced.
    func exchange(_ old: Subscription, for new: Subscription) async throws(QueueError) -> Bool {
        try await self.queue.setValue(Array(new.endpointHash.utf8), forKey: Self.deviceKey(new))
        let isReplaced = try await self.replace(old, by: new)
        // Another process may have stored the same tag. A key of the device that stays is harmless, one that is missing is not.
        let present = try await self.subscription(endpointHash: new.endpointHash)
        for unused in [old, new] where unused.deviceTag != present?.deviceTag {
            try await self.queue.setValue(nil, forKey: Self.deviceKey(unused))
        }
        return isReplaced
    }

    private func replace(_ old: Subscription, by new: Subscription?) async throws(QueueError) -> Bool {
        let key = Self.endpoints + old.endpointHash
        // As stored: a later version may have stored members that this one does not know.
        guard let stored = try await self.queue.value(forKey: key),
            StoredJSON.decode(Subscription.self, from: stored) == old
        else { return false }
        return try await self.queue.exchangeValue(new.map { StoredJSON.encode($0) }, forKey: key, expecting: stored)
    }

    /// Subscriptions in the order of their endpoints' hashes.
    ///
    /// - Parameters:
    ///   - hash: the last hash of the page before; nil for the first page.
    ///   - limit: the maximum number of subscriptions.
    func subscriptions(afterEndpoint hash: String?, limit: Int) async throws(QueueError) -> [Subscription] {
        try await self.queue.values(withPrefix: Self.endpoints, after: hash.map { Self.endpoints + $0 }, limit: limit)
            .compactMap { StoredJSON.decode(Subscription.self, from: $0.value) }
    }

    /// The subscription of an endpoint; nil if there is none.
    func subscription(endpointHash: String) async throws(QueueError) -> Subscription? {
        try await self.queue.value(forKey: Self.endpoints + endpointHash).flatMap {
            StoredJSON.decode(Subscription.self, from: $0)
        }
    }

    /// The subscription with an id; nil if there is none.
    func subscription(id: String) async throws(QueueError) -> Subscription? {
        guard let hash = try await self.queue.value(forKey: Self.ids + id) else { return nil }
        return try await self.subscription(endpointHash: String(decoding: hash, as: UTF8.self))
    }

    /// The subscriptions of a device, by their ids.
    ///
    /// - Parameter tags: the tags of the device, one for each key that may have made them.
    func subscriptions(deviceTags tags: [String]) async throws(QueueError) -> [Subscription] {
        var found: [Subscription] = []
        for tag in tags {
            for hash in try await self.queue.values(withPrefix: Self.devices + tag + "/").values {
                let hash = String(decoding: hash, as: UTF8.self)
                // A process that was killed may have left a key of an earlier device token.
                if let subscription = try await self.subscription(endpointHash: hash),
                    tags.contains(subscription.deviceTag)
                {
                    found.append(subscription)
                }
            }
        }
        return found.sorted { $0.id < $1.id }
    }

    private static func deviceKey(_ subscription: Subscription) -> String {
        "\(self.devices)\(subscription.deviceTag)/\(subscription.id)"
    }
}
