import APNSModel
import PushQueue

/// The device token of a Web Push message in the queue, in its outcome and in the feed: encrypted as in its subscription, after
/// the subscription's id. So a copy of the database tells no device token.
///
/// It stays the same until the subscription changes, so that a message supersedes an earlier one of its topic.
enum QueuedDeviceToken {
    static func seal(_ subscription: Subscription) -> DeviceToken? {
        let bytes = Array(subscription.id.utf8) + subscription.sealedToken
        return bytes.withUnsafeBytes { TokenBytes.token($0) }
    }

    /// The device token of a push; nil if it is encrypted and cannot be decrypted.
    static func open(_ token: DeviceToken, of route: Route, _ keys: DeviceTokenKeys?) -> DeviceToken? {
        guard route.caller == WebPushRoutes.caller else { return token }
        let bytes = TokenBytes.bytes(of: token)
        let id = String(decoding: bytes.prefix(SubscriptionID.count), as: UTF8.self)
        guard let opened = try? keys?.open(Array(bytes.dropFirst(SubscriptionID.count)), for: id).token else {
            return nil
        }
        return opened.withUnsafeBytes { TokenBytes.token($0) }
    }
}
