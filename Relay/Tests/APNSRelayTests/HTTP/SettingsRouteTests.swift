import NIOHTTP1
import PushQueue
import PushQueueConformance
import RelayTestSupport
import Synchronization
import Testing

@testable import APNSRelay

/// The settings that operators change while the relays run.
struct SettingsRouteTests {
    private func put(
        _ server: RelayServer,
        _ body: String,
        ifMatch tag: String?,
        token: String = "ops-token",
        type: String = "application/json"
    ) async throws -> TestHTTPClient.Response {
        var headers: HTTPHeaders = ["content-type": type]
        if let tag { headers.add(name: "if-match", value: tag) }
        return try await server.send(.PUT, "/v1/settings", token: token, headers: headers, body: body)
    }

    private func tag(_ response: TestHTTPClient.Response) throws -> String {
        try #require(response.headers.first(name: "etag"))
    }

    @Test("Settings are read, replaced and read again, and apply at once")
    func replaces() async throws {
        try await RelayServer.run { server in
            let none = try await server.send(.GET, "/v1/settings", token: "ops-token")
            #expect(none.status == 200 && none.text == #"{"pausedApps":[]}"#)
            let body = #"{ "pausedApps": ["moss", "fern"], "maxInFlight": 50 }"#
            let replaced = try await self.put(server, body, ifMatch: try self.tag(none))
            let expected = #"{"maxInFlight":50,"pausedApps":["fern","moss"]}"#
            #expect(replaced.status == 200 && replaced.text == expected)
            #expect(server.status.state.withLock { $0.settings } == [Array(expected.utf8)])
            let stored = try await server.queue.value(forKey: "fleet/settings")
            #expect(stored == Array(expected.utf8))
            let read = try await server.send(.GET, "/v1/settings", token: "ops-token")
            #expect(read.text == expected)
            #expect(try self.tag(read) == self.tag(replaced))
            #expect(try self.tag(read) != self.tag(none))
            let cleared = try await self.put(server, "{}", ifMatch: "\"x\", \(try self.tag(read))")
            #expect(cleared.text == #"{"pausedApps":[]}"#)
        }
    }

    @Test("Of many operators with the same version, one replaces it")
    func race() async throws {
        try await RelayServer.run { server in
            var tag = try self.tag(try await server.send(.GET, "/v1/settings", token: "ops-token"))
            for _ in 0..<5 {
                let statuses = try await withThrowingTaskGroup(of: Int.self) { [tag] tasks in
                    for number in 1...10 {
                        tasks.addTask {
                            try await self.put(server, #"{"maxInFlight":\#(number)}"#, ifMatch: tag).status
                        }
                    }
                    return try await tasks.reduce(into: []) { $0.append($1) }
                }
                #expect(statuses.filter { $0 == 200 }.count == 1)
                #expect(statuses.filter { $0 == 412 }.count == 9)
                let read = try await server.send(.GET, "/v1/settings", token: "ops-token")
                #expect(try self.tag(read) != tag)
                tag = try self.tag(read)
                // So that the next round does not store the same again.
                let reset = try await self.put(server, #"{"maxInFlight":77}"#, ifMatch: tag)
                tag = try self.tag(reset)
            }
            #expect(server.status.state.withLock { $0.settings.count } == 10)
        }
    }

    @Test("A request without a condition, or with another version, changes nothing")
    func conditions() async throws {
        try await RelayServer.run { server in
            let missing = try await self.put(server, "{}", ifMatch: nil)
            #expect(missing.status == 428 && missing.code == "preconditionRequired")
            let empty = try await self.put(server, "{}", ifMatch: "")
            #expect(empty.status == 428)
            for tag in ["\"abc\"", "W/\"0\"", "0", "\"\"", "*, \"abc\""] {
                let other = try await self.put(server, "{}", ifMatch: tag)
                #expect(other.status == 412 && other.code == "preconditionFailed", "\(tag)")
            }
            let stored = try await server.queue.value(forKey: "fleet/settings")
            #expect(stored == nil)
            #expect(server.status.state.withLock { $0.settings.isEmpty })
        }
    }

    @Test(
        "Wrong settings are refused, and the response names the member",
        arguments: [
            (#"{"maxConnections":0}"#, "maxConnections"), (#"{"pausedApps":["elm"]}"#, "pausedApps"),
            (#"{"speed":1}"#, "speed"), ("[]", nil),
        ] as [(String, String?)]
    )
    func wrong(body: String, member: String?) async throws {
        try await RelayServer.run { server in
            let received = try await self.put(server, body, ifMatch: "\"0\"")
            #expect(received.status == 400 && received.code == "invalidSettings")
            #expect(received.error["field"] as? String == member)
            let large = try await self.put(server, String(repeating: " ", count: 70_000) + "{}", ifMatch: "\"0\"")
            #expect(large.status == 413)
            let text = try await self.put(server, "{}", ifMatch: "\"0\"", type: "text/plain")
            #expect(text.status == 415)
            let stored = try await server.queue.value(forKey: "fleet/settings")
            #expect(stored == nil)
        }
    }

    @Test("Only operators read and replace settings")
    func access() async throws {
        try await RelayServer.run { server in
            let read = try await server.send(.GET, "/v1/settings")
            #expect(read.status == 403)
            let replaced = try await self.put(server, "{}", ifMatch: "\"0\"", token: "shop-token")
            #expect(replaced.status == 403)
        }
    }

    @Test("Settings of a newer version are not shown as others, and can be replaced on purpose")
    func newer() async throws {
        try await RelayServer.run { server in
            try await server.queue.setValue(Array(#"{"color":"red"}"#.utf8), forKey: "fleet/settings")
            let read = try await server.send(.GET, "/v1/settings", token: "ops-token")
            #expect(read.status == 409 && read.code == "conflict")
            let refused = try await self.put(server, "{}", ifMatch: "\"0\"")
            #expect(refused.status == 412)
            let replaced = try await self.put(server, "{}", ifMatch: "*")
            #expect(replaced.status == 200)
        }
    }

    @Test("While the queue is away, settings are neither read nor stored")
    func unavailable() async throws {
        try await RelayServer.run { server in
            server.queue.state.withLock { $0.error = QueueError(code: .unavailable, message: "away") }
            let read = try await server.send(.GET, "/v1/settings", token: "ops-token")
            #expect(read.status == 503)
            let replaced = try await self.put(server, "{}", ifMatch: "\"0\"")
            #expect(replaced.status == 503)
            #expect(server.status.state.withLock { $0.settings.isEmpty })
        }
    }
}
