import APNSModel
import Logging
import PushQueue
import ServiceLifecycle
import WebPush

/// Deletes the subscriptions of device tokens that APNs has declared invalid. Their senders then get 404, and forget them.
struct SubscriptionKeeper: Service {
    let store: SubscriptionStore
    let keys: DeviceTokenKeys
    let logger: Logger
    /// How often the dead tokens are read.
    var interval = Duration.seconds(2)

    func run() async throws {
        await cancelWhenGracefulShutdown {
            while !Task.isCancelled {
                do throws(QueueError) {
                    try await self.tend()
                } catch {
                    self.logger.warning("The dead tokens cannot be read; trying again", metadata: ["error": "\(error)"])
                }
                try? await Task.sleep(for: self.interval)
            }
        }
        // A service that ends before its turn counts as failed in a service group.
        try? await gracefulShutdown()
    }

    /// Reads the dead tokens from the stored position on. Several relays may do this at the same time.
    func tend() async throws(QueueError) {
        let queue = self.store.queue
        let stored = try await queue.value(forKey: SubscriptionStore.cursorKey)
        var cursor = stored.flatMap { FeedCursor(String(decoding: $0, as: UTF8.self)) }
        while !Task.isCancelled {
            let before = cursor
            let page = try await queue.outcomes(after: cursor, apps: nil, kind: .invalidTokens, limit: 500)
            for entry in page.entries { try await self.removeSubscriptions(of: entry.push) }
            cursor = page.cursor ?? cursor
            if cursor != before, let cursor {
                try await queue.setValue(Array(cursor.text.utf8), forKey: SubscriptionStore.cursorKey)
            }
            if page.isEnd { return }
        }
    }

    private func removeSubscriptions(of push: PushStatus) async throws(QueueError) {
        guard let since = push.outcome?.invalidation?.secondsSince1970 else { return }
        let tags = self.keys.tags(TokenBytes.bytes(of: push.token), push.route.app, push.route.environment)
        for subscription in try await self.store.subscriptions(deviceTags: tags) {
            // The device has registered again since then, with the same token.
            guard Double(subscription.registeredAt) / 1_000 <= since else { continue }
            try await self.store.remove(subscription)
            self.logger.info(
                "A subscription has ended, because its device token is invalid",
                metadata: ["id": "\(subscription.id)"]
            )
        }
    }
}
