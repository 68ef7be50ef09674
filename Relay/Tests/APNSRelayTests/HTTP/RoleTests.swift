import APNSModel
import NIOHTTP1
import PushQueue
import PushQueueConformance
import RelayTestSupport
import Testing

@testable import APNSRelay

/// What each role lets a caller do.
struct RoleTests {
    /// Settings with a caller for each element. Its token is its name and `-token`.
    private static func settings(_ callers: KeyValuePairs<String, Set<Role>>) -> RelaySettings {
        RelayServer.settings { settings in
            settings.callers = callers.map { name, roles in
                Caller(name: name, tokenDigests: [RelayServer.digest("\(name)-token")], roles: roles)
            }
        }
    }

    private static let id = APNSID.random()

    /// A request to each endpoint that needs a role, and the roles that the endpoint names.
    private static let requests: [(method: HTTPMethod, path: String, roles: [Role])] = [
        (.POST, "/v1/pushes", [.send]), (.GET, "/v1/pushes", [.read, .readAll]), (.POST, "/v1/batches", [.send]),
        (.GET, "/v1/batches", [.read, .readAll]), (.GET, "/v1/batches/\(Self.id)", [.read, .readAll]),
        (.PATCH, "/v1/batches/\(Self.id)", [.cancel, .cancelAll]),
        (.DELETE, "/v1/batches/\(Self.id)", [.cancel, .cancelAll]), (.GET, "/v1/pushes/\(Self.id)", [.read, .readAll]),
        (.DELETE, "/v1/pushes/\(Self.id)", [.cancel, .cancelAll]), (.GET, "/v1/outcomes", [.read, .readAll]),
        (.GET, "/v1/dead-tokens", [.read, .readAll]), (.GET, "/v1/overview", [.operate]),
        (.POST, "/v1/clock/confirm", [.operate]), (.GET, "/v1/parked", [.operate]),
        (.GET, "/v1/parked/groups", [.operate]), (.POST, "/v1/parked/retry", [.operate]),
        (.DELETE, "/v1/parked", [.operate]),
        (.POST, "/v1/parked/\(Self.id)/retry", [.operate]), (.DELETE, "/v1/parked/\(Self.id)", [.operate]),
        (.POST, "/v1/webhooks/crm/requests/1/skip", [.operate]),
        (.GET, "/v1/settings", [.operate]), (.PUT, "/v1/settings", [.operate]), (.POST, "/v1/reload", [.operate]),
    ]

