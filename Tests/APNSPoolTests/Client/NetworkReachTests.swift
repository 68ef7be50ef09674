import APNSSimulator
import APNSTransport
import Logging
import NIOCore
import NIOPosix
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// Proxies, ports and addresses.
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
        try await withPatientSimulator(configure: {
            $0.proxy = .init(host: "127.0.0.1", port: proxy.port, username: "fern", password: "s3cret")
            $0.pool = .init(size: 2, maxOverflow: 0, connectSpacing: .zero)
            $0.logger = logger
            $0.logger.logLevel = .trace
        }) { client, simulator in
            try await client.prewarm(2, within: Patience.limit)
            for number in 0..<20 {
                try await client.send(self.notification, to: DeviceToken.sample(number))
            }
            #expect(simulator.record.requestsProcessed == 20)
        }
        proxy.stop()
        #expect(!log.entries.isEmpty)
        #expect(!log.entries.contains { "\($0)".contains("s3cret") })
    }

    @Test(.enabled(if: Self.hasTinyproxy, "tinyproxy is not installed"))
    func aProxyThatRequiresCredentialsIsAConfigurationFault() async throws {
        let proxy = try await self.tinyproxy()
        try await withPatientSimulator(configure: { $0.proxy = .init(host: "127.0.0.1", port: proxy.port) }) {
            client,
            simulator in
            let outcome = await client.deliver(self.notification, to: DeviceToken.sample(1))
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

    @Test func aProxyPasswordIsNeverPrinted() {
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
        // Channel management has its own ports, which do not depend on the port for pushes.
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
        /// One name has three addresses. The connections of a pool are spread over them.
        @Test func connectionsSpreadOverTheAddressesOfTheName() async throws {
            let simulator = try await Simulator.start()
            var relays: [TCPRelay] = []
            for number in 2...4 {
                let port = relays.first?.port ?? 0
                relays.append(try await TCPRelay.start(host: "127.0.0.\(number)", port: port, to: simulator.port))
            }
            let all = relays
            let addresses = try all.map { try SocketAddress(ipAddress: $0.host, port: $0.port) }
            var configuration = APNSClientConfiguration.local(
                port: all[0].port,
                caPEM: simulator.certificateAuthorityPEM
            )
            configuration.pool = .init(size: 40, maxOverflow: 0, connectSpacing: .zero)
            configuration.adjustConnection = { $0.nameResolver = NameResolver { _, _ in .success(addresses) } }
            try await withAPNSClient(configuration: configuration) { client in
                try await client.prewarm(40, within: Patience.limit)
                // One of three stays without a connection in less than one of a million runs.
                #expect(all.allSatisfy { $0.connections > 0 }, "\(all.map(\.connections))")
            }
            for relay in all { await relay.stop() }
            await simulator.stop()
        }
    #endif

    @Test(
        "The first push over paths that a middlebox has forgotten waits for one check, with any number of connections",
        arguments: [1, 4]
    )
    func forgottenPaths(count: Int) async throws {
        let clock = ManualClock()
        let server = try await ScriptedServer.start()
        let relay = try await TCPRelay.start(to: server.port)
        var configuration = APNSClientConfiguration.local(port: relay.port, caPEM: server.caPEM)
        configuration.pool = .init(size: count, maxOverflow: 0, connectSpacing: .zero)
        configuration.use(clock)
        configuration.adjustConnection = { $0.pathCheck.busy = .hours(24) }
        try await withAPNSClient(configuration: configuration) { client in
            try await client.prewarm(count, within: Patience.limit)
            // Each connection has had a response.
            await withTaskGroup(of: Void.self) { group in
                for number in 0..<count {
                    group.addTask { _ = await client.deliver(samplePush(), to: DeviceToken.sample(number)) }
                }
            }
            clock.advance(by: .seconds(20))
            relay.forget()
            let isDone = Latch()
            let push = Task {
                defer { isDone.open() }
                return await client.deliver(samplePush(), to: deviceToken)
            }
            // The end of the check of the one connection that the push was given to.
            let checked = clock.now.advanced(by: .seconds(2))
            try await clock.advance(toWakeUpAt: checked)
            // The push pauses shortly if it was given to a sibling that did not know yet.
            await until {
                if await !waitsForServer([client]) { clock.advance(by: .milliseconds(1)) }
                return isDone.isOpen || checked.duration(to: clock.now) > .seconds(30)
            }
            #expect(await push.value.certainty == .accepted)
            #expect(checked.duration(to: clock.now) < .milliseconds(1900))
        }
        await relay.stop()
        await server.stop()
    }
}
