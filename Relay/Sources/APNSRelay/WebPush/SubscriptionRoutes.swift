import APNSModel
import HTTPTypes
import Hummingbird
import NIOCore
import PushQueue
import WebPush

/// The endpoints with which an app's backend registers its devices for Web Push.
struct SubscriptionRoutes: Sendable {
    let live: LiveSettings
    let settings: WebPushSettings
    let store: SubscriptionStore
    let keys: DeviceTokenKeys
    let clock: any QueueClock
    let reader: RequestBodyReader
    /// Keeps the connection of a device that knows its secret, if there are too many connections.
    let prove: @Sendable (any Channel) -> Void

    var routes: [APIRoute] {
        [
            APIRoute(.post, "/webpush/subscriptions", .oneOf([.subscribe])) { try await self.create($0) },
            APIRoute(.post, "/webpush/subscriptions/list", .oneOf([.subscribe])) { try await self.list($0) },
            APIRoute(.put, "/webpush/subscriptions/{id}/token", .oneOf([.subscribe])) { try await self.update($0) },
            APIRoute(.delete, "/webpush/subscriptions/{id}", .oneOf([.subscribe])) { try await self.delete($0) },
            APIRoute(.get, "/webpush/subscriptions/{id}/messages/{message}", .open) { try await self.fetch($0) },
            APIRoute(.delete, "/webpush/subscriptions/{id}/messages/{message}", .open) { try await self.discard($0) },
        ]
    }

    // MARK: Requests and responses

    private struct NewSubscription: Decodable {
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

    private struct Device: Decodable {
        var app: String
        var environment: String?
        var token: String
    }

    private struct NewToken: Decodable {
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

    private func create(_ request: APIRequest) async throws -> Response {
        _ = try request.query()
        let new = try await self.body(NewSubscription.self, request)
        let (app, environment) = try self.destination(new.app, new.environment, request)
        let token = try Self.token(new.token)
        var senderKey: [UInt8]?
        if let vapid = new.vapid {
            guard let key = VAPIDKey(vapid) else {
                throw Self.invalid("vapid", "expected a public key of P-256 as base64url")
            }
            senderKey = key.bytes
        }
        let fallbackKey = new.fallbackKey ?? "NEW_MESSAGE"
        guard (1...100).contains(fallbackKey.utf8.count) else {
            throw Self.invalid("fallbackKey", "expected 1 to 100 bytes")
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
            registeredAt: self.clock.now.millisecondsSince1970
        )
        try await self.store.calling { store throws(QueueError) in try await store.store(subscription) }
        let endpoint = "\(self.settings.origin)/webpush/push/\(secret.text)"
        return .json(CreatedJSON(id: id, endpoint: endpoint, fetchSecret: fetchSecret.text), status: .created)
    }

