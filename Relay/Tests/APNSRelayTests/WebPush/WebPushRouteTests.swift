import APNSModel
import Crypto
import Foundation
import Logging
import NIOHTTP1
import PushQueue
import PushQueueConformance
import RelayTestSupport
import Synchronization
import Testing

@testable import APNSRelay
@testable import WebPushGateway

/// The gateway for Web Push over HTTP, with a queue and without a dispatcher.
struct WebPushRouteTests {
    private static let origin = "https://push.example.com"
    /// The message of RFC 8291, section 5.
    private static let message =
        Base64Text.decode(
            """
            DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK\
            6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN
            """
        ) ?? []

    /// A server that sends Web Push.
    private struct Sender {
        let key = P256.Signing.PrivateKey()

        var publicKey: String { Base64Text.encode(self.key.publicKey.x963Representation) }

        func authorization(expiry: Double = RelayServer.start.seconds + 3_600) throws -> String {
            let claims = #"{"aud":"\#(WebPushRouteTests.origin)","exp":\#(expiry)}"#
            let text = [#"{"typ":"JWT","alg":"ES256"}"#, claims].map { Base64Text.encode(Array($0.utf8)) }
                .joined(separator: ".")
            let signature = try self.key.signature(for: Data(text.utf8)).rawRepresentation
            return "vapid t=\(text).\(Base64Text.encode(signature)), k=\(self.publicKey)"
        }
    }

    private static func settings(_ change: (inout WebPushSettings) -> Void = { _ in }) -> RelaySettings {
        RelayServer.settings { settings in
            settings.callers.append(
                Caller(
                    name: "backend",
                    tokenDigests: [RelayServer.digest("backend")],
                    apps: ["fern"],
                    roles: [.subscribe]
                )
            )
            var webPush = WebPushSettings(origins: [Self.origin], key: Array(repeating: 7, count: 32))
            change(&webPush)
            settings.webPush = webPush
        }
    }

    /// The device token of a stored push.
    private static func opened(_ push: NewPush) -> String? {
        QueuedDeviceToken.open(push.token, of: push.route, Self.keys(7))?.hexadecimal
    }

    /// - Parameter bytes: the byte that each key repeats, the present key first.
    private static func keys(_ bytes: UInt8...) -> DeviceTokenKeys? {
        let keys = bytes.map { Array(repeating: $0, count: 32) }
        return DeviceTokenKeys(keys[0], old: Array(keys.dropFirst()))
    }

    private static func keeper(_ server: RelayServer, _ keys: DeviceTokenKeys?) throws -> SubscriptionKeeper {
        SubscriptionKeeper(
            store: SubscriptionStore(queue: server.queue),
            keys: try #require(keys),
            clock: server.clock,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        )
    }

    private struct Created: Decodable {
        var id: String
        var endpoint: String
        var fetchSecret: String

        /// The path of the endpoint.
        var path: String { String(self.endpoint.dropFirst(WebPushRouteTests.origin.count)) }
    }

    private static func subscribe(_ server: RelayServer, _ more: String = "") async throws -> Created {
        let body = #"{"app":"fern","token":"\#(RelayServer.deviceToken)"\#(more)}"#
        let received = try await server.send(.POST, "/webpush/subscriptions", token: "backend", body: body)
        #expect(received.status == 201, "\(received.text)")
        return try JSONDecoder().decode(Created.self, from: Data(received.body))
    }

    private static func push(
        _ server: RelayServer,
        _ path: String,
        _ sender: Sender?,
        message: [UInt8] = message,
        headers: HTTPHeaders = [:]
    ) async throws -> TestHTTPClient.Response {
        var fields: HTTPHeaders = ["ttl": "60", "content-encoding": "aes128gcm"]
        if let sender { fields.add(name: "authorization", value: try sender.authorization()) }
        for (name, value) in headers { fields.replaceOrAdd(name: name, value: value) }
        return try await server.send(.POST, path, token: nil, headers: fields, bytes: message)
    }

