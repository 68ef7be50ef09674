import APNSModel
import AppAttestTestDevice
import Foundation
import Logging
import NIOHTTP1
import PushQueue
import PushQueueConformance
import RelayTestSupport
import Testing

@testable import APNSRelay
@testable import WebPushGateway

/// Devices that register themselves over HTTP, with keys that a test's authority attests.
struct AppAttestRouteTests {
    private static let now = RelayServer.start.millisecondsSince1970 / 1_000
    private static let appID = "ABCDE12345.com.grasscove.Fern"
    private static let subscriptions = "/webpush/subscriptions"
    private static let keys = "/webpush/app-attest/keys"

    /// A device that makes evidence for each request.
    private struct Client {
        let server: RelayServer
        let device: TestDevice
        var counter: UInt32 = 0

        var key: String { Base64Text.encode(self.device.keyID) }

        func challenge() async throws -> String {
            let received = try await self.server.send(.POST, "/webpush/app-attest/challenges", token: nil)
            return try #require(received.json["challenge"] as? String, "\(received.text)")
        }

        func attest(
            app: String = "fern",
            environment: String = "production",
            challenge: String? = nil,
            _ change: (inout TestDevice.Attestation) -> Void = { _ in }
        ) async throws -> TestHTTPClient.Response {
            let own = try await self.challenge()
            let text = challenge ?? own
            let request = AppAttestRequest(method: "POST", path: AppAttestRouteTests.keys, challenge: text)
            let seconds = self.server.clock.now.millisecondsSince1970 / 1_000
            let attestation = Data(try self.device.attestation(request.clientDataHash, now: seconds, change))
            let body = #"""
                {"app":"\#(app)","environment":"\#(environment)","key":"\#(self.key)","challenge":"\#(text)",\#
                "attestation":"\#(attestation.base64EncodedString())"}
                """#
            return try await self.server.send(.POST, AppAttestRouteTests.keys, token: nil, body: body)
        }

        /// The header field for a request.
        func authorization(_ method: HTTPMethod, _ path: String, _ body: String?, _ challenge: String) throws -> String
        {
            let request = AppAttestRequest(
                method: method.rawValue,
                path: path,
                challenge: challenge,
                body: Array((body ?? "").utf8)
            )
            let assertion = try self.device.assertion(request.clientDataHash, counter: self.counter)
            return "AppAttest key=\(self.key), challenge=\(challenge), assertion=\(Base64Text.encode(assertion))"
        }

        mutating func send(
            _ method: HTTPMethod,
            _ path: String,
            _ body: String? = nil
        ) async throws -> TestHTTPClient.Response {
            self.counter += 1
            let header = try self.authorization(method, path, body, try await self.challenge())
            return try await self.server.send(
                method,
                path,
                token: nil,
                headers: ["authorization": header],
                body: body
            )
        }

        mutating func subscribe(_ more: String = "") async throws -> TestHTTPClient.Response {
            try await self.send(
                .POST,
                AppAttestRouteTests.subscriptions,
                #"{"app":"fern","environment":"production","token":"\#(RelayServer.deviceToken)"\#(more)}"#
            )
        }
    }

    /// Runs a relay with App Attest, and a device whose key is not attested yet.
    private static func run(
        _ body: @escaping @Sendable (Client, TestAuthority, RelayServer) async throws -> Void
    ) async throws {
        let authority = try TestAuthority(now: Self.now)
        let settings = RelayServer.settings { settings in
            settings.apps = [TestRelay.app("fern"), TestRelay.app("moss")]
            settings.apps[0].topic = "com.grasscove.Fern"
            settings.apps[0].appIDPrefix = "ABCDE12345"
            settings.webPush = try? Self.webPush(authority)
        }
        try await RelayServer.run(settings) { server in
            try await body(Client(server: server, device: TestDevice(authority, appID: Self.appID)), authority, server)
        }
    }

    private static func webPush(_ authority: TestAuthority) throws -> WebPushSettings {
        var webPush = WebPushSettings(origins: ["https://push.example.com"], key: Array(repeating: 7, count: 32))
        webPush.registration = .appAttest(try AppAttestVerifier(root: authority.rootPEM))
        return webPush
    }

    @Test("While only the reserve of the disk is free, no key is attested") func withoutRoom() async throws {
        try await Self.run { client, _, server in
            server.useUpRoom()
            let refused = try await client.attest()
            #expect(refused.status == 503, "\(refused.text)")
            #expect(try await server.queue.values(withPrefix: SubscriptionStore.prefix).isEmpty)
        }
    }

    @Test("A device attests its key, registers, lists its subscriptions, changes its token, and deletes one")
    func flow() async throws {
        try await Self.run { first, _, server in
            var client = first
            let attested = try await client.attest()
            #expect(attested.status == 204, "\(attested.text)")
            var ids: [String] = []
            for _ in 0..<2 {
                let created = try await client.subscribe()
                #expect(created.status == 201, "\(created.text)")
                ids.append(try #require(created.json["id"] as? String))
            }
            let token = String(repeating: "cd", count: 32)
            let path = "\(Self.subscriptions)/\(ids[0])"
            let changed = try await client.send(.PUT, "\(path)/token", #"{"token":"\#(token)"}"#)
            #expect(changed.status == 204, "\(changed.text)")
            for (token, id) in [(token, ids[0]), (RelayServer.deviceToken, ids[1])] {
                let list = try await client.send(
                    .POST,
                    "\(Self.subscriptions)/list",
                    #"{"app":"fern","environment":"production","token":"\#(token)"}"#
                )
                let found = (list.json["subscriptions"] as? [[String: any Sendable]])?.compactMap {
                    $0["id"] as? String
                }
                #expect(found == [id], "\(list.text)")
            }
            for status in [204, 404] { #expect(try await client.send(.DELETE, path).status == status) }
            let stored = try await server.queue.values(withPrefix: "web-push/endpoint/").values.compactMap {
                StoredJSON.decode(Subscription.self, from: $0)
            }
            #expect(stored.map(\.id) == [ids[1]] && stored.map(\.owner) == [client.key])
            // A key is stored once, so its counter cannot be set back.
            #expect(try await client.attest().status == 409)
        }
    }

    @Test("A key that owns no subscription is deleted a day after its last use, and one that owns one is kept")
    func unusedKeys() async throws {
        try await Self.run { first, authority, server in
            var (client, owner) = (first, Client(server: server, device: TestDevice(authority, appID: Self.appID)))
            let (webPush, day) = (try Self.webPush(authority), Duration.seconds(24 * 3_600))
            let tokenKeys = try #require(DeviceTokenKeys(webPush.key, old: []))
            let keys = AttestedKeyStore(queue: server.queue)
            func tend() async throws {
                var keeper = SubscriptionKeeper(
                    store: SubscriptionStore(queue: server.queue),
                    keys: tokenKeys,
                    clock: server.clock,
                    logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
                )
                try await keeper.tend()
            }
            for status in [try await client.attest().status, try await owner.attest().status] {
                #expect(status == 204)
            }
            let id = try #require(try await client.subscribe().json["id"] as? String)
            #expect(try await owner.subscribe().status == 201)
            // A refused registration does not count.
            #expect(try await client.subscribe(#","fallbackKey":"""#).status == 400)
            #expect(try await keys.key(client.key)?.key.subscriptions == 1)
            server.clock.advance(by: day + .seconds(1))
            try await tend()
            #expect(try await client.send(.DELETE, "\(Self.subscriptions)/\(id)").status == 204)
            server.clock.advance(by: day)
            try await tend()
            #expect(try await keys.key(client.key)?.key.subscriptions == 0)
            #expect(try await client.subscribe().status == 201)
            let again = try await SubscriptionStore(queue: server.queue).subscriptions(afterEndpoint: nil, limit: 9)
            for subscription in again where subscription.owner == client.key {
                #expect(try await SubscriptionStore(queue: server.queue).remove(subscription))
            }
            server.clock.advance(by: day + .seconds(1))
            try await tend()
            #expect(try await keys.key(client.key) == nil)
            #expect(try await keys.key(owner.key)?.key.subscriptions == 1)
            #expect(try await client.subscribe().status == 401)
        }
    }

