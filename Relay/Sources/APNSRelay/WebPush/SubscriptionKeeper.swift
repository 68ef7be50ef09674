import APNSModel
import Logging
import PushQueue
import ServiceLifecycle
import WebPush

/// Deletes the subscriptions of device tokens that APNs has declared invalid, so that their senders get 404 and forget them.
///
/// It also deletes kept messages whose time is over, and encrypts device tokens anew after a change of the key.
struct SubscriptionKeeper: Service {
    let store: SubscriptionStore
    let keys: DeviceTokenKeys
    let clock: any QueueClock
    let logger: Logger
    /// How often the dead tokens are read.
    var interval = Duration.seconds(2)
    /// The number of subscriptions or messages that one call of the queue reads.
    private static let page = 200

    func run() async throws {
        await cancelWhenGracefulShutdown {
            var mayHaveOldTokens = self.keys.hasOldKeys
            while !Task.isCancelled {
                do throws(QueueError) {
                    try await self.tend()
                    while try await KeptMessages(queue: self.store.queue).removeExpired(
                        self.clock.expiry,
                        limit: Self.page
                    ) {}
                    if mayHaveOldTokens { try await self.encryptAnew() }
                    mayHaveOldTokens = false
                } catch {
                    self.logger.warning(
                        "The subscriptions of Web Push cannot be tended; trying again",
                        metadata: ["error": "\(error)"]
                    )
                }
                try? await Task.sleep(for: self.interval)
            }
        }
        // A service that ends before its turn counts as failed in a service group.
        try? await gracefulShutdown()
    }

    /// Reads the dead tokens from the stored position on. Several relays may do this at the same time.
    func tend() async throws(QueueError) {
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
            guard try await self.store.removeUnchanged(subscription) else { continue }
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
