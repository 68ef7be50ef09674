import APNSModel
import HTTPTypes
import Logging
import PushQueue

/// The push resources: a sender posts encrypted messages for one device (RFC 8030), without a token of this relay.
///
/// Senders delete a subscription after a 4xx, except 408 and 429. So every temporary error has status 408, 429 or 503.
struct WebPushRoutes: Sendable {
    /// Stands for the senders in routes. It cannot be the name of a caller in the settings.
    static let caller = "web-push"
    /// How long a message that is only worth delivering at once may wait in the queue.
    private static let shortestDeadline = Duration.seconds(60)

    let host: any GatewayHost
    let settings: WebPushSettings
    /// How far in the future the deadline of a push may be.
    let maxDeadline: Duration
    let store: SubscriptionStore
    let keys: DeviceTokenKeys
    let verifier: VAPIDVerifier
    let keptSpace: KeptSpace
    let clock: any QueueClock
    let ids = PushIDGenerator()

    private var queue: any PushQueue { self.store.queue }

    var routes: [GatewayRoute] {
        [
            GatewayRoute(.post, "/webpush/push/{secret}", .open) { try await self.push($0) },
            GatewayRoute(.get, "/webpush/push/{secret}", .open) { try self.discover($0) },
            GatewayRoute(.delete, "/webpush/push/{secret}/messages/{id}", .open) { try await self.cancel($0) },
        ]
    }

    /// What servers of UnifiedPush ask before they use an endpoint.
    private func discover(_ request: any GatewayRequest) throws -> GatewayResponse {
        guard EndpointSecret(request.pathPart("secret")) != nil else { throw Self.unknown }
        struct Discovery: Encodable {
            struct Version: Encodable { var version = 1 }
            var unifiedpush = Version()
        }
        return .json(Discovery())
    }

    // MARK: Push

    private func push(_ request: any GatewayRequest) async throws -> GatewayResponse {
        let (subscription, secret) = try await self.subscription(request)
        return try await request.withBody(atMost: WebPushRequest.maxBodyBytes) { body in
            try await self.push(body, request, subscription, secret)
        }
    }

    private func push(
        _ body: [UInt8],
        _ request: any GatewayRequest,
        _ subscription: Subscription,
        _ secret: EndpointSecret
    ) async throws -> GatewayResponse {
        let now = self.clock.now
        let (message, sender): (WebPushRequest, VAPIDSender?)
        do throws(WebPushError) {
            message = try WebPushRequest(request.headers, body: body)
            sender = try self.sender(request.headers, subscription, now)
        } catch {
            throw GatewayError(error)
        }
        if let wait = self.host.take(self.limits(of: subscription, sender)) {
            throw GatewayError.rateLimited(wait, "Too many messages.")
        }
        let id = try await self.store(message, subscription, now, request.logger)
        var headers = HTTPFields()
        headers[.location] = "\(self.settings.origin)/webpush/push/\(secret.text)/messages/\(id)"
        headers[.timeToLive] = String(message.timeToLive)
        return GatewayResponse(.created, headers: headers)
    }

    /// The pushes a minute that a subscription, its device and the sender may have. A sender may push to many subscriptions.
    private func limits(of subscription: Subscription, _ sender: VAPIDSender?) -> [(name: String, pushesPerMinute: Int)]
    {
        let rate = self.settings.pushesPerMinute
        var limits = [("s" + subscription.id, rate), ("d" + subscription.deviceTag, rate * 5)]
        if let sender { limits.append(("k" + Base64Text.encode(sender.key), rate * 1_000)) }
        return limits
    }

    /// The subscription of the endpoint in the path.
    private func subscription(_ request: any GatewayRequest) async throws -> (Subscription, EndpointSecret) {
        guard let secret = EndpointSecret(request.pathPart("secret")) else { throw Self.unknown }
        let found = try await self.store.subscription(endpointHash: secret.hash)
        guard let found else { throw Self.unknown }
        return (found, secret)
    }

    private static let unknown = GatewayError.notFound("There is no such subscription. Delete it.")

    /// The sender of a request, if it identifies itself.
    private func sender(
        _ headers: HTTPFields,
        _ subscription: Subscription,
        _ now: QueueTime
    ) throws(WebPushError) -> VAPIDSender? {
        guard let sender = try self.verifier.sender(headers, now: now.seconds) else {
            guard !self.settings.requiresVAPID, subscription.senderKey == nil else {
                throw WebPushError(.vapidMissing, "Identify the sender with VAPID (RFC 8292).")
            }
            return nil
        }
        guard subscription.senderKey == nil || subscription.senderKey == sender.key else {
            throw WebPushError(.vapidInvalid, "The subscription is for another sender (RFC 8292, section 4).")
        }
        return sender
    }

    /// Stores the push of a message. Returns its id, or that of the earlier request that this one repeats.
    private func store(
        _ message: WebPushRequest,
        _ subscription: Subscription,
        _ now: QueueTime,
        _ logger: Logger
    ) async throws -> APNSID {
        // The settings may have the app again, so this is no reason to delete the subscription.
        guard let app = self.host.app(subscription.app) else {
            logger.error(
                "The app of a Web Push subscription is missing in the settings",
                metadata: ["app": "\(subscription.app)", "subscription": "\(subscription.id)"]
            )
            throw Self.unavailable
        }
        let notification = WebPushNotification(
            subscription: subscription.id,
            topic: app.topic,
            fallbackKey: subscription.fallbackKey,
            allowsTimeSensitive: subscription.allowsTimeSensitive
        )
        let id = self.ids.next(at: now)
        let seconds = now.millisecondsSince1970 / 1_000
        let prepared: PreparedPush
        var kept: [UInt8]?
        do throws(WebPushError) {
            prepared = try notification.push(for: message, now: seconds)
        } catch {
            guard error.code == .tooLarge, self.settings.keptMessages > 0,
                let fetched = try? notification.push(for: message, now: seconds, fetch: "\(id)")
            else {
                throw GatewayError(error)
            }
            prepared = fetched
            kept = notification.fetchedMessage(message)
        }
        let push = try self.newPush(id, prepared, message, notification, subscription, now, logger)
        guard let kept else { return try await self.host.store(push) }
        return try await self.store(push, keeping: kept, message.timeToLive, subscription, now)
    }

