import APNSModel
import HTTPTypes
import PushQueue

/// The endpoints with which an app's backend, or each device itself, registers devices for Web Push.
struct SubscriptionRoutes: Sendable {
    /// The maximum size of a body about subscriptions or keys.
    static let maxBodyBytes = 65_536

    let host: any GatewayHost
    let settings: WebPushSettings
    let store: SubscriptionStore
    let keys: DeviceTokenKeys
    let verifier: any RegistrationVerifier
    let clock: any QueueClock

    var routes: [GatewayRoute] {
        let access = self.verifier.access
        return [
            GatewayRoute(.post, "/webpush/subscriptions", access) { try await self.create($0) },
            GatewayRoute(.post, "/webpush/subscriptions/list", access) { try await self.list($0) },
            GatewayRoute(.put, "/webpush/subscriptions/{id}/token", access) { try await self.update($0) },
            GatewayRoute(.delete, "/webpush/subscriptions/{id}", access) { try await self.delete($0) },
            GatewayRoute(.get, "/webpush/subscriptions/{id}/messages/{message}", .open) { try await self.fetch($0) },
            GatewayRoute(.delete, "/webpush/subscriptions/{id}/messages/{message}", .open) {
                try await self.discard($0)
            },
        ]
    }

    // MARK: Requests and responses

    private struct NewSubscription: GatewayBody {
        enum CodingKeys: String, CodingKey, CaseIterable {
            case app, environment, token, vapid, fallbackKey, allowsTimeSensitive
        }

        static var members: [String] { CodingKeys.allCases.map(\.rawValue) }
        static var hints: [String: String] {
            var hints = ["bundleid": "The app's name in the settings is app."]
            for name in ["applicationserverkey", "vapidkey", "vapidpublickey", "publickey", "serverkey", "key"] {
                hints[name] = "The public key of the only sender is vapid."
            }
            for name in ["devicetoken", "pushtoken", "apnstoken"] { hints[name] = "The device token is token." }
            for name in ["endpoint", "keys", "p256dh", "auth"] {
                hints[name] = "The app gives it to the sender; the relay does not need it."
            }
            return hints
        }

        var app: String
        var environment: String?
        var token: String
        var vapid: String?
        var fallbackKey: String?
        var allowsTimeSensitive: Bool?
    }

    private struct CreatedJSON: Encodable {
        var id: String
        /// The secret address for the sender. It cannot be read again.
        var endpoint: String
        /// The secret with which the device fetches messages that do not fit into a notification.
        var fetchSecret: String
    }

    private struct Device: GatewayBody {
        enum CodingKeys: String, CodingKey, CaseIterable { case app, environment, token }

        static var members: [String] { CodingKeys.allCases.map(\.rawValue) }

        var app: String
        var environment: String?
        var token: String
    }

    private struct NewToken: GatewayBody {
        enum CodingKeys: String, CodingKey, CaseIterable { case token }

        static var members: [String] { CodingKeys.allCases.map(\.rawValue) }

        var token: String
    }

    private struct SubscriptionJSON: Encodable {
        var id: String
        var app: String
        var environment: String
        /// The public key of the only sender.
        @OrNull var vapid: String?
        var registeredAt: Double
    }

    private struct SubscriptionsJSON: Encodable {
        var subscriptions: [SubscriptionJSON]
    }

    // MARK: Endpoints

    private func create(_ request: any GatewayRequest) async throws -> GatewayResponse {
        try request.requireNoQuery()
        let (new, registrant) = try await self.body(NewSubscription.self, request, addsSubscription: true)
        do {
            return try await self.create(new, registrant)
        } catch {
            // A failed call of the queue may have stored it.
            if let owner = registrant.owner, !(error is QueueError) {
                _ = try? await AttestedKeyStore(queue: self.store.queue).removeSubscription(of: owner)
            }
            throw error
        }
    }

    private func create(_ new: NewSubscription, _ registrant: Registrant) async throws -> GatewayResponse {
        let (app, environment) = try self.destination(new.app, new.environment, registrant)
        let token = try Self.token(new.token)
        var senderKey: [UInt8]?
        if let vapid = new.vapid {
            guard let key = VAPIDKey(vapid) else {
                throw GatewayError.invalid("vapid", "expected a public key of P-256 as base64url")
            }
            senderKey = key.bytes
        }
        let fallbackKey = new.fallbackKey ?? "NEW_MESSAGE"
        guard (1...100).contains(fallbackKey.utf8.count) else {
            throw GatewayError.invalid("fallbackKey", "expected 1 to 100 bytes")
        }
        let (secret, fetchSecret, id) = (EndpointSecret(), EndpointSecret(), SubscriptionID().text)
        let subscription = Subscription(
            id: id,
            app: app,
            environment: environment,
            sealedToken: self.keys.seal(token, for: id),
            deviceTag: self.keys.tags(token, app, environment)[0],
            endpointHash: secret.hash,
            fetchHash: fetchSecret.hash,
            senderKey: senderKey,
            fallbackKey: fallbackKey,
            allowsTimeSensitive: new.allowsTimeSensitive ?? false,
            registeredAt: self.clock.now.millisecondsSince1970,
            owner: registrant.owner
        )
        try await self.checkLimit(of: subscription.deviceTag)
        try await self.store.store(subscription)
        let endpoint = "\(self.settings.origin)/webpush/push/\(secret.text)"
        return .json(CreatedJSON(id: id, endpoint: endpoint, fetchSecret: fetchSecret.text), status: .created)
    }

    private func checkLimit(of deviceTag: String) async throws {
        guard try await self.store.isFull(deviceTag) else {
            return
        }
        throw GatewayError(
            .conflict,
            "The device has \(SubscriptionStore.limitOfDevice) subscriptions, the most that a device may have. Delete one first."
        )
    }

