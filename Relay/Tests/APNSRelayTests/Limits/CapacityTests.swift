import APNSModel
import NIOHTTP1
import PushQueue
import Synchronization
import PushQueueConformance
import RelayTestSupport
import Testing

@testable import APNSRelay

/// Capacities of callers and apps.
struct CapacityTests {
    @Test("A caller at its capacity is refused until pushes have their outcome, and others are not")
    func caller() async throws {
        try await RelayServer.run(RelayServer.settings { $0.callers[0].capacity = 3 }) { server in
            let first = try await server.accepted()
            _ = try await server.accepted()
            let refused = try await server.post([RelayServer.push(), RelayServer.push()])
            #expect(refused.status == 429 && refused.code == "quotaExceeded")
            #expect(refused.headers["retry-after"] == ["5"])
            let message = try #require(refused.error["message"] as? String)
            #expect(message.hasPrefix("The caller shop has 2 pushes without an outcome, and caller.shop.capacity is 3"))
            #expect(try await server.queue.counts().unsettled == 2)
            _ = try await server.accepted()
            let other = try await server.post([RelayServer.push(), RelayServer.push()], token: "ops-token")
            #expect(other.status == 202)
            // The counts are a second old at most.
            try await server.queue.settle(first, .accepted(Receipt(apnsID: first)))
            server.clock.advance(by: .seconds(1))
            _ = try await server.accepted()
            let full = try await server.post([RelayServer.push()])
            #expect(full.code == "quotaExceeded")
            let large = try await server.post(Array(repeating: RelayServer.push(), count: 4))
            #expect((large.error["message"] as? String)?.contains("submit at most 3 at once") == true)
        }
    }

    @Test("A caller whose pushes end quickly may submit more than its capacity in a second")
    func quick() async throws {
        try await RelayServer.run(RelayServer.settings { $0.callers[0].capacity = 3 }) { server in
            for _ in 0..<12 {
                let id = try await server.accepted()
                try await server.queue.settle(id, .accepted(Receipt(apnsID: id)))
                server.clock.advance(by: .milliseconds(50))
            }
        }
    }

    @Test("A batch whose first devices a limit refuses leaves nothing behind")
    func refusedBatch() async throws {
        try await RelayServer.run(RelayServer.settings { $0.callers[0].capacity = 1 }) { server in
            _ = try await server.accepted()
            let batch = #"{"app":"fern","headers":{"apns-push-type":"alert"},"payload":{"aps":{}},"tokens":["aa"]}"#
            let refused = try await server.send(.POST, "/v1/batches", body: batch)
            #expect(refused.code == "quotaExceeded")
            let values = try await server.queue.values(withPrefix: "batch")
            #expect(values.isEmpty)
        }
    }

