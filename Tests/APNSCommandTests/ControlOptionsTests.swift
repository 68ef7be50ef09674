import Foundation
import TestSupport
import Testing

@testable import APNSCommand

/// The options of `apns simulator` for its control API.
struct ControlOptionsTests {
    /// Runs `body` with the port of a running tool's control API.
    private func with(_ options: [String] = [], _ body: (Running, Int) async throws -> Void) async throws {
        let running = try Running(["simulator", "--port", "0", "--control", "0", "--without-token"] + options)
        #expect(await eventually { running.output.contains("The pushes appear at ") })
        let port = try #require(
            running.output.split(separator: "\n").last { $0.contains("The pushes appear at ") }?
                .split(separator: ":").last.flatMap { Int($0.prefix { $0.isNumber }) }
        )
        try await body(running, port)
        running.signal(SIGTERM)
        #expect(await running.end().status == 0)
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
            #expect(try await Curl.run(url).text.contains("unauthorized"))
            let named = try await Curl.run("-H", "authorization: Bearer \(token)", "-H", "host: push.test", url)
            #expect(named.text.contains("endpoint"))
        }
    }
}
