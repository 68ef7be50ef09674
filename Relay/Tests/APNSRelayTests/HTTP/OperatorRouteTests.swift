import APNSModel
import NIOHTTP1
import PushQueue
import PushQueueConformance
import RelayTestSupport
import Synchronization
import Testing

@testable import APNSRelay

/// Feeds, the overview, and decisions about what is parked.
struct OperatorRouteTests {
    @Test("A feed is read page by page with its cursor")
    func feed() async throws {
        try await RelayServer.run { server in
            let empty = try await server.send(.GET, "/v1/outcomes")
            #expect(empty.text == #"{"cursor":null,"end":true,"outcomes":[]}"#)
            var ids: [String] = []
            for _ in 0..<5 {
                let id = try await server.accepted()
                ids.append(id.description)
                try await server.queue.settle(id, .accepted(Receipt(apnsID: id)))
            }
            var read: [String] = []
            var path = "/v1/outcomes?limit=2"
            for _ in 0..<4 {
                let page = try await server.send(.GET, path)
                let outcomes = try #require(page.json["outcomes"] as? [[String: any Sendable]])
                read += outcomes.compactMap { $0["id"] as? String }
                #expect(outcomes.allSatisfy { $0["cursor"] is String })
                #expect(page.json["end"] as? Bool == (outcomes.count < 2))
                let cursor = try #require(page.json["cursor"] as? String)
                path = "/v1/outcomes?limit=2&after=\(cursor)"
            }
            #expect(read == ids)
        }
    }

    @Test("A reader that waits gets outcomes as soon as there are some")
    func wait() async throws {
        try await RelayServer.run { server in
            let id = try await server.accepted()
            let waiting = Task { try await server.send(.GET, "/v1/outcomes?wait=30s") }
            try await Patience.wait(for: "a request waits for news") { server.news.count == 1 }
            try await server.queue.settle(id, .accepted(Receipt(apnsID: id)))
            server.news.signal()
            let page = try await waiting.value
            #expect((page.json["outcomes"] as? [[String: any Sendable]])?.count == 1)
            // There is something to read.
            _ = try await server.send(.GET, "/v1/outcomes?wait=30")
            try await Patience.wait(for: "no request waits for news") { server.news.count == 0 }
            #expect(try await server.send(.GET, "/v1/outcomes?wait=61s").code == "badQuery")
            // The feed is read about once a second while nothing happens.
            let last = try #require(page.json["cursor"] as? String)
            let calls = server.queue.state.withLock { $0.outcomesRead }
            let quiet = try await server.send(.GET, "/v1/outcomes?wait=3s&after=\(last)")
            #expect((quiet.json["outcomes"] as? [any Sendable])?.isEmpty == true)
            #expect((2...6).contains(server.queue.state.withLock { $0.outcomesRead } - calls))
        }
    }

    @Test("A reader that waits gets an empty page when the relay shuts down")
    func waitAtShutdown() async throws {
        try await RelayServer.run { server in
            let waiting = Task { try await server.send(.GET, "/v1/dead-tokens?wait=30s") }
            try await Patience.wait(for: "a request waits for news") { server.news.count == 1 }
            await server.shutDown()
            #expect(try await waiting.value.text == #"{"cursor":null,"end":true,"tokens":[]}"#)
        }
    }

    @Test("A reader that has missed outcomes gets 410 with their positions, and where to go on")
    func missing() async throws {
        try await RelayServer.run { server in
            func settle() async throws {
                let id = try await server.accepted()
                try await server.queue.settle(id, .accepted(Receipt(apnsID: id)))
            }
            try await settle()
            let first = try #require(try await server.send(.GET, "/v1/outcomes").json["cursor"] as? String)
            for _ in 0..<3 { try await settle() }
            server.clock.advance(by: .seconds(10))
            try await settle()
            _ = try await server.queue.prune(Retention(outcomes: .seconds(5)), limit: 100)
            for path in ["/v1/outcomes", "/v1/dead-tokens"] {
                for after in [first, "1"] {
                    let received = try await server.send(.GET, "\(path)?after=\(after)")
                    #expect(received.status == 410 && received.code == "outcomesMissing")
                    let missing = try #require(received.error["missing"] as? [String: any Sendable])
                    #expect(missing["first"] as? Int == 2 && missing["last"] as? Int == 4)
                    let cursor = try #require(missing["cursor"] as? String)
                    #expect(received.text.contains("2 to 4") && received.text.contains("after=\(cursor)"))
                    let next = try await server.send(.GET, "\(path)?after=\(cursor)")
                    #expect(next.status == 200)
                }
                let skipping = try await server.send(.GET, "\(path)?after=\(first)&skipMissing=true")
                #expect(skipping.status == 200)
            }
            for after in ["6", "5-1"] {
                let received = try await server.send(.GET, "/v1/outcomes?after=\(after)")
                #expect(received.status == 410)
                #expect(received.text.contains("restored from a backup"))
            }
            for after in ["", "0"] {
                let received = try await server.send(.GET, "/v1/outcomes\(after.isEmpty ? "" : "?after=0")")
                #expect(received.status == 200)
            }
        }
    }

