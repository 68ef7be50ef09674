import APNSModel
import Logging
import NIOCore
import NIOHTTP1
import NIOPosix
import PushQueue
import Synchronization
import PushQueueConformance
import RelayTestSupport
import Testing

@testable import APNSRelay

/// The limits of connections, over real sockets.
struct ConnectionTests {
    private static let push = RelayServer.push()

    private static func head(_ more: String, token: String = "shop-token") -> String {
        "POST /v1/pushes HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \(token)\r\n"
            + "Content-Type: application/json\r\n\(more)\r\n\r\n"
    }

    private static func settings(_ change: (inout HTTPSettings) -> Void) -> RelaySettings {
        RelayServer.settings { change(&$0.http) }
    }

    @Test("A body that trickles in gets 408, and the connection ends")
    func trickle() async throws {
        let settings = Self.settings { $0.requestTimeout = .milliseconds(300) }
        try await RelayServer.run(settings) { server in
            let received = try await RawConnection.open(server) { connection in
                try await connection.write(Self.head("Content-Length: 100000"))
                return await connection.readToEnd { outbound in
                    try await outbound.write(ByteBuffer(string: " "))
                    try await Task.sleep(for: .milliseconds(20))
                }
            }
            #expect(received.hasPrefix("HTTP/1.1 408"))
            #expect(received.lowercased().contains("connection: close"))
            #expect(received.contains(#""code":"timeout""#))
            #expect(server.queue.state.withLock { $0.pushes.isEmpty })
            #expect(server.api.budget.reserved == 0)
        }
    }

    @Test("A body that stops gets 408, and the connection ends")
    func stall() async throws {
        let settings = Self.settings { $0.idleTimeout = .milliseconds(400) }
        try await RelayServer.run(settings) { server in
            var received = ""
            // On a busy machine, the head may come too late, too; then there is no response.
            for _ in 0..<20 where received.isEmpty {
                received = try await RawConnection.open(server) { connection in
                    try await connection.write(Self.head("Content-Length: 100") + "{")
                    return await connection.readToEnd()
                }
            }
            #expect(received.hasPrefix("HTTP/1.1 408"))
        }
    }

    @Test("A connection without a complete head is closed", arguments: ["", "GET / HT", "GET / HTTP/1.1\r\nHost:"])
    func slowHead(_ text: String) async throws {
        let settings = Self.settings { $0.idleTimeout = .milliseconds(200) }
        try await RelayServer.run(settings) { server in
            let received = try await RawConnection.open(server) { connection in
                if !text.isEmpty { try await connection.write(text) }
                return await connection.readToEnd()
            }
            #expect(received == "")
        }
    }

    @Test("A body that names a length above the limit is refused before it arrives")
    func declaredTooLarge() async throws {
        try await RelayServer.run { server in
            let received = try await RawConnection.open(server) { connection in
                try await connection.write(Self.head("Content-Length: 1073741824") + "{")
                return await connection.readToEnd()
            }
            #expect(received.hasPrefix("HTTP/1.1 413"))
            #expect(received.contains(#""code":"bodyTooLarge""#))
            #expect(received.lowercased().contains("connection: close"))
        }
    }

    @Test("A body without a length is counted, and refused at the limit")
    func chunkedTooLarge() async throws {
        let settings = Self.settings { $0.maxBodyBytes = 100_000 }
        try await RelayServer.run(settings) { server in
            let received = try await RawConnection.open(server) { connection in
                try await connection.write(Self.head("Transfer-Encoding: chunked"))
                let chunk = "2000\r\n" + String(repeating: " ", count: 0x2000) + "\r\n"
                return await connection.readToEnd { try await $0.write(ByteBuffer(string: chunk)) }
            }
            #expect(received.hasPrefix("HTTP/1.1 413"))
            #expect(server.api.budget.reserved == 0)
        }
    }