    @Test("A key can neither see nor change the subscriptions of another one, and uses its app and environment only")
    func owners() async throws {
        try await Self.run { first, authority, server in
            var (client, other) = (first, Client(server: server, device: TestDevice(authority, appID: Self.appID)))
            #expect(try await client.attest().status == 204)
            #expect(try await other.attest().status == 204)
            let id = try #require(try await client.subscribe().json["id"] as? String)
            let path = "\(Self.subscriptions)/\(id)"
            let list = try await other.send(
                .POST,
                "\(Self.subscriptions)/list",
                #"{"app":"fern","environment":"production","token":"\#(RelayServer.deviceToken)"}"#
            )
            #expect(list.text == #"{"subscriptions":[]}"#)
            #expect(try await other.send(.DELETE, path).status == 404)
            let body = #"{"token":"\#(RelayServer.deviceToken)"}"#
            #expect(try await other.send(.PUT, "\(path)/token", body).status == 404)
            for destination in [#""app":"moss""#, #""app":"none""#, #""app":"fern","environment":"development""#] {
                let received = try await other.send(
                    .POST,
                    Self.subscriptions,
                    #"{\#(destination),"token":"\#(RelayServer.deviceToken)"}"#
                )
                #expect(received.status == 403, "\(received.text)")
            }
            #expect(try await client.send(.DELETE, path).status == 204)
        }
    }

