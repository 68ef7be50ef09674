import APNSModel
import Foundation
import NIOHTTP1
import PushQueue
import PushQueueConformance
import RelayTestSupport
import Synchronization
import Testing

@testable import APNSRelay

struct PushRouteTests {
    private static let push = RelayServer.push()

    @Test("One push is stored, and the response names its id")
    func onePush() async throws {
        try await RelayServer.run { server in
            let received = try await server.post([Self.push])
            #expect(received.status == 202)
            #expect(received.headers["content-type"] == ["application/json"])
            let stored = try #require(server.queue.state.withLock { $0.pushes }.first)
            #expect(
                received.text == #"{"queued":1,"duplicates":0,"pushes":[{"line":1,"id":"\#(stored.id)"}],"errors":[]}"#
            )
            #expect(stored.route.caller == "shop")
            #expect(stored.route.lane == .interactive)
            #expect(server.status.state.withLock { $0.signals } > 0)
            #expect(server.status.totals.queued == 1)
        }
    }

    @Test("A push is found by its key, and has the metadata that its caller gave it")
    func correlation() async throws {
        try await RelayServer.run { server in
            // It comes back byte for byte: members in this order, escape sequences, blanks, and numbers that no type can hold.
            let metadata =
                #"{"z":1e400, "a":[1.0,2.50,"\u0000\/",true,null],"n":12345678901234567890123456789012345678901,"a":-0}"#
            let id = try await server.accepted(
                RelayServer.push(#","idempotencyKey":"order 1","metadata":\#(metadata)"#)
            )
            let bare = try await server.accepted()
            let found = try await server.send(.GET, "/v1/pushes?idempotencyKey=order%201")
            #expect(found.text.contains(#""id":"\#(id)""#) && found.text.contains(#""idempotencyKey":"order 1""#))
            #expect(found.text.contains(#""metadata":\#(metadata)"#), "\(found.text)")
            #expect(try await server.send(.DELETE, "/v1/pushes/\(id)").status == 200)
            let feed = try await server.send(.GET, "/v1/outcomes")
            #expect(feed.text.contains(#""metadata":\#(metadata)"#), "\(feed.text)")
            let page = try await server.queue.outcomes(after: nil, apps: nil, kind: .outcomes, limit: 10)
            let webhook = try String(decoding: WebhookRequest(page.entries).body, as: UTF8.self)
            #expect(webhook.contains(#""metadata":\#(metadata)"#), "\(webhook)")
            let other = try await server.send(.GET, "/v1/pushes/\(bare)")
            #expect(other.text.contains(#""idempotencyKey":null"#) && other.text.contains(#""metadata":null"#))
            let unknown = try await server.send(.GET, "/v1/pushes?idempotencyKey=order-2")
            #expect(unknown.status == 404)
            // Keys of different callers are independent.
            let stranger = try await server.send(.GET, "/v1/pushes?idempotencyKey=order%201", token: "ops-token")
            #expect(stranger.status == 404)
            #expect(try await server.send(.GET, "/v1/pushes").code == "badQuery")
        }
    }

    @Test("Each line of NDJSON is a push in the bulk lane")
    func lines() async throws {
        try await RelayServer.run { server in
            let received = try await server.post([Self.push, "", Self.push])
            #expect(received.status == 202)
            let pushes = server.queue.state.withLock { $0.pushes }
            #expect(pushes.map(\.route.lane) == [.bulk, .bulk])
            #expect(received.text.contains(#"{"line":3,"id":"\#(pushes[1].id)"}"#))
        }
    }

    @Test("Without partial, the first wrong push is reported and nothing is stored")
    func allOrNothing() async throws {
        try await RelayServer.run { server in
            let received = try await server.post([Self.push, #"{"app":"fern","token":"x"}"#, "x"])
            #expect(received.status == 400)
            #expect(received.code == "invalidPush")
            #expect(received.error["line"] as? Int == 2)
            #expect(received.error["field"] as? String == "headers")
            #expect(server.queue.state.withLock { $0.pushes.isEmpty })
        }
    }

    @Test("With partial, the other pushes are stored and every wrong one is reported")
    func partial() async throws {
        try await RelayServer.run { server in
            let received = try await server.post(["x", Self.push, #"{"app":"moss"}"#, Self.push], partial: true)
            #expect(received.status == 202)
            #expect(received.json["queued"] as? Int == 2)
            let errors = try #require(received.json["errors"] as? [[String: any Sendable]])
            #expect(errors.map { $0["line"] as? Int } == [1, 3])
            #expect(errors.map { $0["code"] as? String } == ["badJSON", "forbidden"])
        }
    }

    @Test("One push is stored or refused, also with partial", arguments: ["x", #"{"app":"fern"}"#])
    func partialOfOne(_ push: String) async throws {
        try await RelayServer.run { server in
            let received = try await server.post([push], partial: true)
            #expect(received.status == 400)
            let good = try await server.post([Self.push], partial: true)
            #expect(good.status == 202)
        }
    }

    @Test("A push that is submitted again is a duplicate, and another one with its key a conflict")
    func idempotency() async throws {
        try await RelayServer.run { server in
            let keyed = RelayServer.push(#","idempotencyKey":"k""#)
            let id = try await server.accepted(keyed)
            let again = try await server.post([keyed])
            #expect(again.text.contains(#""pushes":[{"line":1,"id":"\#(id)","duplicate":true,"state":"queued"}]"#))
            let other = RelayServer.push(#","idempotencyKey":"k","lane":"bulk""#)
            let conflict = try await server.post([Self.push, other])
            #expect(conflict.status == 409)
            #expect(conflict.code == "conflict")
            #expect(conflict.error["line"] as? Int == 2)
            #expect(conflict.error["field"] as? String == "idempotencyKey")
            let partial = try await server.post([Self.push, other, "x"], partial: true)
            let errors = try #require(partial.json["errors"] as? [[String: any Sendable]])
            #expect(errors.map { $0["code"] as? String } == ["conflict", "badJSON"])
            #expect(server.queue.state.withLock { $0.pushes.count } == 2)
            #expect(conflict.text.contains("byte for byte"))
            #expect(server.status.totals.duplicates == 1)
        }
    }

    @Test("The header Idempotency-Key is the key of a push", arguments: ["order 17", #""order 17""#])
    func keyInHeader(_ header: String) async throws {
        try await RelayServer.run { server in
            func post(_ push: String, _ headers: [String]) async throws -> TestHTTPClient.Response {
                let fields = HTTPHeaders(
                    headers.map { ("Idempotency-Key", $0) } + [("content-type", "application/json")]
                )
                return try await server.send(.POST, "/v1/pushes", headers: fields, body: push)
            }
            #expect(try await post(Self.push, [header]).json["queued"] as? Int == 1)
            #expect(try await post(Self.push, [header]).json["duplicates"] as? Int == 1)
            #expect(try await post(RelayServer.push(#","idempotencyKey":"order 17""#), [header]).status == 202)
            #expect(server.queue.state.withLock { $0.pushes.count } == 1)
            #expect(try await server.send(.GET, "/v1/pushes?idempotencyKey=order%2017").status == 200)
            #expect(try await post(RelayServer.push(#","lane":"bulk""#), [header]).code == "conflict")
            let differs = try await post(RelayServer.push(#","idempotencyKey":"order 18""#), [header])
            #expect(differs.status == 400 && differs.error["field"] as? String == "idempotencyKey")
            for wrong in [[""], [header, header], [String(repeating: "k", count: 129)], ["a\tb"], ["\"\""]] {
                let received = try await post(Self.push, wrong)
                #expect(received.status == 400 && received.error["field"] as? String == "Idempotency-Key", "\(wrong)")
            }
            #expect(server.queue.state.withLock { $0.pushes.count } == 1)
        }
    }

    @Test("With the header Idempotency-Key, each line without a key has one of its own")
    func keyInHeaderOfLines() async throws {
        try await RelayServer.run { server in
            let fields = HTTPHeaders([("idempotency-key", "job-7"), ("content-type", "application/x-ndjson")])
            func post(_ lines: [String]) async throws -> TestHTTPClient.Response {
                try await server.send(.POST, "/v1/pushes", headers: fields, body: lines.joined(separator: "\n"))
            }
            let lines = [Self.push, RelayServer.push(#","idempotencyKey":"own""#), "", Self.push]
            #expect(try await post(lines).json["queued"] as? Int == 3)
            let keys = server.queue.state.withLock { $0.pushes.map { $0.idempotency?.key } }
            #expect(keys == ["job-7/1", "own", "job-7/4"])
            #expect(try await post(lines).json["duplicates"] as? Int == 3)
            let changed = try await post([Self.push, Self.push, "", RelayServer.push(#","lane":"interactive""#)])
            #expect(changed.status == 409 && changed.error["line"] as? Int == 4)
        }
    }

    @Test("A push that is submitted again after it was cancelled is not sent, and the response says so")
    func cancelledKey() async throws {
        try await RelayServer.run { server in
            let keyed = RelayServer.push(#","idempotencyKey":"k""#)
            let id = try await server.accepted(keyed)
            #expect(try await server.send(.DELETE, "/v1/pushes/\(id)").status == 200)
            let again = try await server.post([Self.push, keyed])
            #expect(
                again.text.contains(
                    #"{"line":2,"id":"\#(id)","duplicate":true,"state":"settled","outcome":"not-sent","code":"cancelled"}"#
                ),
                "\(again.text)"
            )
        }
    }

    @Test(
        "A queue that cannot store leads to 503",
        arguments: [
            (QueueError.Code.full, "queueFull"), (.unavailable, "unavailable"), (.undecided, "undecided"),
            (.unusable, "unavailable"),
            (.closed, "shuttingDown"),
        ]
    )
    func queueErrors(_ code: QueueError.Code, _ expected: String) async throws {
        try await RelayServer.run { server in
            server.queue.state.withLock { $0.error = QueueError(code: code, message: "/secret/path") }
            let id = APNSID.random()
            for received in [
                try await server.post([Self.push]),
                try await server.send(.GET, "/v1/pushes/\(id)"), try await server.send(.DELETE, "/v1/pushes/\(id)"),
                try await server.send(.GET, "/v1/outcomes"),
                try await server.send(.GET, "/v1/parked", token: "ops-token"),
            ] {
                #expect(received.status == 503)
                #expect(received.code == expected)
                #expect(received.headers["retry-after"].first.flatMap { Int($0) } != nil)
                #expect(!received.text.contains("secret"))
            }
        }
    }

    @Test(
        "Other content types, character sets and encodings are refused",
        arguments: [
            ["content-type": "text/plain"], ["content-type": "application/json; charset=latin1"],
            ["content-type": "application/json", "content-encoding": "gzip"], ["content-type": ""],
        ] as [[String: String]]
    )
    func contentType(_ headers: [String: String]) async throws {
        try await RelayServer.run { server in
            let received = try await server.send(
                .POST,
                "/v1/pushes",
                headers: .init(headers.map { ($0.key, $0.value) }),
                body: Self.push
            )
            #expect(received.status == 415)
            #expect(received.code == "unsupportedMediaType")
        }
    }

    @Test(
        "Parameters of the content type are read",
        arguments: ["application/json; charset=\"UTF-8\"", "Application/JSON"]
    )
    func contentTypeParameters(_ type: String) async throws {
        try await RelayServer.run { server in
            let received = try await server.send(.POST, "/v1/pushes", headers: ["content-type": type], body: Self.push)
            #expect(received.status == 202)
        }
    }

    @Test("An empty body is refused", arguments: ["application/json", "application/x-ndjson"])
    func empty(_ type: String) async throws {
        try await RelayServer.run { server in
            let received = try await server.send(.POST, "/v1/pushes", headers: ["content-type": type], body: "")
            #expect(received.status == 400)
            #expect(received.code == "badJSON")
        }
    }

    @Test("More than 100,000 pushes in one request are refused")
    func tooManyPushes() async throws {
        try await RelayServer.run { server in
            let received = try await server.post(Array(repeating: "x", count: 100_001), partial: true)
            #expect(received.status == 413)
            #expect(received.code == "tooManyPushes")
        }
    }

    @Test(
        "Unknown, repeated and wrong parameters are refused",
        arguments: [
            "/v1/pushes?partial=1", "/v1/pushes?partial=true&partial=true", "/v1/pushes?partail=true",
            "/v1/pushes?partial=%zz", "/v1/pushes?=", "/v1/pushes?%ff=1",
        ]
    )
    func badQuery(_ path: String) async throws {
        try await RelayServer.run { server in
            let received = try await server.send(.POST, path, body: Self.push)
            #expect(received.status == 400)
            #expect(received.code == "badQuery")
        }
    }

    // MARK: One push

    @Test("The status of a push follows it from the queue to its outcome")
    func status() async throws {
        try await RelayServer.run { server in
            let id = try await server.accepted()
            let queued = try await server.send(.GET, "/v1/pushes/\(id)")
            #expect(queued.status == 200)
            #expect(queued.json["state"] as? String == "queued")
            #expect(queued.json["token"] as? String == RelayServer.deviceToken)
            #expect(queued.json["caller"] as? String == "shop")
            #expect(queued.json["queuedAt"] as? Double == 1_795_440_000)
            #expect(queued.text.contains(#""outcome":null"#))
            #expect(queued.text.contains(#""settledAt":null"#))
            #expect(!queued.text.contains("cursor"))

            let rejection = Rejection(status: 410, reason: .unregistered, timestamp: 1_795_430_000_123, apnsID: id)
            server.clock.advance(by: .milliseconds(250))
            try await server.queue.settle(id, .rejected(.rejected(rejection, attempts: 1)))
            let received = try await server.send(.GET, "/v1/pushes/\(id.description.uppercased())")
            #expect(received.json["state"] as? String == "settled")
            #expect(received.json["settledAt"] as? Double == 1_795_440_000.25)
            let outcome = try #require(received.json["outcome"] as? [String: any Sendable])
            #expect(outcome["outcome"] as? String == "rejected")
            #expect(outcome["status"] as? Int == 410)
            #expect(outcome["reason"] as? String == "Unregistered")
            #expect(outcome["tokenInvalidSince"] as? Double == 1_795_430_000.123)
            #expect(outcome["advice"] as? String == "remove-token")
            #expect(outcome["attempts"] as? Int == 1)
            #expect(outcome.keys.contains("apnsUniqueID"))
        }
    }

    @Test("Pushes that are unknown or belong to another app are not found", arguments: ["1", "%ff", "x%2Fy"])
    func notFound(_ path: String) async throws {
        try await RelayServer.run { server in
            let foreign = try await server.accepted(RelayServer.push(app: "moss"), token: "ops-token")
            for path in [path, foreign.description, APNSID.random().description] {
                for method in [HTTPMethod.GET, .DELETE] {
                    let received = try await server.send(method, "/v1/pushes/\(path)")
                    #expect(received.status == 404)
                    #expect(received.code == "notFound")
                }
            }
            let status = try await server.queue.status(of: foreign)
            #expect(status?.state == .queued)
        }
    }

    @Test("A queued push can be cancelled, and one that is sent or settled cannot")
    func cancel() async throws {
        try await RelayServer.run { server in
            let id = try await server.accepted()
            let received = try await server.send(.DELETE, "/v1/pushes/\(id)")
            #expect(received.status == 200)
            #expect(received.json["state"] as? String == "settled")
            #expect((received.json["outcome"] as? [String: any Sendable])?["code"] as? String == "cancelled")
            let again = try await server.send(.DELETE, "/v1/pushes/\(id)")
            #expect(again.status == 409)
            #expect(again.code == "settled")
            let other = try await server.accepted()
            try await server.queue.markWritten(other)
            let written = try await server.send(.DELETE, "/v1/pushes/\(other)")
            #expect(written.status == 409)
            #expect(written.code == "written")
        }
    }
}
