import APNSSimulator
import APNSTesting
import HTTP2Wire
import Logging
import NIOCore
import TestSupport
import Testing

@testable import APNSPool

/// Proxies, ports and addresses.
@Suite(.timeLimit(.minutes(1)))
struct NetworkReachTests {
    private static let hasTinyproxy = ForeignServer.isInstalled("tinyproxy")
    private let notification = PushNotification(topic: "com.example.app", alert: "Hello")

    private func tinyproxy() async throws -> ForeignServer {
        try await ForeignServer.start(
            "tinyproxy",
            files: [
                "tinyproxy.conf": { "Port \($0)\nListen 127.0.0.1\nTimeout 60\nMaxClients 20\nBasicAuth fern s3cret\n" }
            ],
            arguments: { ["-d", "-c", "\($1)/tinyproxy.conf"] }
        )
    }

    @Test(.enabled(if: Self.hasTinyproxy, "tinyproxy is not installed"))
    func pushesGoThroughAProxy() async throws {
        let proxy = try await self.tinyproxy()
        let (logger, log) = RecordingLog.make()
        try await withSimulatedAPNS(configure: {
            $0.proxy = .init(host: "127.0.0.1", port: proxy.port, username: "fern", password: "s3cret")
            $0.pool = .init(size: 2, maxOverflow: 0, connectSpacing: .zero)
            $0.logger = logger
            $0.logger.logLevel = .trace
        }) { client, simulator in
            try await client.prewarm(2)
            for number in 0..<20 {
                try await client.send(self.notification, to: .sample(number))
            }
            #expect(simulator.record.requestsProcessed == 20)
        }
        proxy.stop()
        #expect(!log.entries.isEmpty)
        #expect(!log.entries.contains { "\($0)".contains("s3cret") })
    }

    @Test(.enabled(if: Self.hasTinyproxy, "tinyproxy is not installed"))
    func aProxyThatWantsCredentialsIsAFaultOfTheConfiguration() async throws {
        let proxy = try await self.tinyproxy()
        try await withSimulatedAPNS(configure: { $0.proxy = .init(host: "127.0.0.1", port: proxy.port) }) {
            client,
            simulator in
            let outcome = await client.deliver(self.notification, to: .sample(1))
            #expect(outcome.certainty == .notSent)
            #expect(outcome.error?.code == .configuration)
            let message = outcome.error?.message ?? ""
            for part in ["127.0.0.1:\(proxy.port)", "407", "localhost:\(simulator.port)"] {
                #expect(message.contains(part), "\(message)")
            }
            #expect(simulator.record.connectionsOpened == 0)
        }
        proxy.stop()
    }

    @Test func aProxyShowsItsPasswordNowhere() {
        let proxy = APNSClientConfiguration.Proxy(host: "::1", port: 3128, username: "fern", password: "s3cret")
        #expect("\(proxy)" == "http://fern@[::1]:3128")
        var dumped = ""
        dump(proxy, to: &dumped)
        for text in [dumped, "\(proxy)", String(reflecting: proxy), "\([proxy])", "\(Optional(proxy) as Any)"] {
            #expect(!text.contains("s3cret"), "\(text)")
        }
    }

    @Test func portsAreChosenForBothEnvironments() {
        #expect(APNSEnvironment.production.description == "api.push.apple.com:443")
        #expect(APNSEnvironment.production(port: 2197).authority == "api.push.apple.com:2197")
        #expect(APNSEnvironment.development(port: 2197).description == "api.sandbox.push.apple.com:2197")
        #expect(APNSEnvironment.development(port: 443) == .development)
        // Channels are managed on ports of their own, whatever the pushes' port is.
        #expect(
            APNSEnvironment.production(port: 2197).managementAuthority == "api-manage-broadcast.push.apple.com:2196"
        )
        #expect(
            APNSEnvironment.development(port: 2197).managementAuthority
                == "api-manage-broadcast.sandbox.push.apple.com:2195"
        )
        var custom = APNSEnvironment.custom(host: "localhost", port: 8443)
        custom.port = 9443
        #expect(custom.managementAuthority == "localhost:9443")
        custom.managementHost = "::1"
        custom.managementPort = 443
        #expect(custom.managementAuthority == "[::1]")
        #expect(custom.authority == "localhost:9443")
    }

    #if os(Linux)
        /// One name, three addresses with a server each: the connections of one pool share them out, and so do their
        /// replacements.
        @Test func connectionsSpreadOverTheAddressesOfTheName() async throws {
            var servers: [Simulator] = []
            for number in 1...3 {
                var configuration = Simulator.Configuration()
                configuration.host = "127.0.0.\(number)"
                configuration.port = servers.first?.port ?? 0
                configuration.credential = .none
                servers.append(try await Simulator.start(configuration))
            }
            let port = servers[0].port
            let addresses = try servers.map { try SocketAddress(ipAddress: $0.host, port: port) }
            var configuration = APNSClientConfiguration.local(
                port: port,
                caPEM: servers.map(\.certificateAuthorityPEM).joined(separator: "\n")
            )
            configuration.pool = .init(size: 3, maxOverflow: 0, connectSpacing: .zero)
            configuration.adjustConnection = { $0.lookUp = { _, _ in .success(addresses) } }
            let all = servers
            func opened() -> [Int] { all.map { $0.record.connectionsOpened } }
            try await withAPNSClient(configuration: configuration) { client in
                try await client.prewarm(3)
                #expect(opened() == [1, 1, 1])
                client.replaceConnections()
                await until { all.allSatisfy { $0.record.connectionsClosed == 1 } }
                #expect(opened().reduce(0, +) == 6)
                await until { await client.status.pool.workers.count { $0.state == .ready } == 3 }
                try await client.send(self.notification, to: .sample(1))
            }
            for server in servers { await server.stop() }
        }
    #endif
}
