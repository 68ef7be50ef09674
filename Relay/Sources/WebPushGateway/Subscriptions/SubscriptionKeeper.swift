import APNSModel
import Logging
import PushQueue

/// Deletes the subscriptions of device tokens that APNs has declared invalid, so that their senders get 404 and forget them.
///
/// It also deletes kept messages whose time is over and attested keys that own no subscription, and encrypts device tokens
/// anew after a change of the key.
struct SubscriptionKeeper: Sendable {
    /// The number of subscriptions or messages that one call of the queue reads.
    private static let page = 200
    /// The time between two looks at the attested keys, in seconds.
    private static let keyInterval: Int64 = 3_600

    let store: SubscriptionStore
    let keys: DeviceTokenKeys
    let clock: any QueueClock
    let logger: Logger
    private var mayHaveOldTokens: Bool
    /// When to look for unused attested keys next, in seconds since 1970.
    private var nextLookAtKeys: Int64 = 0

    init(store: SubscriptionStore, keys: DeviceTokenKeys, clock: any QueueClock, logger: Logger) {
        self.store = store
        self.keys = keys
        self.clock = clock
        self.logger = logger
        self.mayHaveOldTokens = keys.hasOldKeys
    }

    /// Tends the subscriptions until the task is cancelled.
    func run() async {
        var keeper = self
        while !Task.isCancelled {
            do throws(QueueError) {
                try await keeper.tend()
            } catch {
                self.logger.warning(
                    "The subscriptions of Web Push cannot be tended; trying again",
                    metadata: ["error": "\(error)"]
                )
            }
            try? await Task.sleep(for: .seconds(2))
        }
    }

    /// Does what is due. Several relays may do this at the same time.
    mutating func tend() async throws(QueueError) {
        try await self.removeInvalid()
        let messages = KeptMessages(queue: self.store.queue)
        while try await messages.removeExpired(self.clock.expiry, limit: Self.page) {}
        try await self.removeUnusedKeys()
        if self.mayHaveOldTokens { try await self.encryptAnew() }
        self.mayHaveOldTokens = false
    }

    private mutating func removeUnusedKeys() async throws(QueueError) {
        let now = self.clock.expiry.millisecondsSince1970 / 1_000
        guard now >= self.nextLookAtKeys else { return }
        let count = try await AttestedKeyStore(queue: self.store.queue).removeUnused(now: now, page: Self.page)
        self.nextLookAtKeys = now + Self.keyInterval
        guard count > 0 else { return }
        self.logger.info("Attested keys without subscriptions are deleted", metadata: ["count": "\(count)"])
    }

    /// Removes the subscriptions of the device tokens that became invalid since the stored position.
    func removeInvalid() async throws(QueueError) {
        let reader = InvalidTokenReader(queue: self.store.queue, cursorKey: SubscriptionStore.cursorKey)
        try await reader.read { push throws(QueueError) in try await self.removeSubscriptions(of: push) }
    }

    private func removeSubscriptions(of push: PushStatus) async throws(QueueError) {
        guard let since = push.outcome?.invalidation?.secondsSince1970 else { return }
        guard let token = QueuedDeviceToken.open(push.token, of: push.route, self.keys) else { return }
        let tags = self.keys.tags(TokenBytes.bytes(of: token), push.route.app, push.route.environment)
        for subscription in try await self.store.subscriptions(deviceTags: tags) {
            // The device has registered again since then, with the same token.
            guard Double(subscription.registeredAt) / 1_000 <= since else { continue }
            guard try await self.store.remove(subscription) else { continue }
            self.logger.info(
                "A subscription has ended, because its device token is invalid",
                metadata: ["id": "\(subscription.id)"]
            )
        }
    }

    /// Encrypts device tokens again with the current key if an old key has encrypted them.
    func encryptAnew() async throws(QueueError) {
        var (changed, unreadable) = (0, 0)
        var last: String?
        while true {
            if Task.isCancelled { return }
            let subscriptions = try await self.store.subscriptions(afterEndpoint: last, limit: Self.page)
            for old in subscriptions {
                guard let (token, isOld) = try? self.keys.open(old.sealedToken, for: old.id) else {
                    unreadable += 1
                    continue
                }
                guard isOld else { continue }
                var new = old
                new.sealedToken = self.keys.seal(token, for: old.id)
                new.deviceTag = self.keys.tags(token, old.app, old.environment)[0]
                // A subscription that changes meanwhile gets the current key from whoever changes it.
                if try await self.store.exchange(old, for: new) { changed += 1 }
            }
            guard subscriptions.count == Self.page, let end = subscriptions.last else { break }
            last = end.endpointHash
        }
        self.logger.notice(
            "The device tokens of all subscriptions are encrypted with webPush.key, except unreadable ones",
            metadata: ["changed": "\(changed)", "unreadable": "\(unreadable)"]
        )
    }
}
