import NIOHTTP1
import RelayTestSupport
import Synchronization
import Testing

@testable import APNSRelay

/// What needs no token, and what holds for every response.
struct PageRouteTests {
    private static let page = PageFile(path: "/", contentType: "text/html; charset=utf-8", body: "<!doctype html>")

    @Test("Pages, probes, metrics and the description need no token")
    func open() async throws {
        try await RelayServer.run(pages: [Self.page]) { server in
            let expected = [
                "/": ("<!doctype html>", "text/html; charset=utf-8"),
                "/live": ("live", "text/plain; charset=utf-8"), "/ready": ("ready", "text/plain; charset=utf-8"),
                "/metrics": ("metric 1\n", "text/plain; version=0.0.4; charset=utf-8"),
                "/openapi.json": (PageFiles.openAPI(with: []).body, "application/json"),
            ]
            for (path, (text, type)) in expected {
                let received = try await server.send(.GET, path, token: nil)
                #expect(received.status == 200)
                #expect(received.text == text)
                #expect(received.headers["content-type"] == [type])
            }
        }
    }

    @Test("A relay that is not ready says so to everybody, and the reason to operators only")
    func notReady() async throws {
        try await RelayServer.run { server in
            server.status.state.withLock { $0.notReady = "/var/lib/apns-relay/queue.sqlite: the disk is full" }
            let ready = try await server.send(.GET, "/ready", token: nil)
            #expect(ready.status == 503)
            #expect(ready.text == "not ready; the relay's log and /v1/overview say why")
            let overview = try await server.send(.GET, "/v1/overview", token: "ops-token")
            #expect(overview.json["reason"] as? String == "/var/lib/apns-relay/queue.sqlite: the disk is full")
            let live = try await server.send(.GET, "/live", token: nil)
            #expect(live.status == 200)
        }
    }

    @Test("Every response has the headers that protect a browser")
    func headers() async throws {
        try await RelayServer.run(pages: [Self.page]) { server in
            for path in ["/", "/live", "/v1/outcomes", "/nothing"] {
                let headers = try await server.send(.GET, path, token: nil).headers
                #expect(headers["x-content-type-options"] == ["nosniff"])
                #expect(headers["referrer-policy"] == ["no-referrer"])
                let policy = try #require(headers["content-security-policy"].first)
                #expect(policy.contains("default-src 'none'"))
                #expect(policy.contains("frame-ancestors 'none'"))
                #expect(!policy.contains("unsafe"))
            }
            let data = try await server.send(.GET, "/v1/outcomes")
            #expect(data.headers["cache-control"] == ["no-store"])
        }
    }

    @Test("HEAD gets the response of GET, without the body")
    func head() async throws {
        try await RelayServer.run(pages: [Self.page]) { server in
            for (path, status) in [("/", 200), ("/live", 200), ("/v1/outcomes", 401), ("/nothing", 404)] {
                let get = try await server.send(.GET, path, token: nil)
                let head = try await server.send(.HEAD, path, token: nil)
                #expect(head.status == status)
                #expect(head.body.isEmpty)
                #expect(head.headers["content-length"] == get.headers["content-length"])
            }
        }
    }

    @Test(
        "Other methods get 405 with those that are allowed",
        arguments: [
            (HTTPMethod.PUT, "/v1/pushes", "POST, GET, HEAD"),
            (.PATCH, "/v1/pushes/1", "GET, DELETE, HEAD"), (.POST, "/live", "GET, HEAD"),
            (.OPTIONS, "/v1/outcomes", "GET, HEAD"), (.TRACE, "/", "GET, HEAD"),
            (.DELETE, "/v1/overview", "GET, HEAD"), (.DELETE, "/v1/parked/retry", "POST"),
        ]
    )
    func otherMethods(_ method: HTTPMethod, _ path: String, _ allowed: String) async throws {
        try await RelayServer.run(pages: [Self.page]) { server in
            let received = try await server.send(method, path)
            #expect(received.status == 405)
            #expect(received.code == "methodNotAllowed")
            #expect(received.headers["allow"] == [allowed])
        }
    }

    @Test("Two pages with one path are refused")
    func samePath() async throws {
        let live = PageFile(path: "/live", contentType: "text/plain", body: "")
        let error = await #expect(throws: RelayAPIError.self) { try await RelayServer.run(pages: [live]) { _ in } }
        #expect(error?.code == .pageInvalid)
    }
}
