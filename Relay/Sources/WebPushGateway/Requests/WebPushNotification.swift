public import APNSModel
import Crypto

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// The notification that carries a Web Push message to the device.
///
/// It is an alert with a fallback text, which the app's notification service extension replaces by the decrypted message.
/// The member `webpush` has the message as `APNSSealing.WebPushMessage` reads it. A background push would not do: iOS delivers
/// only a few an hour, and they start no extension.
public struct WebPushNotification: Sendable, Hashable {
    /// The subscription, which tells the device which keys open the message. It must not be the endpoint, with which
    /// everybody could push.
    public var subscription: String
    /// The app's bundle ID.
    public var topic: String
    /// The key of the fallback text in the app's strings.
    public var fallbackKey: String
    /// Whether the app may break through Focus for urgent messages, which needs an entitlement.
    public var allowsTimeSensitive: Bool

    public init(subscription: String, topic: String, fallbackKey: String, allowsTimeSensitive: Bool = false) {
        self.subscription = subscription
        self.topic = topic
        self.fallbackKey = fallbackKey
        self.allowsTimeSensitive = allowsTimeSensitive
    }

    /// The custom member of the payload, and what the device gets that fetches a message.
    private struct Member: Encodable, Sendable {
        var id: String
        var body: String?
        var encoding: String?
        var salt: String?
        var dh: String?
        /// The id of a message that the device has to fetch. Then there is no body.
        var fetch: String?

        /// - Parameters:
        ///   - id: the subscription.
        ///   - content: the message.
        init(_ id: String, _ content: WebPushContent) {
            let isOld = content.encoding == .aesgcm
            self.id = id
            self.body = Base64Text.encode(content.body)
            self.encoding = isOld ? "aesgcm" : nil
            self.salt = isOld ? Base64Text.encode(content.salt) : nil
            self.dh = isOld ? Base64Text.encode(content.senderKey) : nil
        }

        init(_ id: String, fetch: String) {
            self.id = id
            self.fetch = fetch
        }
    }

    /// A message as the device reads it that fetches it: a JSON object in UTF-8.
    ///
    /// - Returns: nil for a request without a message.
    public func fetchedMessage(_ request: WebPushRequest) -> [UInt8]? {
        guard let content = request.content else { return nil }
        return try? Array(JSONEncoder().encode(Member(self.subscription, content)))
    }

    /// Prepares the push.
    ///
    /// - Parameters:
    ///   - request: the sender's request.
    ///   - now: the time, in whole seconds since 1970.
    ///   - fetch: the id with which the device fetches the message; nil if the notification carries it.
    /// - Throws: `WebPushError`: `tooLarge` if the message does not fit; the text names the largest size.
    public func push(
        for request: WebPushRequest,
        now: Int64,
        fetch: String? = nil
    ) throws(WebPushError) -> PreparedPush {
        do throws(ValidationError) {
            return try self.notification(request, now, fetch).prepared()
        } catch {
            guard error.code == .payloadTooLarge, let content = request.content, let size = error.actual,
                let limit = error.limit
            else {
                throw WebPushError(.invalidBody, "The message cannot be sent as a notification: \(error)")
            }
            // Three bytes of the body are four characters of the payload.
            let characters = Base64Text.encode(content.body).utf8.count - (size - limit)
            throw WebPushError(
                .tooLarge,
                "The message has \(content.body.count) bytes, and at most \(characters * 3 / 4) fit into a notification of "
                    + "Apple's service. Send less, and let the app fetch the rest."
            )
        }
    }

    private func notification(_ request: WebPushRequest, _ now: Int64, _ fetch: String?) -> PushNotification {
        var notification = PushNotification(topic: self.topic, alert: Alert(locKey: self.fallbackKey))
            .mutableContent()
            .interruptionLevel(self.level(request.urgency))
            .priority(request.urgency == .veryLow || request.urgency == .low ? .conserve : .immediate)
            .expiration(
                request.timeToLive == 0 ? .immediate : .at(secondsSince1970: now + Int64(request.timeToLive))
            )
        if let topic = request.topic {
            notification = notification.collapseID(self.collapseID(topic))
        }
        let member =
            fetch.map { Member(self.subscription, fetch: $0) }
            ?? request.content.map { Member(self.subscription, $0) }
        return member.map { notification.custom(key: "webpush", $0) } ?? notification
    }

    private func level(_ urgency: WebPushRequest.Urgency) -> InterruptionLevel {
        switch urgency {
        case .veryLow, .low: .passive
        case .high where self.allowsTimeSensitive: .timeSensitive
        case .normal, .high: .active
        }
    }

    /// A text that is the same for the same topic of the same subscription, and from which nobody learns the topic: the device
    /// must not get it (RFC 8030, section 5.4), and two subscriptions must not replace each other's messages.
    public func collapseID(_ topic: String) -> String {
        let digest = SHA256.hash(data: Array("\(self.subscription)\u{0}\(topic)".utf8))
        return String(Base64Text.encode(digest).prefix(32))
    }
}
