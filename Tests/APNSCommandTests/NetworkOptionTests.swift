import APNSPool
import APNSSimulator
import ArgumentParser
import TestSupport
import Testing

@testable import APNSCommand

/// Proxies and ports on the command line.
struct NetworkOptionTests {
    private static let key = ["--key", "AuthKey_ABCDE12345.p8", "--team-id", "ABCDE12345"]

    private func resolved(_ arguments: [String], _ variables: [String: String] = [:]) throws -> APNSClientConfiguration
    {
        try settings(arguments + Self.key, variables).configuration
    }

    @Test("A proxy is read from its URL") func aProxyIsReadFromItsURL() throws {
        let plain = try self.resolved(["--proxy", "http://proxy.example.com:3128"]).proxy
        #expect(plain == .init(host: "proxy.example.com", port: 3128))
        let full = try self.resolved([], ["APNS_PROXY": "HTTP://f%65rn:p%40ss%3Aw%2Ford@[::1]:8080/"]).proxy
        #expect(full == .init(host: "::1", port: 8080, username: "fern", password: "p@ss:w/ord"))
        #expect(try self.resolved(["--proxy", "http://a@b:1"]).proxy == .init(host: "b", port: 1, username: "a"))
        #expect(try self.resolved([]).proxy == nil)
        let both = try self.resolved(["--proxy", "http://b:1"], ["APNS_PROXY": "http://c:2"])
        #expect(both.proxy == .init(host: "b", port: 1))
    }

    @Test(
        "The message about a wrong proxy does not show its password",
        arguments: [
            "proxy:3128", "https://proxy:3128", "http://proxy", "http://:3128", "http://proxy:0", "http://proxy:99999",
            "http://u:s3cret%4@proxy:3128", "http://:s3cret@proxy:3128", "http://u%3Av:s3cret@proxy:1",
            "http://u:s3cret@", "http://u:s3cret%FF@proxy:1", "socks5://u:s3cret@proxy:1080",
        ]
    )
    func wrongProxy(text: String) {
        for complaint in [
            complaint(["--proxy", text] + Self.key), complaint(Self.key, ["APNS_PROXY": text]),
        ] {
            #expect(complaint.contains("http://USER:PASSWORD@HOST:PORT"), "\(complaint)")
            #expect(complaint.contains("--proxy") || complaint.contains("APNS_PROXY"))
            #expect(!complaint.contains("s3cret"))
        }
    }

    @Test("Apple's hosts are reached on port 443 or 2197, and an endpoint has its own") func thePortIs443Or2197() throws
    {
        #expect(try self.resolved([]).environment == .production)
        #expect(try self.resolved(["--port", "2197"]).environment == .production(port: 2197))
        let development = try self.resolved(["--environment", "development"], ["APNS_PORT": "2197"])
        #expect(development.environment == .development(port: 2197))
        #expect(complaint(["--port", "80"] + Self.key).contains("443 and 2197"))
        #expect(complaint(["--port", "many"] + Self.key).contains("--port"))
        let endpoint = ["--endpoint", "https://localhost:1"]
        #expect(complaint(["--port", "2197"] + endpoint).contains("--endpoint"))
        #expect(try self.resolved(endpoint, ["APNS_PORT": "2197"]).environment == .custom(host: "localhost", port: 1))
        // The option must not send pushes to Apple if the environment names another server.
        #expect(complaint(["--port", "2197"], ["APNS_ENDPOINT": "https://localhost:1"]).contains("APNS_ENDPOINT"))
    }

    @Test(.enabled(if: ForeignServer.isInstalled("tinyproxy"), "tinyproxy is not installed"), .timeLimit(.minutes(5)))
    func theToolSendsThroughAProxy() async throws {
        let proxy = try await ForeignServer.start(
            "tinyproxy",
            files: ["tinyproxy.conf": { "Port \($0)\nListen 127.0.0.1\nTimeout 60\nBasicAuth fern s3cret\n" }],
            arguments: { ["-d", "-c", "\($1)/tinyproxy.conf"] }
        )
        try await Server.with { server in
            let url = "http://fern:s3cret@127.0.0.1:\(proxy.port)"
            let sent = try await Tool.run(
                ["send", "--title", "Hey", "--verbose", "--proxy", url, token(1)] + server.options
            )
            #expect(sent.status == 0, "\(sent.error)")
            #expect(!sent.error.contains("s3cret"))
            let refused = try await Tool.run(
                ["send", "--title", "Hey", token(1)] + server.options,
                environment: ["APNS_PROXY": "http://127.0.0.1:\(proxy.port)"]
            )
            #expect(refused.status == 78, "\(refused.error)")
            #expect(refused.error.contains("407"))
            #expect(server.simulator.record.pushes.count == 1)
        }
        proxy.stop()
    }
}