    @Test("Dead tokens are listed with the time since which they are invalid")
    func deadTokens() async throws {
        try await RelayServer.run { server in
            let id = try await server.accepted()
            let other = try await server.accepted()
            try await server.queue.settle(other, .accepted(Receipt(apnsID: other)))
            let rejection = Rejection(status: 410, reason: .unregistered, timestamp: 1_795_430_000_500)
            try await server.queue.settle(id, .rejected(.rejected(rejection, attempts: 1)))
            let received = try await server.send(.GET, "/v1/dead-tokens")
            let cursor = try #require(received.json["cursor"] as? String)
            #expect(cursor.hasPrefix("2-"))
            let expected =
                #"{"cursor":"\#(cursor)","end":true,"tokens":[{"app":"fern","cursor":"\#(cursor)","environment":"production","pushID":"\#(id)","#
                + #""settledAt":1795440000,"since":1795430000.5,"token":"\#(RelayServer.deviceToken)"}]}"#
            #expect(received.text == expected)
        }
    }

    @Test(
        "Wrong cursors and limits are refused",
        arguments: [
            "outcomes?limit=0", "outcomes?limit=1001", "outcomes?limit=x", "outcomes?limit=", "outcomes?after=-1",
            "outcomes?after=9223372036854775808", "outcomes?after=5-", "outcomes?after=5-x", "outcomes?after=5-1-1",
            "outcomes?before=1", "dead-tokens?limit=%2B5", "parked?after=1",
            "parked?app=fern", "overview?x=1",
        ]
    )
    func badQuery(_ path: String) async throws {
        try await RelayServer.run { server in
            let received = try await server.send(.GET, "/v1/\(path)", token: "ops-token")
            #expect(received.status == 400)
            #expect(received.code == "badQuery")
        }
    }

