import APNSModel
import NIOHTTP1
import PushQueue
import RelayTestSupport
import Synchronization
import Testing

@testable import APNSRelay

/// Who may do what.
struct AccessTests {
    private static let callerPaths = [
        "/v1/outcomes", "/v1/dead-tokens", "/v1/pushes/0190a5c4-1d8a-7b3e-8f00-112233445566",
    ]
    private static let operatorPaths = ["/v1/overview", "/v1/parked"]

    @Test(
        "Without a valid token there is no access",
        arguments: [
            [], [("authorization", "Bearer wrong")], [("authorization", "Bearer ")], [("authorization", "shop-token")],
            [("authorization", "Basic c2hvcC10b2tlbg==")],
            [("authorization", "Bearer shop-token"), ("authorization", "Bearer shop-token")],
        ] as [[(String, String)]]
    )
    func unauthorized(_ headers: [(String, String)]) async throws {
        try await RelayServer.run { server in
            for path in Self.callerPaths + Self.operatorPaths {
                let received = try await server.send(.GET, path, token: nil, headers: .init(headers))
                #expect(received.status == 401)
                #expect(received.code == "unauthorized")
                #expect(received.headers["www-authenticate"] == ["Bearer"])
                #expect(!received.text.contains("wrong"))
            }
        }
    }

    @Test("Both tokens of a caller are accepted, and name the same caller")
    func twoTokens() async throws {
        let settings = RelayServer.settings { $0.callers[0].tokenDigests.append(RelayServer.digest("next-token")) }
        try await RelayServer.run(settings) { server in
            let id = try await server.accepted(token: "next-token")
            for token in ["shop-token", "next-token"] {
                let received = try await server.send(.GET, "/v1/pushes/\(id)", token: token)
                #expect(received.json["caller"] as? String == "shop", "\(token)")
            }
            let other = try await server.send(.GET, "/v1/pushes/\(id)", token: "next-token2")
            #expect(other.status == 401)
        }
    }

    @Test("The scheme of the token may be written in any case")
    func scheme() async throws {
        try await RelayServer.run { server in
            let headers: HTTPHeaders = ["authorization": "bEARER shop-token"]
            let received = try await server.send(.GET, "/v1/outcomes", token: nil, headers: headers)
            #expect(received.status == 200)
        }
    }

    @Test("Only operators see the overview and decide about what is parked")
    func operators() async throws {
        try await RelayServer.run { server in
            let id = APNSID.random()
            let requests: [(HTTPMethod, String, Int)] = [
                (.GET, "/v1/overview", 200), (.GET, "/v1/parked", 200), (.POST, "/v1/parked/\(id)/retry", 404),
                (.DELETE, "/v1/parked/\(id)", 404), (.POST, "/v1/webhooks/a/requests/1/skip", 404),
            ]
            for (method, path, status) in requests {
                let refused = try await server.send(method, path)
                #expect(refused.status == 403)
                #expect(refused.code == "forbidden")
                let received = try await server.send(method, path, token: "ops-token")
                #expect(received.status == status)
            }
        }
    }

    @Test("A caller reads only about its apps")
    func apps() async throws {
        try await RelayServer.run { server in
            for (app, token) in [("fern", "shop-token"), ("moss", "ops-token")] {
                let id = try await server.accepted(RelayServer.push(app: app), token: token)
                try await server.queue.settle(id, .accepted(Receipt(apnsID: id)))
            }
            let own = try await server.send(.GET, "/v1/outcomes")
            #expect((own.json["outcomes"] as? [[String: any Sendable]])?.map { $0["app"] as? String } == ["fern"])
            let named = try await server.send(.GET, "/v1/outcomes?app=fern")
            #expect(named.text == own.text)
            for path in ["/v1/outcomes?app=moss", "/v1/dead-tokens?app=moss", "/v1/outcomes?app="] {
                let received = try await server.send(.GET, path)
                #expect(received.status == 403)
            }
            let all = try await server.send(.GET, "/v1/outcomes", token: "ops-token")
            #expect((all.json["outcomes"] as? [any Sendable])?.count == 2)
        }
    }