    /// Stores a push whose message the device has to fetch. The message comes first, so that the device finds it.
    private func store(
        _ push: NewPush,
        keeping message: [UInt8],
        _ timeToLive: Int,
        _ subscription: Subscription,
        _ now: QueueTime
    ) async throws -> APNSID {
        if let key = push.idempotency?.key {
            // A repetition needs no place.
            let known = try await self.queue.id(ofKey: key, caller: Self.caller)
            if let known { return known }
        }
        let messages = KeptMessages(queue: self.queue)
        guard try await !messages.isFull(subscription.id, limit: self.settings.keptMessages) else {
            throw GatewayError.rateLimited(
                KeptSpace.interval,
                "Too many large messages wait for the device. Send a smaller one."
            )
        }
        let (limit, lease) = (self.settings.keptBytes, self.clock.lease)
        guard try await self.keptSpace.reserve(message.count, limit: limit, messages, now: lease) else {
            throw GatewayError.rateLimited(
                KeptSpace.interval,
                "Too many large messages wait for all devices. Send a smaller one."
            )
        }
        try await messages.keep(message, id: "\(push.id)", of: subscription.id, timeToLive: timeToLive, now: now)
        do {
            let id = try await self.host.store(push)
            // The notification of a repetition names the message of the first request.
            if id != push.id { try? await messages.remove("\(push.id)", of: subscription.id) }
            return id
        } catch {
            if (error as? QueueError)?.code != .undecided {
                try? await messages.remove("\(push.id)", of: subscription.id)
            }
            throw error
        }
    }

    private func newPush(
        _ id: APNSID,
        _ prepared: PreparedPush,
        _ message: WebPushRequest,
        _ notification: WebPushNotification,
        _ subscription: Subscription,
        _ now: QueueTime,
        _ logger: Logger
    ) throws -> NewPush {
        let token: DeviceToken
        do throws(DeviceTokenKeys.Failure) {
            _ = try self.keys.open(subscription.sealedToken, for: subscription.id)
            guard let sealed = QueuedDeviceToken.seal(subscription) else { throw .notAuthentic }
            token = sealed
        } catch {
            logger.error(
                "A device token cannot be decrypted. Is its key missing in webPush.oldKey?",
                metadata: ["subscription": "\(subscription.id)", "error": "\(error)"]
            )
            throw Self.unavailable
        }
        let isUrgent = message.urgency == .normal || message.urgency == .high
        let lifetime = max(.seconds(message.timeToLive), Self.shortestDeadline)
        return NewPush(
            id: id,
            route: Route(
                app: subscription.app,
                environment: subscription.environment,
                lane: isUrgent ? .interactive : .bulk,
                caller: Self.caller
            ),
            token: token,
            push: prepared,
            notBefore: now,
            deadline: now.advanced(by: min(lifetime, self.maxDeadline)),
            supersedes: message.topic.map { SupersedeKey(notification.collapseID($0)) },
            // A sender that repeats a request sends the same content, which begins with a random salt.
            idempotency: message.content.map { content in
                let digest = content.digest
                return IdempotencyKey(key: "\(subscription.id) \(Base64Text.encode(digest))", digest: digest)
            },
            metadata: Self.metadata(subscription)
        )
    }

    /// Marks the pushes of a subscription, so that only its endpoint can delete them.
    private static func metadata(_ subscription: Subscription) -> String {
        #"{"subscription":"\#(subscription.id)"}"#
    }

    private static let unavailable = GatewayError(
        .unavailable,
        "The push cannot be accepted now. Nothing was stored; try again later.",
        retryAfter: 60
    )

    // MARK: Messages

    /// Cancels a message that was not sent yet. Whoever knows the endpoint and the message's id may do that
    /// (RFC 8030, section 8.3).
    private func cancel(_ request: any GatewayRequest) async throws -> GatewayResponse {
        let (subscription, _) = try await self.subscription(request)
        guard let id = APNSID(request.pathPart("id")) else { throw Self.unknownMessage }
        let status = try await self.queue.status(of: id)
        guard let status, status.route.caller == Self.caller,
            status.metadata == Self.metadata(subscription)
        else { throw Self.unknownMessage }
        switch try await self.queue.cancel(id) {
        case .cancelled:
            try await KeptMessages(queue: self.queue).remove("\(id)", of: subscription.id)
            return GatewayResponse(.noContent)
        case .written, .settled, .notFound: throw Self.unknownMessage
        }
    }

    private static let unknownMessage = GatewayError.notFound("There is no such message, or it was sent.")
}

extension GatewayError {
    /// The error for a request that is no Web Push request, or not that of the right sender.
    init(_ error: WebPushError) {
        switch error.code {
        case .unsupportedEncoding: self.init(.unsupportedMediaType, error.message)
        case .tooLarge: self.init(.bodyTooLarge, error.message)
        case .vapidMissing: self.init(.unauthorized, error.message)
        case .vapidInvalid: self.init(.forbidden, error.message)
        default: self.init(.badRequest, error.message)
        }
        self.scheme = "vapid"
    }
}