    @Test("The overview shows the queue, the routes, the totals and the webhooks")
    func overview() async throws {
        try await RelayServer.run { server in
            _ = try await server.accepted()
            let paused = Route(app: "moss", environment: "development", lane: .bulk, caller: "shop")
            server.status.state.withLock { state in
                state.notReady = "the disk is full"
                state.routes = [
                    RouteStatus(route: paused, state: .paused, reason: "credential", pausedUntil: RelayServer.start)
                ]
                state.webhooks = [Self.webhook]
                state.members = ["a", "b"].map { id in
                    FleetMember(
                        id: id,
                        host: "h",
                        process: 7,
                        version: "1",
                        since: RelayServer.start,
                        postsWebhooks: id == "b"
                    )
                }
            }
            let received = try await server.send(.GET, "/v1/overview", token: "ops-token")
            #expect(received.status == 200)
            #expect(received.json["version"] as? String == "1.2.3")
            #expect(received.json["now"] as? Double == 1_795_440_000)
            #expect(received.json["ready"] as? Bool == false)
            #expect(received.json["reason"] as? String == "the disk is full")
            let queue = try #require(received.json["queue"] as? [String: any Sendable])
            #expect(queue["queued"] as? Int == 1)
            #expect(queue["capacity"] as? Int == 100_000)
            #expect(queue["oldestDue"] as? Double == 1_795_440_000)
            let routes = try #require(received.json["routes"] as? [[String: any Sendable]])
            #expect(routes.map { $0["app"] as? String } == ["fern", "moss"])
            #expect(routes.map { $0["state"] as? String } == ["idle", "paused"])
            #expect(routes.map { $0["queued"] as? Int } == [1, 0])
            #expect(routes[1]["pausedUntil"] as? Double == 1_795_440_000)
            #expect(
                received.text.contains(
                    #""callers":[{"available":null,"capacity":null,"name":"ops","pushesPerSecond":null,"unsettled":0},"#
                        + #"{"available":null,"capacity":null,"name":"shop","pushesPerSecond":null,"unsettled":1}]"#
                )
            )
            #expect(
                received.text.contains(
                    #""apps":[{"capacity":null,"name":"fern","pushesPerSecond":null,"unsettled":1},"#
                        + #"{"capacity":null,"name":"moss","pushesPerSecond":null,"unsettled":0}]"#
                )
            )
            let totals = try #require(received.json["totals"] as? [String: any Sendable])
            #expect(totals["queued"] as? Int == 1)
            let webhooks = try #require(received.json["webhooks"] as? [[String: any Sendable]])
            #expect(webhooks.map { $0["lastError"] as? String } == ["503"])
            let relays = try #require(received.json["relays"] as? [[String: any Sendable]])
            #expect(relays.map { $0["id"] as? String } == ["a", "b"])
            #expect(relays.map { $0["isSelf"] as? Bool } == [true, false])
            #expect(relays.map { $0["postsWebhooks"] as? Bool } == [false, true])
            #expect(relays.map { $0["since"] as? Double } == [1_795_440_000, 1_795_440_000])
            #expect(received.text.contains(#""request":{"id":"w-1","outcomes":3,"since":1795440000}"#))
        }
    }

    private static let webhook = WebhookStatus(
        name: "audit log",
        url: "https://example.com/hook",
        position: 7,
        failures: 2,
        lastError: "503",
        nextAttempt: nil,
        request: .init(id: "w-1", outcomes: 3, since: RelayServer.start, oldestOutcome: RelayServer.start)
    )

    @Test("Parked pushes are listed, queued again or dropped")
    func parked() async throws {
        try await RelayServer.run { server in
            var ids: [APNSID] = []
            for _ in 0..<3 {
                let id = try await server.accepted()
                try await server.queue.park(id)
                ids.append(id)
            }
            let page = try await server.send(.GET, "/v1/parked?limit=2", token: "ops-token")
            let pushes = try #require(page.json["pushes"] as? [[String: any Sendable]])
            #expect(pushes.compactMap { $0["id"] as? String } == ids.prefix(2).map(\.description))
            #expect(page.json["next"] as? String == ids[1].description)
            let last = try await server.send(.GET, "/v1/parked?limit=2&after=\(ids[1])", token: "ops-token")
            #expect((last.json["pushes"] as? [any Sendable])?.count == 1)
            #expect(last.text.contains(#""next":null"#))

            server.status.state.withLock { $0.signals = 0 }
            let retried = try await server.send(.POST, "/v1/parked/\(ids[0])/retry", token: "ops-token")
            #expect(retried.text == #"{"id":"\#(ids[0])","state":"queued"}"#)
            #expect(server.status.state.withLock { $0.signals } == 1)
            let dropped = try await server.send(.DELETE, "/v1/parked/\(ids[1])", token: "ops-token")
            #expect(dropped.text == #"{"id":"\#(ids[1])","state":"settled"}"#)
            for path in ["\(ids[0])/retry", "x/retry"] {
                let again = try await server.send(.POST, "/v1/parked/\(path)", token: "ops-token")
                #expect(again.status == 404)
            }
        }
    }

    @Test("While the queue does not respond, the overview answers from memory, and says why the relay is not ready")
    func overviewFromMemory() async throws {
        try await RelayServer.run { server in
            _ = try await server.accepted()
            let first = try await server.send(.GET, "/v1/overview", token: "ops-token")
            #expect(first.json["ready"] as? Bool == true)
            server.clock.advance(by: .seconds(60))
            let (releases, release) = AsyncStream.makeStream(of: Never.self)
            server.queue.state.withLock { $0.beforeCall = { for await _ in releases {} } }
            server.status.state.withLock { state in
                state.problems = [
                    DeliveryProblem(cause: .storage, apps: [], message: "it does not respond", since: RelayServer.start)
                ]
            }
            let received = try await server.send(.GET, "/v1/overview", token: "ops-token")
            #expect(received.status == 200)
            #expect(received.json["ready"] as? Bool == false)
            #expect(received.json["reason"] as? String == "it does not respond")
            #expect(received.json["readAt"] as? Double == RelayServer.start.seconds)
            let queue = try #require(received.json["queue"] as? [String: any Sendable])
            #expect(queue["queued"] as? Int == 1)
            let problem = try #require((received.json["problems"] as? [[String: any Sendable]])?.first)
            #expect(problem["waiting"] as? Int == 1)
            #expect((problem["remedy"] as? String)?.isEmpty == false)
            release.finish()
        }
    }

    @Test("All parked pushes of an app, or those with a reason, are queued again or dropped in one request")
    func allParked() async throws {
        try await RelayServer.run { server in
            try await server.queue.park(try await server.accepted())
            let dropped = try await server.send(.DELETE, "/v1/parked?app=fern", token: "ops-token")
            #expect(dropped.text == #"{"pushes":1,"state":"settled"}"#)
            for _ in 0..<600 { try await server.queue.park(try await server.accepted()) }
            for path in ["/v1/parked", "/v1/parked?reason=refused", "/v1/parked?app=fern&id=1"] {
                let received = try await server.send(.DELETE, path, token: "ops-token")
                #expect(received.status == 400 && received.code == "badQuery")
            }
            let refused = try await server.send(.POST, "/v1/parked/retry?app=fern")
            #expect(refused.status == 403)
            for query in ["app=moss", "app=", "app=fern&reason=BadTopic", "app=moss&reason=refused"] {
                let received = try await server.send(.POST, "/v1/parked/retry?\(query)", token: "ops-token")
                #expect(received.text == #"{"pushes":0,"state":"queued"}"#)
            }
            server.status.state.withLock { $0.signals = 0 }
            let retried = try await server.send(.POST, "/v1/parked/retry?app=fern&reason=refused", token: "ops-token")
            #expect(retried.text == #"{"pushes":600,"state":"queued"}"#)
            #expect(server.status.state.withLock { $0.signals } == 1)
            let counts = try await server.queue.counts()
            #expect(counts.queued == 600 && counts.parked == 0)
        }
    }

    @Test("Parked pushes are counted by app and reason, and each reason selects the pushes of its group")
    func parkedGroups() async throws {
        try await RelayServer.run { server in
            let empty = try await server.send(.GET, "/v1/parked/groups", token: "ops-token")
            #expect(empty.text == #"{"complete":true,"groups":[]}"#)
            func park(_ count: Int, app: String = "fern", _ outcome: PushOutcome? = nil) async throws {
                for _ in 0..<count {
                    let id = try await server.accepted(RelayServer.push(app: app), token: "ops-token")
                    try await server.queue.park(id, outcome)
                }
            }
            func rejected(_ reason: RejectionReason?) -> PushOutcome {
                .rejected(.rejected(Rejection(status: 403, reason: reason), attempts: 1))
            }
            // More than one call of the queue returns.
            try await park(501, rejected(.badTopic))
            server.clock.advance(by: .seconds(60))
            try await park(2, rejected(nil))
            try await park(3, app: "moss")
            try await park(1, rejected(.badTopic))
            let counted = try await server.send(.GET, "/v1/parked/groups", token: "ops-token")
            #expect(
                counted.text == """
                    {"complete":true,"groups":[\
                    {"app":"fern","oldest":1795440000,"pushes":502,"reason":"BadTopic"},\
                    {"app":"fern","oldest":1795440060,"pushes":2,"reason":"rejected"},\
                    {"app":"moss","oldest":1795440060,"pushes":3,"reason":"refused"}]}
                    """
            )
            // Pushes with a reason of APNs have the code `rejected`, too.
            let dropped = try await server.send(.DELETE, "/v1/parked?app=fern&reason=rejected", token: "ops-token")
            #expect(dropped.text == #"{"pushes":2,"state":"settled"}"#)
            #expect(try await server.queue.counts().parked == 505)
            let refused = try await server.send(.GET, "/v1/parked/groups?app=fern", token: "ops-token")
            #expect(refused.status == 400)
        }
    }

    @Test("A clock that has jumped is confirmed once")
    func clock() async throws {
        try await RelayServer.run { server in
            server.status.state.withLock { $0.clockJump = .seconds(172_800) }
            let overview = try await server.send(.GET, "/v1/overview", token: "ops-token")
            #expect(overview.json["clockAhead"] as? Double == 172_800)
            let refused = try await server.send(.POST, "/v1/clock/confirm")
            #expect(refused.status == 403)
            let confirmed = try await server.send(.POST, "/v1/clock/confirm", token: "ops-token")
            #expect(confirmed.status == 200 && confirmed.json["now"] is Double)
            let again = try await server.send(.POST, "/v1/clock/confirm", token: "ops-token")
            #expect(again.status == 409 && again.code == "conflict")
        }
    }

    @Test("The current request to a webhook is skipped, and no other one")
    func webhooks() async throws {
        try await RelayServer.run { server in
            server.status.state.withLock { $0.webhooks = [Self.webhook] }
            let path = "/v1/webhooks/audit%20log/requests"
            let other = try await server.send(.POST, "\(path)/w-2/skip", token: "ops-token")
            #expect(other.status == 404)
            let received = try await server.send(.POST, "\(path)/w-1/skip", token: "ops-token")
            #expect(received.status == 200)
            #expect(received.text == #"{"id":"w-1","outcomes":3}"#)
            let again = try await server.send(.POST, "\(path)/w-1/skip", token: "ops-token")
            #expect(again.status == 404)
        }
    }
}