    @Test("A message is stored for its device, with an address that its sender can delete")
    func push() async throws {
        try await RelayServer.run(Self.settings()) { server in
            let subscription = try await Self.subscribe(server, #","fallbackKey":"MENTION""#)
            let received = try await Self.push(
                server,
                subscription.path,
                Sender(),
                headers: ["topic": "t", "urgency": "low"]
            )
            #expect(received.status == 201 && received.headers.first(name: "ttl") == "60", "\(received.text)")
            let location = try #require(received.headers.first(name: "location"))
            let pushes = server.queue.state.withLock { $0.pushes }
            let push = try #require(pushes.first)
            #expect(pushes.count == 1)
            #expect(Self.opened(push) == RelayServer.deviceToken)
            #expect(push.route == Route(app: "fern", environment: "production", lane: .bulk, caller: "web-push"))
            let payload = String(decoding: push.push.payload, as: UTF8.self)
            #expect(payload.contains("MENTION") && payload.contains(#""id":"\#(subscription.id)""#))
            #expect(payload.contains(Base64Text.encode(Self.message)))
            #expect(push.supersedes != nil && push.push.collapseID != nil && push.push.priority == .conserve)
            let path = String(location.dropFirst(Self.origin.count))
            for status in [204, 404] {
                let deleted = try await server.send(.DELETE, path, token: nil)
                #expect(deleted.status == status)
            }
            let status = try await server.queue.status(of: push.id)
            #expect(status?.outcome?.error?.code == .cancelled)
        }
    }

    @Test("A request that a sender repeats is stored once, and gets the same address")
    func repeated() async throws {
        try await RelayServer.run(Self.settings()) { server in
            let subscription = try await Self.subscribe(server)
            let sender = Sender()
            let first = try await Self.push(server, subscription.path, sender)
            let second = try await Self.push(server, subscription.path, sender)
            #expect(first.status == 201 && second.status == 201)
            #expect(first.headers.first(name: "location") == second.headers.first(name: "location"))
            #expect(try await server.queue.counts().unsettled == 1)
            // Another subscription of the device gets its own copy.
            let other = try await Self.subscribe(server)
            let third = try await Self.push(server, other.path, sender)
            #expect(third.headers.first(name: "location") != first.headers.first(name: "location"))
        }
    }

    @Test("Only the sender that a subscription names may push, and it must identify itself")
    func senders() async throws {
        let (sender, other) = (Sender(), Sender())
        try await RelayServer.run(Self.settings()) { server in
            let open = try await Self.subscribe(server)
            let restricted = try await Self.subscribe(server, #","vapid":"\#(sender.publicKey)==""#)
            for (path, sender, status) in [
                (open.path, sender, 201), (open.path, other, 201), (open.path, nil, 401),
                (restricted.path, sender, 201),
                (restricted.path, other, 403), (restricted.path, nil, 401),
            ] {
                let received = try await Self.push(server, path, sender)
                #expect(received.status == status, "\(received.text)")
                let scheme = received.headers.first(name: "www-authenticate")
                #expect(scheme == (status == 401 ? "vapid" : nil))
            }
        }
        try await RelayServer.run(Self.settings { $0.requiresVAPID = false }) { server in
            let open = try await Self.subscribe(server)
            let restricted = try await Self.subscribe(server, #","vapid":"\#(sender.publicKey)""#)
            for (path, sender, status) in [
                (open.path, nil, 201), (open.path, sender, 201), (restricted.path, nil, 401),
            ] {
                let received = try await Self.push(server, path, sender)
                #expect(received.status == status, "\(received.text)")
            }
        }
    }

    @Test("A malformed request gets the status of RFC 8030, and stores nothing")
    func faults() async throws {
        try await RelayServer.run(Self.settings { $0.keptMessages = 0 }) { server in
            let path = try await Self.subscribe(server).path
            let sender = Sender()
            let cases: [([UInt8], HTTPHeaders, Int)] = [
                (Self.message, ["ttl": "soon"], 400), (Self.message, ["urgency": "soon"], 400),
                (Self.message, ["content-encoding": "gzip"], 415), ([1, 2, 3], [:], 400),
                (Array(repeating: 0, count: 4_097), [:], 413),
                (Array(Self.message.prefix(86)) + Array(repeating: 0, count: 4_000), [:], 413),
            ]
            for (message, headers, status) in cases {
                let received = try await Self.push(server, path, sender, message: message, headers: headers)
                #expect(received.status == status, "\(received.text)")
            }
            for path in ["/webpush/push/x", "/webpush/push/\(EndpointSecret().text)"] {
                #expect(try await Self.push(server, path, sender).status == 404)
                #expect(try await server.send(.DELETE, "\(path)/messages/\(APNSID.random())", token: nil).status == 404)
            }
            #expect(server.queue.state.withLock { $0.pushes.isEmpty })
        }
    }

    @Test("A fault that may pass is never a 4xx, except 429")
    func passingFaults() async throws {
        try await RelayServer.run(Self.settings { $0.pushesPerMinute = 2 }) { server in
            let path = try await Self.subscribe(server).path
            server.queue.state.withLock { $0.error = QueueError(code: .unavailable, message: "away") }
            #expect(try await Self.push(server, path, Sender()).status == 503)
            server.queue.state.withLock { $0.error = nil }
            var statuses: [Int] = []
            for _ in 0..<3 {
                let received = try await Self.push(server, path, Sender())
                statuses.append(received.status)
                if received.status == 429 { #expect(received.headers.first(name: "retry-after") != nil) }
            }
            #expect(statuses.last == 429)
        }
    }

    @Test("A device's token changes while its endpoints stay, and its subscriptions can be listed and deleted")
    func subscriptions() async throws {
        try await RelayServer.run(Self.settings()) { server in
            let created = [try await Self.subscribe(server), try await Self.subscribe(server)]
            let newToken = String(repeating: "cd", count: 32)
            let renamed = try await server.send(
                .PUT,
                "/webpush/subscriptions/\(created[0].id)/token",
                token: "backend",
                body: #"{"token":"\#(newToken)"}"#
            )
            #expect(renamed.status == 204, "\(renamed.text)")
            for (token, id) in [(newToken, created[0].id), (RelayServer.deviceToken, created[1].id)] {
                let list = try await server.send(
                    .POST,
                    "/webpush/subscriptions/list",
                    token: "backend",
                    body: #"{"app":"fern","token":"\#(token)"}"#
                )
                let found = (list.json["subscriptions"] as? [[String: any Sendable]])?.compactMap {
                    $0["id"] as? String
                }
                #expect(found == [id], "\(list.text)")
            }
            #expect(try await Self.push(server, created[0].path, Sender()).status == 201)
            #expect(server.queue.state.withLock { $0.pushes.last.flatMap(Self.opened) } == newToken)
            for status in [204, 404] {
                let deleted = try await server.send(
                    .DELETE,
                    "/webpush/subscriptions/\(created[0].id)",
                    token: "backend"
                )
                #expect(deleted.status == status)
            }
            #expect(try await Self.push(server, created[0].path, Sender()).status == 404)
            #expect(try await Self.push(server, created[1].path, Sender()).status == 201)
        }
    }

    @Test("The subscriptions of an invalid device token end, unless the device has registered again")
    func deadTokens() async throws {
        try await RelayServer.run(Self.settings()) { server in
            var keeper = try Self.keeper(server, Self.keys(7))
            let old = try await Self.subscribe(server)
            let sender = Sender()
            let received = try await Self.push(server, old.path, sender, headers: ["ttl": "3600"])
            #expect(received.status == 201)
            let push = try #require(server.queue.state.withLock { $0.pushes.first })
            let since = server.clock.now.advanced(by: .seconds(30))
            server.clock.advance(by: .seconds(60))
            let new = try await Self.subscribe(server)
            let rejection = Rejection(status: 410, reason: .unregistered, timestamp: since.millisecondsSince1970)
            try await server.queue.settle(push.id, .rejected(.rejected(rejection, attempts: 1)))
            try await keeper.tend()
            #expect(try await Self.push(server, old.path, sender).status == 404)
            #expect(try await Self.push(server, new.path, sender).status == 201)
            // From the stored position on, nothing is done twice.
            try await keeper.tend()
            #expect(try await server.queue.values(withPrefix: "web-push/endpoint/").count == 1)
        }
    }

    @Test("After a change of the key, tokens are encrypted anew, and the old key is no longer needed")
    func changedKey() async throws {
        try await RelayServer.run(Self.settings()) { server in
            let store = SubscriptionStore(queue: server.queue)
            for _ in 0..<3 { _ = try await Self.subscribe(server) }
            let before = try await store.subscriptions(afterEndpoint: nil, limit: 10)
            // One of them changes between the reading and the writing.
            var changed = before[0]
            changed.registeredAt += 1
            #expect(try await store.exchange(before[0], for: changed))
            var stale = before[0]
            stale.deviceTag = "stale"
            #expect(try await store.exchange(before[0], for: stale) == false)
            #expect(try await store.subscriptions(deviceTags: ["stale"]).isEmpty)
            #expect(try await store.remove(before[0]) == false)
            // Whoever loses against one that stores the same tag leaves its key.
            stale.deviceTag = changed.deviceTag
            #expect(try await store.exchange(before[0], for: stale) == false)
            #expect(try await store.subscriptions(deviceTags: [changed.deviceTag]).count == 3)
            // A key that a killed process has left finds nothing.
            try await server.queue.setValue(Array(changed.endpointHash.utf8), forKey: "web-push/device/left/x")
            #expect(try await store.subscriptions(deviceTags: ["left"]).isEmpty)
            try await server.queue.setValue(nil, forKey: "web-push/device/left/x")

            let keeper = try Self.keeper(server, Self.keys(8, 7))
            // The second time, there is nothing to do.
            for _ in 0..<2 { try await keeper.encryptAnew() }
            let after = try await store.subscriptions(afterEndpoint: nil, limit: 10)
            let keys = try #require(Self.keys(8))
            let token = TokenBytes.bytes(of: try DeviceToken(RelayServer.deviceToken))
            #expect(try after.allSatisfy { try keys.open($0.sealedToken, for: $0.id).token == token })
            #expect(after.map(\.endpointHash) == before.map(\.endpointHash))
            #expect(after[0].registeredAt == changed.registeredAt)
            let found = try await store.subscriptions(deviceTags: keys.tags(token, "fern", "production"))
            #expect(found.count == 3)
            #expect(try await server.queue.values(withPrefix: SubscriptionStore.prefix).count == 9)
        }
    }

    @Test("A message that does not fit is kept, and only its device can fetch it")
    func keptMessages() async throws {
        try await RelayServer.run(Self.settings { $0.keptMessages = 2 }) { server in
            let (subscription, other) = (try await Self.subscribe(server), try await Self.subscribe(server))
            func large(_ byte: UInt8) -> [UInt8] {
                Array(Self.message.prefix(86)) + Array(repeating: byte, count: 3_900)
            }
            func fetch(_ method: HTTPMethod, _ id: String, _ secret: String) async throws
                -> TestHTTPClient.Response
            {
                let path = "/webpush/subscriptions/\(subscription.id)/messages/\(id)"
                return try await server.send(method, path, token: secret)
            }
            let sender = Sender()
            let sent = try await Self.push(server, subscription.path, sender, message: large(1))
            #expect(sent.status == 201, "\(sent.text)")
            // A repetition keeps nothing more.
            let again = try await Self.push(server, subscription.path, sender, message: large(1))
            #expect(again.headers.first(name: "location") == sent.headers.first(name: "location"))
            let push = try #require(server.queue.state.withLock { $0.pushes.first })
            let payload = String(decoding: push.push.payload, as: UTF8.self)
            #expect(payload.contains(#""webpush":{"id":"\#(subscription.id)","fetch":"\#(push.id)"}"#), "\(payload)")
            let fetched = try await fetch(.GET, "\(push.id)", subscription.fetchSecret)
            #expect(fetched.json["id"] as? String == subscription.id)
            #expect(fetched.json["body"] as? String == Base64Text.encode(large(1)))
            let path = subscription.path.split(separator: "/").last ?? ""
            for secret in [other.fetchSecret, String(path), "backend", "x"] {
                #expect(try await fetch(.GET, "\(push.id)", secret).status == 401)
            }
            #expect(try await fetch(.GET, "\(APNSID.random())", subscription.fetchSecret).status == 404)
            #expect(try await fetch(.GET, "x", subscription.fetchSecret).status == 404)

            #expect(try await Self.push(server, subscription.path, sender, message: large(2)).status == 201)
            let third = try await Self.push(server, subscription.path, sender, message: large(3))
            #expect(third.status == 429 && third.headers.first(name: "retry-after") == "60")
            // A repetition needs no place.
            #expect(try await Self.push(server, subscription.path, sender, message: large(1)).status == 201)
            #expect(try await fetch(.DELETE, "\(push.id)", subscription.fetchSecret).status == 204)
            #expect(try await fetch(.GET, "\(push.id)", subscription.fetchSecret).status == 404)
            let fourth = try await Self.push(server, subscription.path, sender, message: large(3))
            let location = try #require(fourth.headers.first(name: "location"))
            #expect(
                try await server.send(.DELETE, String(location.dropFirst(Self.origin.count)), token: nil).status == 204
            )

            // A message whose push is not stored takes no place.
            server.queue.state.withLock { $0.enqueueError = QueueError(code: .full, message: "full") }
            #expect(try await Self.push(server, other.path, sender, message: large(4)).status != 201)
            server.queue.state.withLock { $0.enqueueError = nil }
            #expect(try await server.queue.values(withPrefix: "web-push/kept/\(other.id)/").isEmpty)
            // If its push may be stored, the device may look for it.
            server.queue.state.withLock { $0.enqueueError = QueueError(code: .undecided, message: "lost") }
            #expect(try await Self.push(server, other.path, sender, message: large(5)).status == 503)
            server.queue.state.withLock { $0.enqueueError = nil }
            #expect(try await server.queue.values(withPrefix: "web-push/kept/\(other.id)/").count == 1)
            let messages = KeptMessages(queue: server.queue)
            try await messages.removeAll(of: other.id)

            for (seconds, count) in [(599, 1), (1, 0)] {
                server.clock.advance(by: .seconds(seconds))
                while try await messages.removeExpired(server.clock.now.advanced(by: .seconds(1)), limit: 1) {}
                #expect(try await server.queue.values(withPrefix: "web-push/kept/").count == count)
            }
            #expect(try await server.queue.values(withPrefix: "web-push/expiry/").isEmpty)
        }
    }

    @Test("A message of 4,096 bytes, which some libraries make of any text, needs no setting")
    func paddedMessage() async throws {
        try await RelayServer.run(Self.settings()) { server in
            let padded = Array(Self.message.prefix(86)) + Array(repeating: 1, count: 4_010)
            let subscription = try await Self.subscribe(server)
            let received = try await Self.push(server, subscription.path, Sender(), message: padded)
            #expect(padded.count == 4_096 && received.status == 201, "\(received.text)")
            let push = try #require(server.queue.state.withLock { $0.pushes.first })
            let path = "/webpush/subscriptions/\(subscription.id)/messages/\(push.id)"
            let fetched = try await server.send(.GET, path, token: subscription.fetchSecret)
            #expect(fetched.json["body"] as? String == Base64Text.encode(padded))
        }
    }

    @Test("All kept messages together have a largest size, of which other relays take a part")
    func keptBytes() async throws {
        try await RelayServer.run(Self.settings { $0.keptBytes = 12_000 }) { server in
            func large(_ byte: UInt8) -> [UInt8] {
                Array(Self.message.prefix(86)) + Array(repeating: byte, count: 4_010)
            }
            let sender = Sender()
            var subscriptions: [Created] = []
            for byte in UInt8(1)...3 {
                let subscription = try await Self.subscribe(server)
                subscriptions.append(subscription)
                let received = try await Self.push(server, subscription.path, sender, message: large(byte))
                #expect(received.status == (byte < 3 ? 201 : 429), "\(received.text)")
            }
            // A small one needs no space.
            #expect(try await Self.push(server, subscriptions[2].path, sender).status == 201)
            // Another relay has removed one.
            let messages = KeptMessages(queue: server.queue)
            try await messages.removeAll(of: subscriptions[0].id)
            #expect(try await Self.push(server, subscriptions[2].path, sender, message: large(3)).status == 429)
            server.clock.advance(by: KeptSpace.interval)
            #expect(try await Self.push(server, subscriptions[2].path, sender, message: large(3)).status == 201)
            for subscription in subscriptions { try await messages.removeAll(of: subscription.id) }
            for prefix in ["message", "kept", "expiry"] {
                #expect(try await server.queue.values(withPrefix: "web-push/\(prefix)/").isEmpty)
            }
        }
    }

    @Test("While only the reserve of the disk is free, subscriptions and large messages are refused")
    func withoutRoom() async throws {
        try await RelayServer.run(Self.settings()) { server in
            let subscription = try await Self.subscribe(server)
            let before = try await server.queue.values(withPrefix: SubscriptionStore.prefix)
            server.useUpRoom()
            let body = #"{"app":"fern","token":"\#(RelayServer.deviceToken)"}"#
            let refused = try await server.send(.POST, "/webpush/subscriptions", token: "backend", body: body)
            #expect(refused.status == 503, "\(refused.text)")
            let large = Array(Self.message.prefix(86)) + Array(repeating: 1, count: 3_900)
            #expect(try await Self.push(server, subscription.path, Sender(), message: large).status == 503)
            #expect(try await server.queue.values(withPrefix: SubscriptionStore.prefix) == before)
        }
    }

    @Test("The messages of a subscription end with it")
    func endedWithMessages() async throws {
        try await RelayServer.run(Self.settings { $0.keptMessages = 2 }) { server in
            let subscription = try await Self.subscribe(server)
            let large = Array(Self.message.prefix(86)) + Array(repeating: 1, count: 3_900)
            #expect(try await Self.push(server, subscription.path, Sender(), message: large).status == 201)
            let path = "/webpush/subscriptions/\(subscription.id)"
            #expect(try await server.send(.DELETE, path, token: "backend").status == 204)
            #expect(try await server.queue.values(withPrefix: "web-push/kept/").isEmpty)
        }
    }

    @Test("Two endpoints of one device have nothing in common")
    func unlinkable() async throws {
        try await RelayServer.run(Self.settings()) { server in
            var pieces: Set<String> = []
            for number in 1...20 {
                let created = try await Self.subscribe(server)
                let secret = Array(created.path.split(separator: "/").last ?? "")
                for start in 0...(secret.count - 6) {
                    pieces.insert(String(secret[start..<start + 6]))
                }
                #expect(pieces.count == number * (secret.count - 5))
            }
        }
    }

    @Test("A device has a limited number of subscriptions")
    func manySubscriptions() async throws {
        try await RelayServer.run(Self.settings()) { server in
            var last: Created?
            for _ in 0..<SubscriptionStore.limitOfDevice { last = try await Self.subscribe(server) }
            let body = #"{"app":"fern","token":"\#(RelayServer.deviceToken)"}"#
            let refused = try await server.send(.POST, "/webpush/subscriptions", token: "backend", body: body)
            #expect(refused.status == 409, "\(refused.text)")
            let path = "/webpush/subscriptions/\(try #require(last).id)"
            // Another device cannot take its token for more of them, but its own may be confirmed.
            let other = #"{"app":"fern","token":"00aa00aa"}"#
            let created = try await server.send(.POST, "/webpush/subscriptions", token: "backend", body: other)
            let token = #"{"token":"\#(RelayServer.deviceToken)"}"#
            for (subscription, status) in [
                (try #require(created.json["id"] as? String), 409), (try #require(last).id, 204),
            ] {
                let moved = try await server.send(
                    .PUT,
                    "/webpush/subscriptions/\(subscription)/token",
                    token: "backend",
                    body: token
                )
                #expect(moved.status == status, "\(moved.text)")
            }
            #expect(try await server.send(.DELETE, path, token: "backend").status == 204)
            _ = try await Self.subscribe(server)
        }
    }

    @Test(
        "A member that is unknown, missing or of a wrong type is named",
        arguments: [
            (#""token":"ab","applicationServerKey":"B""#, "applicationServerKey", "only sender is vapid."),
            (#""token":"ab","fallback_key":"B""#, "fallback_key", "Do you mean fallbackKey?"),
            (#""token":"ab","vapit":"B""#, "vapit", "Do you mean vapid?"),
            (#""token":"ab","auth":"B""#, "auth", "does not need it"),
            (#""token":"ab","x":1"#, "x", "expected only app, environment, token, vapid"),
            (#""deviceToken":"ab""#, "deviceToken", "The device token is token."),
            (#""vapid":null"#, "token", "is missing"),
            (#""token":null"#, "token", "is missing"), (#""token":7"#, "token", "expected a string"),
            (#""token":"ab","allowsTimeSensitive":"yes""#, "allowsTimeSensitive", "expected true or false"),
            (#""token":"ab","token":"cd""#, "token", "only once"),
        ]
    )
    func members(_ members: String, _ field: String, _ message: String) async throws {
        try await RelayServer.run(Self.settings()) { server in
            let body = #"{"app":"fern",\#(members)}"#
            let received = try await server.send(.POST, "/webpush/subscriptions", token: "backend", body: body)
            #expect(received.status == 400 && received.error["field"] as? String == field, "\(received.text)")
            #expect((received.error["message"] as? String)?.contains(message) == true, "\(received.text)")
            #expect(try await server.queue.values(withPrefix: "web-push/").isEmpty)
        }
    }

    @Test("Registering needs the role, an app of the caller, and a valid device")
    func registration() async throws {
        try await RelayServer.run(Self.settings()) { server in
            let token = RelayServer.deviceToken
            let cases: [(String, String, Int)] = [
                ("shop-token", #"{"app":"fern","token":"\#(token)"}"#, 403),
                ("backend", #"{"app":"moss","token":"\#(token)"}"#, 403),
                ("ops-token", #"{"app":"none","token":"\#(token)"}"#, 400),
                ("backend", #"{"app":"fern","token":"xyz"}"#, 400),
                ("backend", #"{"app":"fern","token":"\#(token)","environment":"x"}"#, 400),
                ("backend", #"{"app":"fern","token":"\#(token)","vapid":"AAAA"}"#, 400),
                ("backend", #"{"app":"fern","token":"\#(token)","fallbackKey":""}"#, 400), ("backend", "{", 400),
                ("ops-token", #"{"app":"moss","token":"\#(token)"}"#, 201),
            ]
            for (caller, body, status) in cases {
                let received = try await server.send(.POST, "/webpush/subscriptions", token: caller, body: body)
                #expect(received.status == status, "\(received.text)")
            }
        }
    }

    @Test(
        "Neither the database nor the log has an endpoint or a device token, and the discovery is that of UnifiedPush"
    )
    func secrets() async throws {
        try await RelayServer.run(Self.settings()) { server in
            let subscription = try await Self.subscribe(server)
            let values = try await server.queue.values(withPrefix: "web-push/")
            #expect(values.count == 3)
            let secret = String(subscription.path.split(separator: "/").last ?? "")
            let token = try DeviceToken(RelayServer.deviceToken)
            for (key, value) in values {
                let text = key + String(decoding: value, as: UTF8.self)
                #expect(!text.contains(secret) && !text.contains(RelayServer.deviceToken))
                #expect(!text.contains(Base64Text.encode(TokenBytes.bytes(of: token))))
            }
            let discovery = try await server.send(.GET, subscription.path, token: nil)
            #expect(discovery.text == #"{"unifiedpush":{"version":1}}"#)
        }
    }

    @Test("Without settings for it, there is no gateway")
    func off() async throws {
        try await RelayServer.run { server in
            let received = try await server.send(.GET, "/webpush/push/x", token: nil)
            #expect(received.status == 404)
            #expect(!server.api.routes.contains { $0.path.hasPrefix("/webpush") })
        }
    }
}
