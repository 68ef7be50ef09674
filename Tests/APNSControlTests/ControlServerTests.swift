import APNSModel
import APNSPool
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import APNSControl
@testable import APNSSimulator

/// The control API over a socket, asked by `curl`.
struct ControlServerTests {
    /// Runs `body` with the URL of a server of this API.
    private func serve(_ control: ControlClient, _ body: (String) async throws -> Void) async throws {
        let server = try await ControlServer(address: "127.0.0.1", port: 0, api: control.api)
        let task = Task { try await server.run() }
        defer { task.cancel() }
        try await body("http://localhost:\(server.port)/v1")
        task.cancel()
        try? await task.value
    }

    private func serve(_ body: (String) async throws -> Void) async throws {
        try await ControlClient.with { control in try await self.serve(control, body) }
    }

    @Test("One connection carries several requests, with and without a body")
    func keepAlive() async throws {
        try await self.serve { url in
            let reply = try await Curl.run(
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

    @Test("A request after HEAD, or on HTTP/1.0, gets its own response")
    func streamsEnd() async throws {
        try await self.serve { url in
            let head = try await Curl.run(
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
            let old = try await Curl.run(options[0], options[1], options[2], options[3], options[4], "\(url)/ledger")
            #expect(old.status == 0 && old.text == "200")
        }
    }

    @Test("A body above the limit gets 413, and something other than HTTP ends its connection")
    func limits() async throws {
        try await self.serve { url in
            let big = try await Curl.run(
                "-X",
                "POST",
                "-H",
                "x-apns-simulator: 1",
                "-H",
                "expect:",
                "--data-binary",
                "@-",
                "\(url)/faults",
                input: [UInt8](repeating: 0x20, count: ControlServer.bodyLimit + 1)
            )
            #expect(big.text.contains("too-large"))
            let foreign = try await Curl.run(
                "--http0.9",
                url.replacing("http:", with: "telnet:").replacing("/v1", with: ""),
                input: Array("no\r\n\r\n".utf8)
            )
            #expect(foreign.text.hasPrefix("HTTP/1.1 400"))
            #expect(try await Curl.run("\(url)/faults").text == "{\"faults\":[]}\n")
        }
    }

    @Test("Events carry each push from a position on, and what happened besides")
    func events() async throws {
        try await ControlClient.with { control in
            for number in 1...3 { try await control.push(number) }
            var events: Curl?
            try await self.serve(control) { url in
                let curl = try Curl(["-N", "\(url)/events?after=1"])
                events = curl
                func lines() -> [Substring] { curl.text.split(separator: "\n") }
                #expect(await eventually { lines().contains("id: 3") })
                try await control.push(4)
                #expect(await eventually { lines().contains("id: 4") })
                control.simulator.reset()
                #expect(await eventually { lines().contains("event: reset") })
                try await control.push(5)
                #expect(await eventually { lines().contains("id: 5") })
                #expect(lines().filter { $0.hasPrefix("id: ") } == ["id: 2", "id: 3", "id: 4", "id: 5"])
                #expect(lines().contains("event: state") && !lines().contains("event: dropped"))
            }
            // The end of the server ends the connection, and with it curl.
            _ = await events?.status
        }
    }

    /// Reads at least so many lines of the events after a position, and leaves.
    private func events(_ url: String, after position: Int, lines: Int) async throws -> String {
        let curl = try Curl(["-N", "\(url)/events?after=\(position)"])
        #expect(await eventually { curl.text.count { $0 == "\n" } >= lines })
        curl.stop()
        _ = await curl.status
        return curl.text
    }

    @Test("A reader that fell behind the kept pushes is told which are missing")
    func missedEvents() async throws {
        try await ControlClient.with(keep: 1) { control in
            for number in 1...4 { try await control.push(number) }
            try await self.serve(control) { url in
                let text = try await self.events(url, after: 0, lines: 5)
                let expected = "event: dropped\ndata: {\"from\":1,\"to\":3}\n\nevent: push\nid: 4\n"
                #expect(text.hasPrefix(expected), "\(text)")
            }
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
            try await self.serve(control) { url in
                let text = try await self.events(url, after: 0, lines: 11)
                let lines = text.split(separator: "\n").filter { !$0.hasPrefix("data: {\"order") }
                #expect(
                    lines.prefix(6) == [
                        "event: push", "id: 1", "event: dropped", #"data: {"from":2,"to":4}"#, "event: push", "id: 5",
                    ]
                )
                let anew = try await self.events(url, after: 99, lines: 5)
                #expect(anew.hasPrefix("event: reset\ndata: {}\n\nevent: push\nid: 1\n"), "\(anew)")
            }
        }
    }

    @Test("A wait ends when its client leaves")
    func clientLeaves() async throws {
        try await ControlClient.with { control in
            try await self.serve(control) { url async throws in
                let curl = try Curl(["\(url)/pushes/wait?timeoutSeconds=300"])
                func waiters() -> Int { control.simulator.core.state.withLock { $0.waiters.count } }
                #expect(await eventually { waiters() == 1 })
                curl.stop()
                #expect(await curl.status == SIGKILL)
                #expect(await eventually { waiters() == 0 })
            }
        }
    }
}