    @Test("An assertion counts once, only for its request, and with a fresh challenge")
    func assertions() async throws {
        try await Self.run { first, authority, server in
            var client = first
            let stranger = try await client.subscribe()
            #expect(stranger.status == 401 && stranger.headers.first(name: "www-authenticate") == "AppAttest")
            #expect(try await client.attest().status == 204)
            let body = #"{"app":"fern","environment":"production","token":"\#(RelayServer.deviceToken)"}"#
            func send(_ header: String, path: String = Self.subscriptions, body: String = body) async throws -> Int {
                try await server.send(.POST, path, token: nil, headers: ["authorization": header], body: body).status
            }
            client.counter = 5
            let challenge = try await client.challenge()
            let header = try client.authorization(.POST, Self.subscriptions, body, challenge)
            #expect(try await send(header, body: body + " ") == 403)
            #expect(try await send(header, path: "\(Self.subscriptions)/list") == 403)
            #expect(try await send(header) == 201)
            // The same assertion again.
            #expect(try await send(header) == 403)
            // The same counter with another challenge, and the same challenge with another counter.
            var again = try client.authorization(.POST, Self.subscriptions, body, try await client.challenge())
            #expect(try await send(again) == 403)
            client.counter = 6
            again = try client.authorization(.POST, Self.subscriptions, body, challenge)
            #expect(try await send(again) == 401)
            // A challenge that has expired, and one of another relay.
            let old = try client.authorization(.POST, Self.subscriptions, body, try await client.challenge())
            server.clock.advance(by: .seconds(301))
            #expect(try await send(old) == 401)
            let foreign = AppAttestChallenges(key: Array(repeating: 8, count: 32)).issue(now: Self.now + 301)
            #expect(
                try await send(
                    try client.authorization(.POST, Self.subscriptions, body, Base64Text.encode(foreign))
                ) == 401
            )
            // Another device's signature for this key.
            let thief = Client(server: server, device: TestDevice(authority, appID: Self.appID), counter: 9)
            let stolen = try thief.authorization(.POST, Self.subscriptions, body, try await client.challenge())
                .replacing(thief.key, with: client.key)
            #expect(try await send(stolen) == 403)
            for header in ["Bearer shop-token", "AppAttest", "AppAttest key=x", "AppAttest key=\(client.key)"] {
                #expect(try await send(header) == 401)
            }
            // Nothing of this has changed what the key can do.
            #expect(try await client.subscribe().status == 201)
            #expect(try await server.queue.values(withPrefix: "web-push/endpoint/").count == 2)
        }
    }

    @Test("Of two requests with one assertion at the same time, one succeeds")
    func race() async throws {
        try await Self.run { first, _, server in
            var client = first
            #expect(try await client.attest().status == 204)
            let body = #"{"app":"fern","environment":"production","token":"\#(RelayServer.deviceToken)"}"#
            client.counter = 1
            let header = try client.authorization(.POST, Self.subscriptions, body, try await client.challenge())
            let statuses = try await withThrowingTaskGroup(of: Int.self) { tasks in
                for _ in 0..<8 {
                    tasks.addTask {
                        try await server.send(
                            .POST,
                            Self.subscriptions,
                            token: nil,
                            headers: ["authorization": header],
                            body: body
                        ).status
                    }
                }
                return try await tasks.reduce(into: []) { $0.append($1) }
            }
            #expect(statuses.filter { $0 == 201 }.count == 1 && statuses.filter { $0 == 403 }.count == 7)
        }
    }

    @Test("A refused attestation stores no key")
    func attestations() async throws {
        try await Self.run { client, _, server in
            let expired = try await client.challenge()
            server.clock.advance(by: .seconds(301))
            let unknown = Base64Text.encode(Array(repeating: 1, count: 56))
            let received = [
                try await client.attest(challenge: expired), try await client.attest(challenge: unknown),
                try await client.attest { $0.aaguid = TestDevice.development },
                try await client.attest { $0.clientDataHash = [] }, try await client.attest(app: "moss"),
                try await client.attest(app: "none"), try await client.attest(environment: "none"),
            ]
            #expect(received.map(\.status) == [401, 401, 403, 403, 403, 400, 400])
            for body in ["{", #"{"app":"fern","key":"AA","challenge":"","attestation":""}"#] {
                #expect(try await server.send(.POST, Self.keys, token: nil, body: body).status == 400)
            }
            #expect(try await server.queue.values(withPrefix: "web-push/").isEmpty)
            let development = try await client.attest(environment: "development") {
                $0.aaguid = TestDevice.development
            }
            #expect(development.status == 204)
        }
    }

    @Test("Without verification, everybody on this machine registers devices; with tokens, there is no App Attest")
    func others() async throws {
        let body = #"{"app":"fern","token":"\#(RelayServer.deviceToken)"}"#
        for (registration, statuses) in [
            (WebPushSettings.Registration.open, [201, 404, 404]), (.token, [401, 404, 404]),
        ] {
            let settings = RelayServer.settings { settings in
                var webPush = WebPushSettings(
                    origins: ["https://push.example.com"],
                    key: Array(repeating: 7, count: 32)
                )
                webPush.registration = registration
                settings.webPush = webPush
            }
            let received = try await RelayServer.run(settings) { server in
                [
                    try await server.send(.POST, Self.subscriptions, token: nil, body: body).status,
                    try await server.send(.POST, "/webpush/app-attest/challenges", token: nil).status,
                    try await server.send(.POST, Self.keys, token: nil, body: "{}").status,
                ]
            }
            #expect(received == statuses)
        }
    }
}
