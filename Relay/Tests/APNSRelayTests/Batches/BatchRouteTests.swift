import APNSModel
import Foundation
import NIOHTTP1
import PushQueue
import RelayTestSupport
import Synchronization
import Testing

@testable import APNSRelay

struct BatchRouteTests {
    private static let batch = #"""
        {"app":"fern","headers":{"apns-push-type":"alert"},"payload":{"aps":{"alert":"Hi {{name}}","badge":"{{n}}"}},\#
        "values":{"n":1},"idempotencyKey":"sale","metadata":{"campaign":"sale"}}
        """#

    private static func submit(
        _ server: RelayServer,
        _ lines: [String],
        partial: Bool = false
    ) async throws -> TestHTTPClient.Response {
        try await server.send(
            .POST,
            "/v1/batches\(partial ? "?partial=true" : "")",
            headers: ["content-type": "application/x-ndjson"],
            body: lines.joined(separator: "\n")
        )
    }

    private static func device(_ number: Int, _ more: String = "") -> String {
        #"{"token":"\#(String(format: "%08x", number))","values":{"name":"N\#(number)"}\#(more)}"#
    }

    private static func batch(_ received: TestHTTPClient.Response) throws -> [String: any Sendable] {
        try #require(received.json["batch"] as? [String: any Sendable])
    }

    @Test("A batch is stored with one payload, and its progress can be read")
    func submits() async throws {
        try await RelayServer.run { server in
            let devices = (0..<2_500).map { Self.device($0, $0 == 7 ? #","metadata":{"seven":true}"# : "") }
            let received = try await Self.submit(server, [Self.batch, ""] + devices)
            #expect(received.status == 202, "\(received.text)")
            #expect(received.json["stored"] as? Int == 2_500)
            let batch = try Self.batch(received)
            #expect(batch["state"] as? String == "running" && batch["queued"] as? Int == 2_500)
            let id = try #require(batch["id"] as? String)
            let pushes = server.queue.state.withLock { $0.pushes }
            #expect(Set(pushes.map(\.route.batch?.description)) == [id])
            #expect(Set(pushes.map(\.id)).count == 2_500)
            // The payload is not stored again for each device.
            #expect(pushes[7].push.payload == Array(#"{"name":"N7"}"#.utf8))
            #expect(pushes[7].metadata == #"{"seven":true}"# && pushes[8].metadata == #"{"campaign":"sale"}"#)
            #expect(server.status.state.withLock { $0.signals } == 1)

            let again = try await server.send(.GET, "/v1/batches/\(id)")
            #expect(again.json["lines"] as? Int == 2_500 && again.json["idempotencyKey"] as? String == "sale")
            let list = try await server.send(.GET, "/v1/batches").json["batches"] as? [[String: any Sendable]]
            #expect(list?.compactMap { $0["id"] as? String } == [id])
            try await server.queue.settle(pushes[0].id, .accepted(Receipt(apnsID: pushes[0].id)))
            let progress = try await server.send(.GET, "/v1/batches/\(id)").json
            #expect((progress["outcomes"] as? [String: any Sendable])?["accepted"] as? Int == 1)
            let feed = try await server.send(.GET, "/v1/outcomes?batch=\(id)")
            let outcomes = try #require(feed.json["outcomes"] as? [[String: any Sendable]])
            #expect(outcomes.count == 1 && outcomes[0]["batch"] as? String == id)
            let other = try await server.send(.GET, "/v1/outcomes?batch=\(APNSID.random())")
            #expect((other.json["outcomes"] as? [any Sendable])?.isEmpty == true)
        }
    }

    @Test("The counts of a batch add up at every read, while its pushes are settled and while its devices are stored")
    func countsAddUp() async throws {
        try await RelayServer.run { server in
            let received = try await Self.submit(server, [Self.batch] + (0..<60).map { Self.device($0) })
            let id = try #require(try Self.batch(received)["id"] as? String)
            let pushes = server.queue.state.withLock { $0.pushes }
            // Every call of the queue meets another state than the one before it.
            let next = Mutex(0)
            let settle: @Sendable () async -> Void = {
                let index = next.withLock { index in
                    defer { index += 1 }
                    return index
                }
                guard index < pushes.count else { return }
                let push = pushes[index]
                let gone = Rejection(status: 410, reason: .unregistered, timestamp: 1_700_000_000_000)
                let outcome: PushOutcome =
                    index.isMultiple(of: 3)
                    ? .failed(.rejected(gone, attempts: 1)) : .accepted(Receipt(apnsID: push.id))
                do {
                    if index.isMultiple(of: 4) { return try await server.queue.park(push.id) }
                    try await server.queue.settle(push.id, outcome)
                } catch {
                    Issue.record(error)
                }
            }
            server.queue.state.withLock { $0.beforeCall = settle }
            while next.withLock({ $0 < pushes.count }) {
                try Self.expectSum(try await server.send(.GET, "/v1/batches/\(id)").json)
                let list = try await server.send(.GET, "/v1/batches").json["batches"] as? [[String: any Sendable]]
                try Self.expectSum(try #require(list?.first))
            }
            server.queue.state.withLock { $0.beforeCall = nil }
            let end = try await server.send(.GET, "/v1/batches/\(id)").json
            #expect(end["deadTokens"] as? Int == 15 && end["parked"] as? Int == 15)

            // Another batch, whose lines are counted after they are stored.
            let failures = Mutex(0)
            server.queue.state.withLock { state in
                state.beforeCall = {
                    do {
                        let states = try await BatchStore(queue: server.queue.base).states()
                        for (id, state) in states {
                            guard let batch = try await BatchStore(queue: server.queue.base).batch(id) else { continue }
                            let counts = try await server.queue.base.batchCounts(of: [batch.route])
                            let json = BatchJSON(batch, state, try #require(counts.first))
                            if json.lines - json.invalid != counts[0].total { failures.withLock { $0 += 1 } }
                        }
                    } catch {
                        Issue.record(error)
                    }
                }
            }
            let other = Self.batch.replacingOccurrences(of: #""sale","metadata""#, with: #""other","metadata""#)
            let devices = (0..<2_500).map { $0 == 1_700 ? "x" : Self.device($0) }
            #expect(try await Self.submit(server, [other] + devices, partial: true).status == 202)
            #expect(failures.withLock { $0 } == 0)
        }
    }

    private static func expectSum(_ batch: [String: any Sendable]) throws {
        let outcomes = try #require(batch["outcomes"] as? [String: any Sendable])
        let sum =
            ["queued", "inFlight", "parked"].compactMap { batch[$0] as? Int }.reduce(0, +)
            + outcomes.values.compactMap { $0 as? Int }.reduce(0, +)
        let lines = try #require(batch["lines"] as? Int), invalid = try #require(batch["invalid"] as? Int)
        #expect(sum == lines - invalid, "\(batch)")
    }

    @Test("A batch has the name that its caller gave it, else its idempotency key")
    func names() async throws {
        try await RelayServer.run { server in
            func submit(_ more: String) async throws -> TestHTTPClient.Response {
                let batch = #"{"app":"fern","headers":{"apns-push-type":"alert"},"payload":{"aps":{}}\#(more)}"#
                return try await Self.submit(server, [batch, Self.device(1)])
            }
            func name(_ received: TestHTTPClient.Response) throws -> String? {
                try Self.batch(received)["name"] as? String
            }
            #expect(try name(try await submit(#","name":"Autumn sale","idempotencyKey":"a""#)) == "Autumn sale")
            // The name is not a part of what must be the same.
            let again = try await submit(#","name":"Another name","idempotencyKey":"a""#)
            #expect(try name(again) == "Autumn sale" && again.json["duplicate"] as? Bool == true)
            let keyed = try await submit(#","idempotencyKey":"b""#)
            #expect(try name(keyed) == "b" && keyed.json["duplicate"] as? Bool == false)
            let unnamed = try await submit("")
            #expect(try Self.batch(unnamed)["name"] is NSNull)
            for wrong in [#""""#, "7", "null", #""\#(String(repeating: "n", count: 129))""#, #""a\nb""#] {
                let refused = try await submit(#","name":\#(wrong)"#)
                #expect(refused.status == 400 && refused.error["field"] as? String == "name", "\(wrong)")
            }
        }
    }

    @Test("A batch that is submitted again continues where it stopped, and stores each device once")
    func continues() async throws {
        try await RelayServer.run { server in
            let devices = (0..<3_000).map { Self.device($0) }
            var broken = devices
            broken[2_200] = "x"
            let failed = try await Self.submit(server, [Self.batch] + broken)
            #expect(failed.status == 400 && failed.error["line"] as? Int == 2_202)
            let id = try #require(
                (try await server.send(.GET, "/v1/batches").json["batches"] as? [[String: any Sendable]])?.first
            )
            #expect(id["state"] as? String == "receiving" && id["lines"] as? Int == 2_200)
            let complete = try await Self.submit(server, [Self.batch] + devices)
            #expect(complete.status == 202 && complete.json["stored"] as? Int == 800)
            #expect(try Self.batch(complete)["queued"] as? Int == 3_000)
            // Once more: nothing is added to a complete batch.
            let again = try await Self.submit(server, [Self.batch, ""] + devices)
            #expect(again.status == 202 && again.json["stored"] as? Int == 0)
            #expect(try Self.batch(again)["queued"] as? Int == 3_000)
            for (old, new) in [("Hi", "Ho"), (#""n":1"#, #""n":2"#)] {
                let changed = Self.batch.replacingOccurrences(of: old, with: new)
                let other = try await Self.submit(server, [changed] + devices)
                #expect(other.status == 409 && other.text.contains("byte for byte"))
            }
        }
    }

    @Test(
        "A batch that is submitted again with its key and other devices is a conflict, and nothing is added",
        arguments: [false, true]
    )
    func otherDevices(_ isComplete: Bool) async throws {
        try await RelayServer.run { server in
            let devices = (0..<2_000).map { Self.device($0) }
            let first = try await Self.submit(server, [Self.batch] + devices + (isComplete ? [] : ["x"]))
            #expect(first.status == (isComplete ? 202 : 400))
            let more = devices + [Self.device(2_000)]
            let others = [
                Array(devices.prefix(1_500)), [Self.device(9_999)], devices.reversed(),
                devices.dropLast() + [Self.device(9_999)], isComplete ? more : more.reversed(),
            ]
            for other in others {
                let received = try await Self.submit(server, [Self.batch] + other)
                #expect(received.status == 409 && received.text.contains("2000 are stored"), "\(received.text)")
            }
            #expect(server.queue.state.withLock { $0.pushes.count } == 2_000)
            let state = try await server.send(.GET, "/v1/batches").json["batches"] as? [[String: any Sendable]]
            #expect(state?.first?["state"] as? String == (isComplete ? "running" : "receiving"))
            #expect(state?.first?["lines"] as? Int == 2_000)
            guard !isComplete else { return }
            let complete = try await Self.submit(server, [Self.batch] + more)
            #expect(complete.status == 202 && complete.json["stored"] as? Int == 1)
        }
    }

    @Test("The header Idempotency-Key is the key of a batch, and a cancelled batch says so")
    func keyInHeader() async throws {
        try await RelayServer.run { server in
            func submit(_ batch: String, _ key: String) async throws -> TestHTTPClient.Response {
                let fields = HTTPHeaders([("Idempotency-Key", key), ("content-type", "application/x-ndjson")])
                let body = batch + "\n" + Self.device(1)
                return try await server.send(.POST, "/v1/batches", headers: fields, body: body)
            }
            let unkeyed = Self.batch.replacingOccurrences(of: #","idempotencyKey":"sale""#, with: "")
            let first = try await submit(unkeyed, "autumn")
            let batch = try Self.batch(first)
            #expect(first.status == 202 && batch["idempotencyKey"] as? String == "autumn")
            let again = try await submit(unkeyed, "autumn")
            #expect(again.status == 202 && again.json["stored"] as? Int == 0)
            #expect(try Self.batch(again)["id"] as? String == batch["id"] as? String)
            let differs = try await submit(Self.batch, "autumn")
            #expect(differs.status == 400 && differs.error["field"] as? String == "idempotencyKey")
            let withID = Self.batch.replacingOccurrences(
                of: #"-type":"alert""#,
                with: #"-type":"alert","apns-id":"\#(APNSID.random())""#
            )
            #expect(try await submit(withID, "sale").error["field"] as? String == "headers.apns-id")
            let id = try #require(batch["id"] as? String)
            #expect(try await server.send(.DELETE, "/v1/batches/\(id)").status == 200)
            let cancelled = try await submit(unkeyed, "autumn")
            #expect(cancelled.status == 409 && cancelled.text.contains("was cancelled: \(id)"))
            #expect(cancelled.text.contains("use another key"))
        }
    }

    @Test("A batch without a device is refused, and its key stays free")
    func withoutDevices() async throws {
        try await RelayServer.run { server in
            for lines in [[Self.batch], [Self.batch, "", " "]] {
                let empty = try await Self.submit(server, lines)
                #expect(empty.status == 400 && empty.text.contains("no device"))
            }
            let inline = Self.batch.dropLast() + #","tokens":[]}"#
            #expect(try await server.send(.POST, "/v1/batches", body: String(inline)).status == 400)
            let received = try await Self.submit(server, [Self.batch, Self.device(1)])
            #expect(received.status == 202 && received.json["stored"] as? Int == 1)
        }
    }

    @Test("While only the reserve of the disk is free, a batch is refused, and nothing of it is stored")
    func withoutRoom() async throws {
        try await RelayServer.run { server in
            server.useUpRoom()
            let refused = try await Self.submit(server, [Self.batch, Self.device(1)])
            #expect(refused.status == 503, "\(refused.text)")
            #expect(try await server.queue.values(withPrefix: BatchStore.prefix).isEmpty)
        }
    }

    @Test("Two braces outside the payload, or that begin no placeholder, are refused before anything is stored")
    func braces() async throws {
        try await RelayServer.run { server in
            let cases = [
                ("Hi {{name}}", "Hi {{first-name}}", "payload"),
                (#""metadata":{"campaign":"sale"}"#, #""metadata":{"campaign":"{{name}}"}"#, "metadata"),
                (#"-type":"alert""#, #"-type":"alert","apns-collapse-id":"{{name}}""#, "headers.apns-collapse-id"),
            ]
            for (old, new, field) in cases {
                let batch = Self.batch.replacingOccurrences(of: old, with: new)
                let received = try await Self.submit(server, [batch, Self.device(1)])
                #expect(received.status == 400 && received.error["field"] as? String == field, "\(received.text)")
            }
            #expect(try await server.send(.GET, "/v1/batches").text == #"{"batches":[]}"#)
        }
    }

    @Test("With partial, invalid lines are listed and the others are stored")
    func partial() async throws {
        try await RelayServer.run { server in
            let lines = [
                Self.batch, Self.device(1), #""abcd""#, #"{"token":"zz","values":{"name":"A"}}"#, Self.device(2), "[]",
                #"{"token":"ab","values":{"name":"\#(String(repeating: "x", count: 4_070))"}}"#,
                #"{"token":"ab","values":{"name":null}}"#, #"{"token":"ab","value":{}}"#, #"{"values":{}}"#,
            ]
            let received = try await Self.submit(server, lines, partial: true)
            #expect(received.status == 202 && received.json["stored"] as? Int == 2)
            #expect(try Self.batch(received)["invalid"] as? Int == 7)
            let errors = try #require(received.json["errors"] as? [[String: any Sendable]])
            #expect(errors.map { $0["line"] as? Int } == [3, 4, 6, 7, 8, 9, 10])
            #expect(
                errors.map { $0["field"] as? String }
                    == ["values", "token", "token", "payload", "values.name", "value", "token"]
            )
        }
    }

    @Test(
        "A batch with an invalid object is refused",
        arguments: [
            (#""app":"oak""#, "app"), (#""token":"ab""#, "token"), (#""supersedes":"a""#, "supersedes"),
            (#""lane":"interactive""#, "lane"), (#""pushesPerSecond":0"#, "pushesPerSecond"),
            (#""values":{"a":[]}"#, "values.a"), (#""tokens":["ab"]"#, "tokens"), (#""metadata":1"#, "metadata"),
        ]
    )
    func invalid(_ member: String, _ field: String) async throws {
        try await RelayServer.run { server in
            let app = member.hasPrefix(#""app""#) ? "" : #""app":"fern","#
            let batch = #"{\#(app)"headers":{"apns-push-type":"alert"},"payload":{"aps":{}},\#(member)}"#
            let received = try await Self.submit(server, [batch, #""ab""#])
            #expect((400...403).contains(received.status) && received.error["field"] as? String == field)
            #expect(server.queue.state.withLock { $0.pushes.isEmpty })
            #expect(try await server.send(.GET, "/v1/batches").text == #"{"batches":[]}"#)
        }
    }

    @Test("A small batch is one JSON object")
    func inline() async throws {
        try await RelayServer.run { server in
            let body = #"""
                {"app":"fern","headers":{"apns-push-type":"alert"},"payload":{"aps":{"alert":"Hi"}},"tokens":["ab",{"token":"cd"}]}
                """#
            let received = try await server.send(.POST, "/v1/batches", body: body)
            #expect(received.status == 202 && received.json["stored"] as? Int == 2)
            #expect(server.queue.state.withLock { $0.pushes.map(\.token.hexadecimal) } == ["ab", "cd"])
            // Without an idempotency key, each submission is a batch.
            #expect(try await server.send(.POST, "/v1/batches", body: body).json["stored"] as? Int == 2)
            #expect(Set(server.queue.state.withLock { $0.pushes.map(\.route) }).count == 2)
        }
    }

    @Test("A batch is paused, slowed and cancelled, by its caller and by operators")
    func changes() async throws {
        try await RelayServer.run { server in
            let received = try await Self.submit(server, [Self.batch] + (0..<20).map { Self.device($0) })
            let path = "/v1/batches/\(try #require(try Self.batch(received)["id"] as? String))"
            let paused = try await server.send(.PATCH, path, body: #"{"paused":true,"pushesPerSecond":2.5}"#)
            #expect(paused.json["state"] as? String == "paused" && paused.json["pushesPerSecond"] as? Double == 2.5)
            let resumed = try await server.send(.PATCH, path, token: "ops-token", body: #"{"paused":false}"#)
            #expect(resumed.json["state"] as? String == "running" && resumed.json["pushesPerSecond"] as? Double == 2.5)
            let unlimited = try await server.send(.PATCH, path, body: #"{"pushesPerSecond":null}"#)
            #expect(unlimited.text.contains(#""pushesPerSecond":null"#))
            for wrong in [
                #"{"pushesPerSecond":-1}"#, #"{"paused":1}"#, #"{"paused":null}"#, #"{"stopped":true}"#, "[]",
            ] {
                #expect(try await server.send(.PATCH, path, body: wrong).status == 400)
            }
            let cancelled = try await server.send(.DELETE, path)
            #expect(cancelled.json["state"] as? String == "cancelled" && cancelled.json["queued"] as? Int == 0)
            #expect((cancelled.json["outcomes"] as? [String: any Sendable])?["notSent"] as? Int == 20)
            #expect(try await server.send(.PATCH, path, body: #"{"paused":false}"#).status == 409)
            #expect(try await Self.submit(server, [Self.batch, Self.device(1)]).status == 409)
            #expect(try await server.send(.DELETE, path).status == 200)
            #expect(try await server.send(.GET, "/v1/batches/\(APNSID.random())").status == 404)
        }
    }
}