    /// A POST, so that the device token is not part of an address.
    private func list(_ request: APIRequest) async throws -> Response {
        _ = try request.query()
        let device = try await self.body(Device.self, request)
        let (app, environment) = try self.destination(device.app, device.environment, request)
        let tags = self.keys.tags(try Self.token(device.token), app, environment)
        let found = try await self.store.calling { store throws(QueueError) in
            try await store.subscriptions(deviceTags: tags)
        }
        return .json(
            SubscriptionsJSON(
                subscriptions: found.map { subscription in
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
    private func update(_ request: APIRequest) async throws -> Response {
        _ = try request.query()
        let new = try await self.body(NewToken.self, request)
        let old = try await self.subscription(request)
        let token = try Self.token(new.token)
        var subscription = old
        subscription.sealedToken = self.keys.seal(token, for: old.id)
        subscription.deviceTag = self.keys.tags(token, old.app, old.environment)[0]
        subscription.registeredAt = self.clock.now.millisecondsSince1970
        try await self.store.calling { [subscription] store throws(QueueError) in
            try await store.store(subscription, replacing: old)
        }
        return Response(status: .noContent)
    }

    private func delete(_ request: APIRequest) async throws -> Response {
        _ = try request.query()
        let subscription = try await self.subscription(request)
        try await self.store.calling { store throws(QueueError) in try await store.remove(subscription) }
        return Response(status: .noContent)
    }

    // MARK: Kept messages

    /// The device reads a message that did not fit into its notification.
    private func fetch(_ request: APIRequest) async throws -> Response {
        let (subscription, id) = try await self.keptMessage(request)
        let message = try await self.store.calling { store throws(QueueError) in
            try await KeptMessages(queue: store.queue).message(id, of: subscription)
        }
        guard let message else { throw Self.unknownMessage }
        return .body(ByteBuffer(bytes: message), "application/json")
    }

    private func discard(_ request: APIRequest) async throws -> Response {
        let (subscription, id) = try await self.keptMessage(request)
        try await self.store.calling { store throws(QueueError) in
            try await KeptMessages(queue: store.queue).remove(id, of: subscription)
        }
        return Response(status: .noContent)
    }

    /// The subscription and the message in the path, if the request has the subscription's secret.
    private func keptMessage(_ request: APIRequest) async throws -> (subscription: String, id: String) {
        let words = (request.request.headers[.authorization] ?? "").split(separator: " ")
        let id = request.pathPart("id")
        let found = try await self.store.calling { store throws(QueueError) in try await store.subscription(id: id) }
        guard words.count == 2, words[0].lowercased() == "bearer", let secret = EndpointSecret(String(words[1])),
            let found, found.fetchHash == secret.hash
        else {
            throw APIError(
                .unauthorized,
                .unauthorized,
                "Send the subscription's secret as a bearer token. The subscription may have ended."
            )
        }
        self.prove(request.context.channel)
        guard let message = APNSID(request.pathPart("message")) else { throw Self.unknownMessage }
        return (found.id, "\(message)")
    }

    private static let unknownMessage = APIError.notFound("There is no such message. It may have expired.")

    // MARK: Parts

    /// The subscription in the path.
    private func subscription(_ request: APIRequest) async throws(APIError) -> Subscription {
        let id = request.pathPart("id")
        let found = try await self.store.calling { store throws(QueueError) in try await store.subscription(id: id) }
        guard let found, request.caller.maySend(to: found.app) else {
            throw APIError.notFound(
                "There is no subscription with this id. It may have ended, because its device token is invalid."
            )
        }
        return found
    }

    private func destination(
        _ name: String,
        _ environment: String?,
        _ request: APIRequest
    ) throws(APIError) -> (app: String, environment: String) {
        guard request.caller.maySend(to: name) else {
            throw APIError(
                .forbidden,
                .forbidden,
                "The caller \(request.caller.name) may not use the app \(printable(name))."
            )
        }
        guard let app = self.live.apps[name] else { throw Self.invalid("app", "there is no app \(printable(name))") }
        guard let environment = environment ?? app.defaultEnvironment, app.environments[environment] != nil else {
            let names = app.environments.keys.sorted().joined(separator: ", ")
            throw Self.invalid("environment", "expected one of \(names)")
        }
        return (name, environment)
    }

    private static func token(_ text: String) throws(APIError) -> [UInt8] {
        guard let token = try? DeviceToken(text) else {
            throw Self.invalid("token", "expected a device token in hexadecimal digits")
        }
        return TokenBytes.bytes(of: token)
    }

    private func body<Value: Decodable>(_ type: Value.Type, _ request: APIRequest) async throws -> Value {
        guard try request.mediaType() == "application/json" else {
            throw APIError(.unsupportedMediaType, .unsupportedMediaType, "Expected the content type application/json.")
        }
        return try await self.reader.withBody(of: request) { body in
            guard let value = StoredJSON.decode(type, from: Array(body.readableBytesView)) else {
                throw APIError(
                    .badRequest,
                    .badJSON,
                    "Expected a JSON object with the members that the description of the API names."
                )
            }
            return value
        }
    }

    private static func invalid(_ field: String, _ message: String) -> APIError {
        APIError(.badRequest, .badRequest, "\(field): \(message)", field: field)
    }
}