    @Test("A request with expect: 100-continue gets 100, or the error at once")
    func expectContinue() async throws {
        try await RelayServer.run { server in
            let length = Self.push.utf8.count
            let received = try await RawConnection.open(server) { connection in
                try await connection.write(Self.head("Expect: 100-continue\r\nContent-Length: \(length)"))
                let first = try await connection.read(until: "\r\n\r\n")
                #expect(first.hasPrefix("HTTP/1.1 100"))
                try await connection.write(Self.push)
                return try await connection.read(until: "errors")
            }
            #expect(received.hasPrefix("HTTP/1.1 202"))
            let refused = try await RawConnection.open(server) { connection in
                let head = Self.head("Expect: 100-continue\r\nContent-Length: \(length)", token: "wrong")
                try await connection.write(head)
                return await connection.readToEnd()
            }
            #expect(refused.hasPrefix("HTTP/1.1 401"))
        }
    }

    @Test("Bodies beyond the budget for all requests get 503, and the others are not affected")
    func budget() async throws {
        let settings = Self.settings { $0.maxBufferedBytes = 1_000 }
        try await RelayServer.run(settings) { server in
            let body = Self.push + String(repeating: " ", count: 800 - Self.push.utf8.count)
            let first = try await RawConnection.open(server) { connection in
                try await connection.write(Self.head("Content-Length: 800") + body.dropLast())
                try await Patience.wait(for: "the body has arrived") { server.api.budget.reserved >= 799 }
                let other = try await server.send(.POST, "/v1/pushes", body: body)
                #expect(other.status == 503)
                #expect(other.code == "unavailable")
                try await connection.write(" ")
                return try await connection.read(until: "errors")
            }
            #expect(first.hasPrefix("HTTP/1.1 202"))
            #expect(server.api.budget.reserved == 0)
            let later = try await server.send(.POST, "/v1/pushes", body: body)
            #expect(later.status == 202)
        }
    }

    @Test("A batch that is read line by line has its part of the budget")
    func uploadBudget() async throws {
        let settings = Self.settings {
            $0.maxBodyBytes = 4_096
            $0.maxBufferedBytes = 5_000
        }
        try await RelayServer.run(settings) { server in
            let lines = #"{"app":"fern","headers":{"apns-push-type":"alert"},"payload":{"aps":{"alert":"Hi"}}}"# + "\n"
            let device = #"{"token":"\#(RelayServer.deviceToken)"}"#
            let head =
                "POST /v1/batches HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer shop-token\r\n"
                + "Content-Type: application/x-ndjson\r\nContent-Length: \((lines + device).utf8.count)\r\n\r\n"
            let first = try await RawConnection.open(server) { connection in
                try await connection.write(head + lines)
                try await Patience.wait(for: "the batch is read") { server.api.budget.reserved == 4_096 }
                let other = try await server.send(
                    .POST,
                    "/v1/batches",
                    headers: ["content-type": "application/x-ndjson"],
                    body: lines + device
                )
                #expect(other.status == 503 && other.code == "unavailable")
                try await connection.write(device)
                return try await connection.read(until: "errors")
            }
            #expect(first.hasPrefix("HTTP/1.1 202"))
            try await Patience.wait(for: "the memory is free") { server.api.budget.reserved == 0 }
        }
    }

    @Test(
        "A request without the header host, or with two, gets 400",
        arguments: ["", "Host: localhost\r\nHost: localhost\r\n", "Host: localhost\r\nhost: example.com\r\n"],
        [true, false]
    )
    func host(_ headers: String, hasCallers: Bool) async throws {
        let settings = RelayServer.settings { if !hasCallers { $0.callers = [] } }
        try await RelayServer.run(settings) { server in
            for path in ["/live", "/v1/outcomes", "/nothing"] {
                let received = try await RawConnection.open(server) { connection in
                    try await connection.write(
                        "GET \(path) HTTP/1.1\r\n\(headers)Authorization: Bearer shop-token\r\nConnection: close\r\n\r\n"
                    )
                    return await connection.readToEnd()
                }
                #expect(received.hasPrefix("HTTP/1.1 400"), "\(path)")
                #expect(received.contains(#""code":"badRequest""#), "\(path)")
            }
        }
    }

