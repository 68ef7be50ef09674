import APNSModel
import APNSPool
import Foundation
import Synchronization
import Testing

@testable import APNSCommand
@testable import APNSSimulator

/// The control API over a socket, asked by `curl`.
struct ControlServerTests {
    /// Runs `body` with the port of a running tool's control API.
    private func with(_ options: [String] = [], _ body: (Running, Int) async throws -> Void) async throws {
        let running = try Running(["simulator", "--port", "0", "--control", "0", "--without-token"] + options)
        #expect(try await eventually { running.output.contains("The pushes appear at ") })
        let port = try #require(
            running.output.split(separator: "\n").last { $0.contains("The pushes appear at ") }?
                .split(separator: ":").last.flatMap { Int($0.prefix { $0.isNumber }) }
        )
        try await body(running, port)
        running.signal(SIGTERM)
        #expect(await running.end().status == 0)
    }

    private struct Reply {
        var text: String
        var status: Int32
    }

    private func curl(_ arguments: String..., input: [UInt8] = []) async throws -> Reply {
        let folder = try Folder()
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["curl", "-s", "--max-time", "30"] + arguments
        let output = folder.url.appendingPathComponent("output")
        try Data().write(to: output)
        process.standardOutput = try FileHandle(forWritingTo: output)
        let file = folder.url.appendingPathComponent("input")
        try Data(input).write(to: file)
        process.standardInput = try FileHandle(forReadingFrom: file)
        await withCheckedContinuation { (ended: CheckedContinuation<Void, Never>) in
            process.terminationHandler = { _ in ended.resume() }
            do { try process.run() } catch { ended.resume() }
        }
        return Reply(text: try String(contentsOf: output, encoding: .utf8), status: process.terminationStatus)
    }

    @Test("One connection carries several requests, with and without a body") func keepAlive() async throws {
        try await self.with { _, port in
            let url = "http://localhost:\(port)/v1"
            let reply = try await self.curl(
                "-w",
                " %{http_code} %{num_connects}\n",
                "\(url)/state",
                "--next",
                "-s",
                "-w",
                " %{http_code} %{num_connects}\n",
                "-X",
                "PUT",
                "-H",
                "x-apns-simulator: 1",
                "-d",
                #"{"state":"busy"}"#,
                "\(url)/tokens/0a",
                "--next",
                "-s",
                "-I",
                "-w",
                "%{http_code} %{num_connects}\n",
                "\(url)/tokens"
            )
            let lines = reply.text.split(separator: "\n").filter { $0.hasSuffix(" 0") || $0.hasSuffix(" 1") }
            #expect(lines.map { $0.suffix(5) } == ["200 1", "200 0", "200 0"], "\(reply.text)")
        }
    }

    @Test("A request after HEAD, or on HTTP/1.0, gets its own response") func streamsEnd() async throws {
        try await self.with { _, port in
            let url = "http://localhost:\(port)/v1"
            let head = try await self.curl(
                "-I",
                "\(url)/ledger",
                "--next",
                "-s",
                "-w",
                " %{http_code}",
                "\(url)/tokens"
            )
            #expect(head.status == 0 && head.text.hasSuffix("{\"tokens\":[]}\n 200"), "\(head.text)")
            let options = ["--http1.0", "-H", "connection: keep-alive", "-w", "%{http_code}"]
            let old = try await self.curl(options[0], options[1], options[2], options[3], options[4], "\(url)/ledger")
            #expect(old.status == 0 && old.text == "200")
        }
    }

    @Test("A body above the limit gets 413, and something other than HTTP ends its connection")
    func limits() async throws {
        try await self.with { _, port in
            let url = "http://localhost:\(port)/v1/faults"
            let big = try await self.curl(
                "-X",
                "POST",
                "-H",
                "x-apns-simulator: 1",
                "-H",
                "expect:",
                "--data-binary",
                "@-",
                url,
                input: [UInt8](repeating: 0x20, count: ControlServer.bodyLimit + 1)
            )
            #expect(big.text.contains("too-large"))
            let foreign = try await self.curl(
                "--http0.9",
                "telnet://localhost:\(port)",
                input: Array("no\r\n\r\n".utf8)
            )
            #expect(foreign.text.hasPrefix("HTTP/1.1 400"))
            #expect(try await self.curl(url).text == "{\"faults\":[]}\n")
        }
    }

    @Test("Events carry each push from a position on, and what happened besides")
    func events() async throws {
        try await ControlClient.with { control in
            for number in 1...3 { try await control.push(number) }
            let server = try await ControlServer(address: "127.0.0.1", port: 0, api: control.api)
            let task = Task { try await server.run() }
            let folder = try Folder()
            let url = "http://localhost:\(server.port)/v1/events?after=1"
            let path = folder.path("events")
            async let reply = self.curl("-N", "-o", path, url)
            #expect(try await eventually { folder.lines(of: "events").contains("id: 3") })
            try await control.push(4)
            #expect(try await eventually { folder.lines(of: "events").contains("id: 4") })
            control.simulator.reset()
            #expect(try await eventually { folder.lines(of: "events").contains("event: reset") })
            try await control.push(5)
            #expect(try await eventually { folder.lines(of: "events").contains("id: 5") })
            let lines = folder.lines(of: "events")
            #expect(lines.filter { $0.hasPrefix("id: ") } == ["id: 2", "id: 3", "id: 4", "id: 5"])
            #expect(lines.contains("event: state") && !lines.contains("event: dropped"))
            // Ends the connection, and with it curl.
            task.cancel()
            try? await task.value
            _ = try await reply
        }
    }

    @Test("A reader that fell behind the kept pushes is told which are missing")
    func missedEvents() async throws {
        try await ControlClient.with(keep: 1) { control in
            for number in 1...4 { try await control.push(number) }
            let server = try await ControlServer(address: "127.0.0.1", port: 0, api: control.api)
            let task = Task { try await server.run() }
            let text = try await self.curl("-N", "--max-time", "1", "http://localhost:\(server.port)/v1/events?after=0")
                .text
            #expect(text.hasPrefix("event: dropped\ndata: {\"from\":1,\"to\":3}\n\nevent: push\nid: 4\n"), "\(text)")
            task.cancel()
            try? await task.value
        }
    }

    @Test("Each gap between the kept pushes is reported where it is, and a position from before a restart starts anew")
    func gaps() async throws {
        try await ControlClient.with(keep: 2) { control in
            control.simulator.addChannel("dHN0", to: "com.example.app")
            let push = PushNotification(
                topic: "com.example.app",
                pushType: .liveactivity,
                rawPayload: Array(#"{"aps":{"event":"update","timestamp":1,"content-state":{}}}"#.utf8)
            )
            _ = await control.client.broadcast(push, to: try ChannelID("dHN0"))
            for number in 1...5 { try await control.push(number) }
            let server = try await ControlServer(address: "127.0.0.1", port: 0, api: control.api)
            let task = Task { try await server.run() }
            let url = "http://localhost:\(server.port)/v1/events?after="
            let text = try await self.curl("-N", "--max-time", "1", url + "0").text
            let lines = text.split(separator: "\n").filter { !$0.hasPrefix("data: {\"apns") }
            #expect(
                lines.prefix(6) == [
                    "event: push", "id: 1", "event: dropped", #"data: {"from":2,"to":4}"#, "event: push", "id: 5",
                ]
            )
            let anew = try await self.curl("-N", "--max-time", "1", url + "99").text
            #expect(anew.hasPrefix("event: reset\ndata: {}\n\nevent: push\nid: 1\n"), "\(anew)")
            task.cancel()
            try? await task.value
        }
    }

    @Test("A wait ends when its client leaves")
    func clientLeaves() async throws {
        try await ControlClient.with { control in
            let server = try await ControlServer(address: "127.0.0.1", port: 0, api: control.api)
            let task = Task { try await server.run() }
            let url = "http://localhost:\(server.port)/v1/pushes/wait?timeoutSeconds=300"
            async let reply = self.curl("--max-time", "1", url)
            func waiters() -> Int { control.simulator.core.state.withLock { $0.waiters.count } }
            #expect(try await eventually { waiters() == 1 })
            // 28: curl's time was over.
            #expect(try await reply.status == 28)
            #expect(try await eventually { waiters() == 0 })
            task.cancel()
            try? await task.value
        }
    }

    @Test(
        "Invalid options name themselves",
        arguments: [
            (["--control", "x"], "--control"), (["--control", "70000"], "--control"),
            (["--control", "host:80"], "neither a port nor an IP address and a port"),
            (["--control", "0.0.0.0:0"], "Add --control-token"), (["--keep", "5"], "--keep needs --control"),
            (["--control", "0", "--keep", "0"], "--keep"),
            (["--control-token", "0123456789abcdef"], "needs --control"),
            (["--control", "0", "--control-token", "short"], "at least 16 characters"),
        ]
    )
    func invalidOptions(options: [String], message: String) async throws {
        let result = try await Tool.run(["simulator", "--port", "0"] + options)
        #expect(result.status == 64 && result.error.contains(message), "\(result.error)")
    }

    @Test("A control port that is taken ends the tool with a message")
    func takenPort() async throws {
        try await self.with { _, port in
            let result = try await Tool.run(["simulator", "--port", "0", "--control", "\(port)"])
            #expect(result.status == 78 && result.error.contains("--control \(port)"), "\(result.error)")
            #expect(result.output.isEmpty)
        }
    }

    @Test("At another address, the token is in the URL of the page and required by the API")
    func tokenInURL() async throws {
        let token = "0123456789abcdef"
        try await self.with(["--control", "0.0.0.0:0", "--control-token", token, "--name", "push.test"]) {
            running,
            port in
            #expect(running.output.contains("http://push.test:\(port)/#token=\(token)"))
            let url = "http://127.0.0.1:\(port)/v1/state"
            #expect(try await self.curl(url).text.contains("unauthorized"))
            let named = try await self.curl("-H", "authorization: Bearer \(token)", "-H", "host: push.test", url)
            #expect(named.text.contains("endpoint"))
        }
    }
}