    @Test("An endpoint refuses a caller without its role, and names the role")
    func endpoints() async throws {
        let settings = RelayServer.settings { settings in
            settings.callers = Role.allCases.map { role in
                Caller(name: role.rawValue, tokenDigests: [RelayServer.digest("\(role)-token")], roles: [role])
            }
        }
        try await RelayServer.run(settings) { server in
            #expect(server.api.routes.count { $0.access.needsRole } == Self.requests.count)
            for (method, path, roles) in Self.requests {
                for role in Role.allCases {
                    let received = try await server.send(method, path, token: "\(role)-token")
                    let isAllowed = role == .operate || roles.contains(role)
                    #expect((received.status != 403) == isAllowed, "\(role): \(method) \(path): \(received.text)")
                    if !isAllowed {
                        #expect(received.code == "forbidden")
                        let names = roles.map(\.rawValue).joined(separator: " or ")
                        #expect(
                            received.error["message"] as? String
                                == "The caller \(role) needs the role \(names) for this."
                        )
                    }
                }
            }
        }
    }

    @Test("A caller reads and changes the batches of other callers only with the role for all")
    func batchesOfOthers() async throws {
        let settings = Self.settings([
            "shop": Role.standard, "news": Role.standard, "reader": [.readAll, .cancel],
            "canceller": [.read, .cancelAll],
        ])
        try await RelayServer.run(settings) { server in
            let body = """
                {"app":"fern","headers":{"apns-push-type":"alert"},"payload":{"aps":{"alert":"Hi"}},"tokens":["ab"]}
                """
            let submitted = try await server.send(.POST, "/v1/batches", body: body)
            let batch = try #require(submitted.json["batch"] as? [String: any Sendable])
            let path = "/v1/batches/\(try #require(batch["id"] as? String))"
            for (caller, read, change) in [
                ("shop", 200, 200), ("news", 404, 404), ("reader", 200, 404), ("canceller", 404, 200),
            ] {
                let token = "\(caller)-token"
                #expect(try await server.send(.GET, path, token: token).status == read, "\(caller)")
                let list = try await server.send(.GET, "/v1/batches", token: token).json["batches"] as? [any Sendable]
                #expect(list?.count == (read == 200 ? 1 : 0), "\(caller)")
                let changed = try await server.send(.PATCH, path, token: token, body: #"{"paused":true}"#)
                #expect(changed.status == change, "\(caller)")
            }
        }
    }

    @Test("A caller reads and cancels the pushes of other callers only with the role for all")
    func pushesOfOthers() async throws {
        let settings = Self.settings([
            "shop": Role.standard, "news": Role.standard, "reader": [.readAll, .cancel],
            "canceller": [.read, .cancelAll],
            "crew": [.operate],
        ])
        try await RelayServer.run(settings) { server in
            func status(_ method: HTTPMethod, _ id: APNSID, _ caller: String) async throws -> Int {
                try await server.send(method, "/v1/pushes/\(id)", token: "\(caller)-token").status
            }
            let id = try await server.accepted(token: "shop-token")
            for (caller, expected) in [
                ("shop", 200), ("news", 404), ("reader", 200), ("canceller", 404), ("crew", 200),
            ] {
                #expect(try await status(.GET, id, caller) == expected, "\(caller)")
            }
            // The one who cannot read the push learns nothing about it, and the other one which role is missing.
            #expect(try await status(.DELETE, id, "news") == 404)
            let refused = try await server.send(.DELETE, "/v1/pushes/\(id)", token: "reader-token")
            #expect(refused.status == 403)
            #expect(refused.error["message"] as? String == "The caller reader needs the role cancelAll for this.")
            #expect(try await server.queue.status(of: id)?.state == .queued)

            for caller in ["shop", "canceller", "crew"] {
                let id = try await server.accepted(token: "shop-token")
                #expect(try await status(.DELETE, id, caller) == 200, "\(caller)")
                #expect(try await server.queue.status(of: id)?.state == .settled)
            }
        }
    }

    @Test("A role for all callers' pushes covers only the apps of its caller")
    func apps() async throws {
        var settings = Self.settings(["shop": Role.standard, "auditor": [.readAll, .cancelAll], "crew": [.operate]])
        settings.callers[1].apps = ["moss"]
        settings.callers[2].apps = ["moss"]
        try await RelayServer.run(settings) { [settings] server in
            let fern = try await server.accepted(token: "shop-token")
            let moss = try await server.accepted(RelayServer.push(app: "moss"), token: "shop-token")
            for caller in settings.callers.dropFirst().map(\.name) {
                for method in [HTTPMethod.GET, .DELETE] {
                    let refused = try await server.send(method, "/v1/pushes/\(fern)", token: "\(caller)-token")
                    #expect(refused.status == 404, "\(caller)")
                }
                let received = try await server.send(.GET, "/v1/pushes/\(moss)", token: "\(caller)-token")
                #expect(received.status == 200, "\(caller)")
            }
        }
    }

    @Test("The pages of a feed leave out what a caller may not read, and the cursor moves on")
    func feeds() async throws {
        let settings = Self.settings(["shop": Role.standard, "news": Role.standard, "reader": [.readAll]])
        try await RelayServer.run(settings) { server in
            var ids: [String: [String]] = [:]
            // Two pages of two with pushes of news only, in the middle.
            for caller in ["shop", "news", "news", "news", "news", "news", "shop"] {
                let id = try await server.accepted(token: "\(caller)-token")
                let rejection = Rejection(status: 410, reason: .unregistered, timestamp: 1_795_430_000_123, apnsID: id)
                try await server.queue.settle(id, .rejected(.rejected(rejection, attempts: 1)))
                ids[caller, default: []].append(id.description)
                ids["reader", default: []].append(id.description)
            }
            for (path, list, member) in [("outcomes", "outcomes", "id"), ("dead-tokens", "tokens", "pushID")] {
                for (caller, expected) in ids {
                    var (found, sizes): ([String], [Int]) = ([], [])
                    var cursor: String?
                    while sizes.count < 10 {
                        let query = "limit=2" + (cursor.map { "&after=\($0)" } ?? "")
                        let page = try await server.send(.GET, "/v1/\(path)?\(query)", token: "\(caller)-token")
                        let entries = try #require(page.json[list] as? [[String: any Sendable]])
                        found += entries.compactMap { $0[member] as? String }
                        sizes.append(entries.count)
                        let next = page.json["cursor"] as? String
                        if next == cursor { break }
                        cursor = next
                    }
                    #expect(found == expected, "\(path) of \(caller)")
                    if caller == "shop" { #expect(sizes == [1, 0, 0, 1, 0], "\(path)") }
                }
            }
        }
    }
}

extension APIRoute.Access {
    fileprivate var needsRole: Bool { if case .oneOf = self { true } else { false } }
}