    @Test("Requests on one connection get their responses in order")
    func pipelining() async throws {
        try await RelayServer.run { server in
            let received = try await RawConnection.open(server) { connection in
                let post = Self.head("Content-Length: \(Self.push.utf8.count)") + Self.push
                let last = "GET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
                try await connection.write(post + "GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n" + post + last)
                return await connection.readToEnd()
            }
            let statuses = received.split(separator: "HTTP/1.1 ").map { $0.prefix(3) }
            #expect(statuses == ["202", "200", "202", "404"])
        }
    }

    @Test("A caller that does not take its response loses the connection")
    func slowReader() async throws {
        let settings = Self.settings { $0.requestTimeout = .milliseconds(300) }
        let size = 32 << 20
        let page = PageFile(path: "/big", contentType: "text/plain", body: String(repeating: "x", count: size))
        try await RelayServer.run(settings, pages: [page]) { server in
            let received = try await RawConnection.open(server, receiveBuffer: 4_096) { connection in
                try await connection.write("GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n")
                let start = try await connection.read(until: "\r\n\r\n")
                // Longer than the timeout; what matters is only that it has passed.
                try await Task.sleep(for: .milliseconds(900))
                return start + (await connection.readToEnd())
            }
            #expect(received.hasPrefix("HTTP/1.1 200"))
            #expect(received.utf8.count < size)
        }
    }

    @Test("Idle connections make room at a limit when their time is over", arguments: [false, true])
    func idleConnections(perAddress: Bool) async throws {
        let settings = Self.settings {
            $0.idleTimeout = .milliseconds(500)
            $0.maxConnections = perAddress ? 1_000 : 20
            $0.maxConnectionsPerAddress = perAddress ? 20 : 1_000
        }
        try await RelayServer.run(settings) { server in
            var idle: [any Channel] = []
            for _ in 0..<40 {
                idle.append(
                    try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                        .connect(host: "127.0.0.1", port: server.port).get()
                )
            }
            // Above the limit of its address, a new connection is closed until there is room.
            let hasRoom = try await eventually { (try? await server.send(.GET, "/v1/outcomes").status) == 200 }
            #expect(hasRoom)
            for channel in idle { channel.close(promise: nil) }
        }
    }