    /// A POST, so that the device token is not part of an address.
    private func list(_ request: any GatewayRequest) async throws -> GatewayResponse {
        try request.requireNoQuery()
        let (device, registrant) = try await self.body(Device.self, request)
        let (app, environment) = try self.destination(device.app, device.environment, registrant)
        let tags = self.keys.tags(try Self.token(device.token), app, environment)
        let found = try await self.store.subscriptions(deviceTags: tags)
        return .json(
            SubscriptionsJSON(
                subscriptions: found.filter(registrant.mayChange).map { subscription in
                    SubscriptionJSON(
                        id: subscription.id,
                        app: subscription.app,
                        environment: subscription.environment,
                        vapid: subscription.senderKey.map { Base64Text.encode($0) },
                        registeredAt: Double(subscription.registeredAt) / 1_000
                    )
                }
            )
        )
    }

    /// The device has another token. Endpoints stay as they are.
    private func update(_ request: any GatewayRequest) async throws -> GatewayResponse {
        try request.requireNoQuery()
        let (new, registrant) = try await self.body(NewToken.self, request)
        let token = try Self.token(new.token)
        return try await self.repeating {
            let old = try await self.subscription(request, registrant)
            var changed = old
            changed.sealedToken = self.keys.seal(token, for: old.id)
            changed.deviceTag = self.keys.tags(token, old.app, old.environment)[0]
            changed.registeredAt = self.clock.now.millisecondsSince1970
            if changed.deviceTag != old.deviceTag { try await self.checkLimit(of: changed.deviceTag) }
            return try await self.store.exchange(old, for: changed)
        }
    }

    /// Changes a subscription, which another request or the keeper may change at the same time.
    ///
    /// - Parameter change: reads and changes the subscription; false if it has changed in between.
    private func repeating(_ change: () async throws -> Bool) async throws -> GatewayResponse {
        for _ in 0..<5 where try await change() { return GatewayResponse(.noContent) }
        throw GatewayError(
            .unavailable,
            "The subscription is being changed by others. Nothing was changed; try again later.",
            retryAfter: 1
        )
    }

    private func delete(_ request: any GatewayRequest) async throws -> GatewayResponse {
        try request.requireNoQuery()
        let registrant = try await self.verifier.verify(request, body: [], addsSubscription: false)
        return try await self.repeating {
            let subscription = try await self.subscription(request, registrant)
            return try await self.store.remove(subscription)
        }
    }

    // MARK: Kept messages

    /// The device reads a message that did not fit into its notification.
    private func fetch(_ request: any GatewayRequest) async throws -> GatewayResponse {
        let (subscription, id) = try await self.keptMessage(request)
        let message = try await KeptMessages(queue: self.store.queue).message(id, of: subscription)
        guard let message else { throw Self.unknownMessage }
        return GatewayResponse(.ok, json: message)
    }

    private func discard(_ request: any GatewayRequest) async throws -> GatewayResponse {
        let (subscription, id) = try await self.keptMessage(request)
        try await KeptMessages(queue: self.store.queue).remove(id, of: subscription)
        return GatewayResponse(.noContent)
    }

    /// The subscription and the message in the path, if the request has the subscription's secret.
    private func keptMessage(_ request: any GatewayRequest) async throws -> (subscription: String, id: String) {
        let words = (request.headers[.authorization] ?? "").split(separator: " ")
        let id = request.pathPart("id")
        let found = try await self.store.subscription(id: id)
        guard words.count == 2, words[0].lowercased() == "bearer", let secret = EndpointSecret(String(words[1])),
            let found, found.fetchHash == secret.hash
        else {
            throw GatewayError(
                .unauthorized,
                "Send the subscription's secret as a bearer token. The subscription may have ended."
            )
        }
        guard let message = APNSID(request.pathPart("message")) else { throw Self.unknownMessage }
        return (found.id, "\(message)")
    }

    private static let unknownMessage = GatewayError.notFound("There is no such message. It may have expired.")

    // MARK: Parts

    /// The subscription in the path.
    private func subscription(
        _ request: any GatewayRequest,
        _ registrant: Registrant
    ) async throws -> Subscription {
        let id = request.pathPart("id")
        let found = try await self.store.subscription(id: id)
        guard let found, registrant.mayChange(found) else {
            throw GatewayError.notFound(
                "There is no subscription with this id. It may have ended, because its device token is invalid."
            )
        }
        return found
    }

    private func destination(
        _ name: String,
        _ environment: String?,
        _ registrant: Registrant
    ) throws -> (app: String, environment: String) {
        // This comes first, so that nobody finds out which other apps exist.
        guard registrant.mayUse(name) else {
            throw GatewayError(.forbidden, "\(registrant.name) may not use the app \(printable(name)).")
        }
        let (app, environment) = try self.host.destination(name, environment)
        guard registrant.mayUse(name, in: environment) else {
            throw GatewayError(.forbidden, "\(registrant.name) is not attested for \(environment).")
        }
        return (app.name, environment)
    }

    private static func token(_ text: String) throws -> [UInt8] {
        guard let token = try? DeviceToken(text) else {
            throw GatewayError.invalid("token", "expected a device token in hexadecimal digits")
        }
        return TokenBytes.bytes(of: token)
    }

    /// The body of a request, and whose request it is.
    private func body<Value: GatewayBody>(
        _ type: Value.Type,
        _ request: any GatewayRequest,
        addsSubscription: Bool = false
    ) async throws -> (Value, Registrant) {
        let body = try await request.json(type, atMost: Self.maxBodyBytes)
        let registrant = try await self.verifier.verify(
            request,
            body: body.bytes,
            addsSubscription: addsSubscription
        )
        return (body.value, registrant)
    }
}