    @Test("The capacity of an app counts the pushes of all callers and batches")
    func app() async throws {
        try await RelayServer.run(RelayServer.settings { $0.apps[0].capacity = 4 }) { server in
            _ = try await server.accepted()
            _ = try await server.accepted(token: "ops-token")
            let batch = #"{"app":"fern","headers":{"apns-push-type":"alert"},"payload":{"aps":{}}"#
            let stored = try await server.send(.POST, "/v1/batches", body: batch + #","tokens":["aa","ab"]}"#)
            #expect(stored.status == 202, "\(stored.text)")
            let refused = try await server.post([RelayServer.push()], token: "ops-token")
            #expect(refused.status == 429 && refused.code == "quotaExceeded")
            #expect((refused.error["message"] as? String)?.contains("app.fern.capacity is 4") == true)
            let more = try await server.send(.POST, "/v1/batches", body: batch + #","tokens":["ac"]}"#)
            #expect(more.status == 429 && more.code == "quotaExceeded")
            #expect((more.error["message"] as? String)?.hasSuffix("The batch is cancelled.") == true)
            let other = try await server.post([RelayServer.push(app: "moss")], token: "ops-token")
            #expect(other.status == 202)
        }
    }

    @Test("Pushes that were not stored need no room")
    func notStored() async throws {
        try await RelayServer.run(RelayServer.settings { $0.callers[0].capacity = 2 }) { server in
            let keyed = RelayServer.push(#","idempotencyKey":"order""#)
            for _ in 0..<5 {
                let again = try await server.post([keyed])
                #expect(again.status == 202)
            }
            let other = RelayServer.push(#","idempotencyKey":"order","deadline":1795440100"#)
            for _ in 0..<3 {
                let conflict = try await server.post([other])
                #expect(conflict.status == 409)
            }
            _ = try await server.accepted()
            let refused = try await server.post([RelayServer.push()])
            #expect(refused.code == "quotaExceeded")
        }
    }

    @Test("A batch with a key that is refused halfway continues later, and stores each device once")
    func batch() async throws {
        try await RelayServer.run(RelayServer.settings { $0.callers[0].capacity = 3_000 }) { server in
            let single = try await server.post(Array(repeating: RelayServer.push(), count: 1_000))
            #expect(single.status == 202)
            let batch =
                #"{"app":"fern","headers":{"apns-push-type":"alert"},"payload":{"aps":{}},"idempotencyKey":"k"}"#
            let lines = [batch] + (0..<2_500).map { "\"\(String(0x1000_0000 + $0, radix: 16))\"" }
            let body = lines.joined(separator: "\n")
            let refused = try await server.send(
                .POST,
                "/v1/batches",
                headers: ["content-type": "application/x-ndjson"],
                body: body
            )
            #expect(refused.status == 429 && refused.code == "quotaExceeded", "\(refused.text)")
            #expect((refused.error["message"] as? String)?.hasSuffix("with its idempotencyKey to continue it.") == true)
            #expect(try await server.queue.counts().unsettled == 3_000)
            let route = Route(app: "fern", environment: "production", lane: .bulk, caller: "shop")
            #expect(try await server.queue.cancelAll(route, limit: 1_000) == 1_000)
            server.clock.advance(by: .seconds(1))
            let complete = try await server.send(
                .POST,
                "/v1/batches",
                headers: ["content-type": "application/x-ndjson"],
                body: body
            )
            #expect(complete.status == 202 && complete.json["stored"] as? Int == 500, "\(complete.text)")
            #expect(try await server.queue.counts().unsettled == 2_500)
        }
    }

    @Test("Requests at the same time do not exceed the capacity together")
    func atOnce() async throws {
        try await RelayServer.run(RelayServer.settings { $0.callers[0].capacity = 10 }) { server in
            let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
                for _ in 0..<30 { group.addTask { try await server.post([RelayServer.push()]).status } }
                return try await group.reduce(into: [Int: Int]()) { $0[$1, default: 0] += 1 }
            }
            #expect(statuses == [202: 10, 429: 20])
            #expect(try await server.queue.counts().unsettled == 10)
        }
    }

    @Test("The overview shows what each caller and app uses, and may submit")
    func overview() async throws {
        let settings = RelayServer.settings { settings in
            settings.callers[0].capacity = 10
            settings.callers[1].capacity = 100
            settings.callers[1].pushesPerSecond = 5
            settings.apps[0].capacity = 50
            settings.apps[1].pushesPerSecond = 7
        }
        try await RelayServer.run(settings) { server in
            for _ in 0..<4 { _ = try await server.accepted() }
            _ = try await server.accepted(token: "ops-token")
            let overview = try await server.send(.GET, "/v1/overview", token: "ops-token").json
            let callers = try #require(overview["callers"] as? [[String: any Sendable]])
            #expect(callers.map { $0["name"] as? String } == ["ops", "shop"])
            #expect(callers.map { $0["unsettled"] as? Int } == [1, 4])
            #expect(callers.map { $0["capacity"] as? Int } == [100, 10])
            #expect(callers.map { $0["pushesPerSecond"] as? Int } == [5, nil])
            // 5 pushes a second for ten seconds, less one.
            #expect(callers.map { $0["available"] as? Int } == [49, 6])
            let apps = try #require(overview["apps"] as? [[String: any Sendable]])
            #expect(apps.map { $0["unsettled"] as? Int } == [5, 0])
            #expect(apps.map { $0["capacity"] as? Int } == [50, nil])
            #expect(apps.map { $0["pushesPerSecond"] as? Int } == [nil, 7])
        }
    }

    private static func code(_ call: () async throws(APIError) -> Void) async -> APIError.Code? {
        do throws(APIError) {
            try await call()
            return nil
        } catch {
            return error.code
        }
    }

    @Test("The relays of a fleet divide a caller's rate, and a relay that leaves gives its share to the others")
    func dividedRate() async throws {
        try await FleetFixture.run { fixture in
            let settings = RelayServer.settings { $0.callers[0].pushesPerSecond = 100 }
            let members = Mutex(1)
            let limits = CallerLimits(settings, queue: fixture.base, clock: fixture.clock) { members.withLock { $0 } }
            let shop = settings.callers[0]
            func available() async throws -> Int? {
                limits.callers(try await fixture.base.counts()).first { $0.name == "shop" }?.available
            }
            #expect(try await available() == 1_000)
            members.withLock { $0 = 4 }
            #expect(try await available() == 250)
            try limits.take(250, shop)
            let code = await Self.code { () throws(APIError) in try limits.take(1, shop) }
            #expect(code == .rateLimited)
            fixture.clock.advance(by: .seconds(1))
            #expect(try await available() == 25)
            members.withLock { $0 = 1 }
            fixture.clock.advance(by: .seconds(1))
            // The time until a change is noticed counts with the earlier share.
            #expect(try await available() == 50)
        }
    }

    @Test("Replaced limits apply at once, and a rate that stays the same keeps its state")
    func replaced() async throws {
        try await FleetFixture.run { fixture in
            var settings = RelayServer.settings { $0.callers[0].pushesPerSecond = 1 }
            let limits = CallerLimits(settings, queue: fixture.base, clock: fixture.clock)
            let shop = settings.callers[0]
            try limits.take(100, shop)
            settings.callers[0].capacity = 0
            limits.set(callers: settings.callers, apps: settings.apps)
            #expect(await Self.code { () async throws(APIError) in try limits.take(1, shop) } == .rateLimited)
            var pushes = CapacityLimits.Use()
            pushes.callers["shop"] = 1
            let one = pushes
            let code = await Self.code { () async throws(APIError) in try await limits.capacity.reserve(one) }
            #expect(code == .quotaExceeded)
            settings.callers[0].pushesPerSecond = 2
            settings.callers[0].capacity = nil
            limits.set(callers: settings.callers, apps: settings.apps)
            try limits.take(1, shop)
            try await limits.capacity.reserve(one)
        }
    }
}