    @Test("The rate is checked, a large request passes, and the next ones wait")
    func rate() async throws {
        let settings = RelayServer.settings { $0.callers[0].pushesPerSecond = 2 }
        try await RelayServer.run(settings) { server in
            let many = Array(repeating: RelayServer.push(), count: 50)
            let first = try await server.post(many)
            #expect(first.status == 202)
            let refused = try await server.post([RelayServer.push()])
            #expect(refused.status == 429)
            #expect(refused.code == "rateLimited")
            // 50 pushes from a bucket of 20 leave -30, so one push is in it after 15.5 s.
            #expect(refused.headers["retry-after"] == ["16"])
            let other = try await server.post([RelayServer.push()], token: "ops-token")
            #expect(other.status == 202)
            server.clock.advance(by: .seconds(16))
            let later = try await server.post([RelayServer.push()])
            #expect(later.status == 202)
            let reading = try await server.send(.GET, "/v1/outcomes")
            #expect(reading.status == 200)
        }
    }

    // MARK: Without callers

    @Test("Without callers everybody is an operator and needs no token")
    func open() async throws {
        try await RelayServer.run(RelayServer.settings { $0.callers = [] }) { server in
            for path in ["/v1/overview", "/v1/outcomes", "/"] {
                let received = try await server.send(.GET, path, token: nil)
                #expect(received.status == (path == "/" ? 404 : 200))
            }
            let id = try await server.accepted()
            let status = try await server.send(.GET, "/v1/pushes/\(id)", token: nil)
            #expect(status.json["caller"] as? String == "local")
        }
    }

    @Test(
        "Without callers, requests that a page of another site may have caused are refused",
        arguments: [
            ("host", "evil.example"), ("host", "127.0.0.1.evil.example"), ("host", "localhost.evil.example:80"),
            ("origin", "https://evil.example"), ("origin", "null"), ("origin", "http://localhost:1"),
            ("sec-fetch-site", "cross-site"), ("sec-fetch-site", "same-site"),
        ]
    )
    func otherSites(_ name: String, _ value: String) async throws {
        try await RelayServer.run(RelayServer.settings { $0.callers = [] }) { server in
            let received = try await server.send(
                .POST,
                "/v1/pushes",
                token: nil,
                headers: [name: value],
                body: RelayServer.push()
            )
            #expect(received.status == 403)
            #expect(received.code == "forbidden")
            #expect(server.queue.state.withLock { $0.pushes.isEmpty })
        }
    }

    @Test("Without callers, the server's own page may send requests")
    func ownPage() async throws {
        try await RelayServer.run(RelayServer.settings { $0.callers = [] }) { server in
            for name in ["localhost", "127.0.0.1", "[::1]"] {
                let received = try await server.send(
                    .POST,
                    "/v1/pushes",
                    token: nil,
                    headers: [
                        "host": "\(name):\(server.port)", "origin": "http://\(name):\(server.port)",
                        "sec-fetch-site": "same-origin",
                    ],
                    body: RelayServer.push()
                )
                #expect(received.status == 202)
            }
        }
    }

    @Test(
        "The names of loopback addresses are recognised",
        arguments: [
            ("localhost", true), ("localhost:8027", true), ("127.0.0.1", true), ("127.1.2.3:80", true), ("[::1]", true),
            ("[::1]:80", true), ("", false), (":80", false), ("::1", false), ("128.0.0.1", false),
            ("127.0.0.256", false),
            ("127.0.0", false), ("127.0.0.1.", false), ("127.0.0.+1", false), ("localhost:80:80", false),
            ("localhost:x", false), ("evil.localhost", false), ("[::1]x", false),
        ]
    )
    func loopback(_ name: String, _ expected: Bool) {
        #expect(OriginGuard.isLoopback(name) == expected)
    }

    @Test("Without callers, the server does not listen beyond the machine", arguments: ["0.0.0.0", "::", "10.0.0.1"])
    func openServer(_ host: String) async throws {
        let settings = RelayServer.settings {
            $0.callers = []
            $0.http.host = host
        }
        let error = await #expect(throws: RelayAPIError.self) { try await RelayServer.run(settings) { _ in } }
        #expect(error?.code == .callersMissing)
        #expect(error?.message.contains(host) == true)
    }
}