    @Test("The addresses of one IPv6 network are one, those of IPv4 are not, and each has its own limit")
    func addresses() throws {
        func address(_ text: String) throws -> SocketAddress { try SocketAddress(ipAddress: text, port: 1) }
        func key(_ text: String) throws -> [UInt8] { OpenConnections.key(try address(text)) }
        #expect(try key("2001:db8::1") == key("2001:db8::ffff:1"))
        #expect(try key("2001:db8::1") != key("2001:db8:0:1::1"))
        #expect(try key("10.0.0.1") != key("10.0.0.2"))
        #expect(try key("::ffff:10.0.0.1") == key("10.0.0.1"))
        var settings = HTTPSettings()
        settings.maxConnectionsPerAddress = 2
        let connections = OpenConnections(settings, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        let first = try #require(connections.open(try address("10.0.0.1")))
        #expect(connections.open(try address("10.0.0.1")) != nil)
        #expect(connections.open(try address("10.0.0.1")) == nil)
        #expect(connections.open(try address("10.0.0.2")) != nil)
        connections.close(first)
        #expect(connections.open(try address("10.0.0.1")) != nil)
    }

    @Test("Connections above the limit wait for the end of others")
    func maxConnections() async throws {
        let settings = Self.settings {
            $0.maxConnections = 1
            $0.maxConnectionsPerAddress = 2
        }
        try await RelayServer.run(settings) { server in
            let request = "GET /v1/outcomes HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer shop-token\r\n\r\n"
            let finished = Flag()
            let (sent, sentContinuation) = AsyncStream.makeStream(of: Void.self)
            try await RawConnection.open(server) { first in
                try await first.write(request)
                _ = try await first.read(until: "[]}")
                try await withThrowingTaskGroup(of: Void.self) { tasks in
                    tasks.addTask {
                        try await RawConnection.open(server) { second in
                            try await second.write(request)
                            sentContinuation.yield()
                            let received = try await second.read(until: "[]}")
                            #expect(received.hasSuffix("[]}"))
                            finished.value.withLock { $0 = true }
                        }
                    }
                    _ = await sent.first { _ in true }
                    // Time enough for the second request, if it were not held back.
                    for _ in 0..<100 {
                        try await first.write(request)
                        let received = try await first.read(until: "[]}")
                        #expect(received.hasSuffix("[]}"))
                    }
                    let isFinished = finished.value.withLock { $0 }
                    #expect(!isFinished)
                    first.finish()
                    _ = await first.readToEnd()
                    try await tasks.waitForAll()
                }
            }
            let isFinished = finished.value.withLock { $0 }
            #expect(isFinished)
        }
    }

    @Test("Bytes that are not HTTP get 400 or an end, and never end the server", arguments: 0..<4)
    func garbage(_ seed: Int) async throws {
        try await RelayServer.run { server in
            var random = SeededRandom(seed: UInt64(seed) + 500)
            let template = Array((Self.head("Content-Length: \(Self.push.utf8.count)") + Self.push).utf8)
            for _ in 0..<60 {
                var bytes = template
                for _ in 0..<Int.random(in: 1...6, using: &random) { RandomJSON.mutate(&bytes, using: &random) }
                if Int.random(in: 0..<4, using: &random) == 0 {
                    bytes = (0..<200).map { _ in UInt8.random(in: 0...255, using: &random) }
                }
                let sent = bytes
                let received = try await RawConnection.open(server) { connection in
                    try? await connection.write(sent)
                    connection.finish()
                    return await connection.readToEnd()
                }
                #expect(received.isEmpty || received.hasPrefix("HTTP/1.1 "), "seed \(seed)")
                #expect(!received.hasPrefix("HTTP/1.1 500"), "seed \(seed)")
            }
            let received = try await server.send(.GET, "/live")
            #expect(received.text == "live")
        }
    }

    // MARK: Shutdown

    @Test("A shutdown completes the requests that have arrived, and refuses those that are arriving")
    func shutdown() async throws {
        try await RelayServer.run { server in
            let (entered, enteredContinuation) = AsyncStream.makeStream(of: Void.self)
            let (released, releasedContinuation) = AsyncStream.makeStream(of: Void.self)
            server.queue.state.withLock { state in
                state.beforeEnqueue = {
                    enteredContinuation.yield()
                    _ = await released.first { _ in true }
                }
            }
            try await withThrowingTaskGroup(of: (String, Int).self) { tasks in
                tasks.addTask { ("running", try await server.post([Self.push]).status) }
                _ = await entered.first { _ in true }
                let arriving = try await RawConnection.open(server) { connection in
                    // The running request keeps its bytes until it is stored.
                    let reserved = server.api.budget.reserved
                    try await connection.write(Self.head("Content-Length: 100") + "{")
                    try await Patience.wait(for: "the body arrives") { server.api.budget.reserved != reserved }
                    await server.shutDown()
                    return await connection.readToEnd()
                }
                #expect(arriving.hasPrefix("HTTP/1.1 503"))
                #expect(arriving.contains(#""code":"shuttingDown""#))
                releasedContinuation.yield()
                for try await (name, status) in tasks { #expect(status == 202, "\(name)") }
            }
        }
    }
}

private final class Flag: Sendable {
    let value = Mutex(false)
}
