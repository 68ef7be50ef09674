import NIOCore
import Synchronization
import TestSupport
import Testing

@testable import APNSTransport

/// Connections through a proxy, over sockets.
struct ProxyTests {
    private func open(
        _ probe: ConnectionProbe,
        through port: Int,
        host: String = "127.0.0.1",
        credentials: ProxyEndpoint.Credentials? = nil,
        timeout: TimeAmount = .minutes(10),
        lookUp: (@Sendable (String, Int) -> Result<[SocketAddress], WireError>)? = nil
    ) async -> ConnectionProbe.Beginning {
        await probe.open {
            $0.proxy = ProxyEndpoint(host: host, port: port, credentials: credentials)
            $0.connectTimeout = timeout
            if let lookUp { $0.nameResolver = NameResolver(lookUp: lookUp) }
        }
    }

    @Test func requestsGoThroughTheTunnelAndTheProxyResolvesTheOrigin() async throws {
        let server = try await EchoServer.start()
        // The end of the response is written separately.
        let response = ["HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 Connec", "tion established\r\nVia: x\r\n\r", "\n"]
        let proxy = try await ScriptedProxy.start(.relay(response, to: server.port))
        let probe = ConnectionProbe(server: server)
        let asked = Mutex<[String]>([])
        let address = try SocketAddress(ipAddress: "127.0.0.1", port: proxy.port)
        let beginning = await self.open(probe, through: proxy.port, host: "proxy.invalid") { host, _ in
            asked.withLock { $0.append(host) }
            return .success([address])
        }
        #expect(beginning == .ready(maxConcurrentStreams: 100))
        #expect(await probe.send(["one", "two"]).map { String(decoding: $0.body, as: UTF8.self) } == ["one", "two"])
        #expect(asked.withLock { $0 } == ["proxy.invalid"])
        let origin = "localhost:\(server.port)"
        // One request, and no TLS bytes before the proxy's response.
        #expect(proxy.requests == ["CONNECT \(origin) HTTP/1.1\r\nHost: \(origin)\r\n\r\n"])
        await probe.close()
        _ = await probe.closed()
        await proxy.stop()
        await server.stop()
    }

    @Test(arguments: [
        ("HTTP/1.1 407 No\r\nProxy-Authenticate: Basic\r\n\r\n", WireError.Code.proxyAuthenticationFailed),
        ("HTTP/1.1 403 No\r\n\r\n", .proxyRefused), ("HTTP/1.1 502 No\r\n\r\n", .proxyFailed), ("", .proxyFailed),
        ("HTTP/1.1 200 OK\r\nVia: ", .proxyFailed), ("220 smtp.example.com\r\n", .notAProxy),
    ])
    func eachProxyFailureHasItsOwnCode(response: String, code: WireError.Code) async throws {
        let proxy = try await ScriptedProxy.start(.close(Array(response.utf8)))
        let probe = ConnectionProbe(host: "localhost", port: 1, tls: TLSConfiguration())
        #expect(await self.open(probe, through: proxy.port) == .closed(code))
        #expect(await probe.closeError?.message.contains("127.0.0.1:\(proxy.port)") == true)
        await proxy.stop()
    }

    /// The tunnel ends in the middle of the TLS handshake with the origin.
    @Test func aTunnelThatEndsCountsAsALostConnection() async throws {
        let proxy = try await ScriptedProxy.start(.close(Array("HTTP/1.1 200 OK\r\n\r\n".utf8)))
        let probe = ConnectionProbe(host: "localhost", port: 1, tls: TLSConfiguration())
        let beginning = await self.open(probe, through: proxy.port)
        #expect([.closed(.closedByPeer), .closed(.connectionReset)].contains(beginning), "\(beginning)")
        await proxy.stop()
    }

    @Test func aSilentProxyCausesAConnectTimeout() async throws {
        let proxy = try await ScriptedProxy.start(.silence)
        let probe = ConnectionProbe(host: "localhost", port: 1, tls: TLSConfiguration())
        let beginning = await self.open(probe, through: proxy.port, timeout: .milliseconds(300))
        #expect(beginning == .closed(.connectTimeout))
        #expect(await probe.closeError?.message.contains("127.0.0.1:\(proxy.port)") == true)
        // The socket does not outlive the connection.
        #expect(await eventually { proxy.closedConnections > 0 })
        await proxy.stop()
    }

    @Test func anUnreachableProxyIsNamedInTheError() async throws {
        let port = try #require(ClosedPort())
        let probe = ConnectionProbe(host: "localhost", port: 1, tls: TLSConfiguration())
        #expect(await self.open(probe, through: port.number) == .closed(.connectRefused))
        #expect(await probe.closeError?.message.contains("the proxy '127.0.0.1:\(port.number)'") == true)
    }

    // MARK: Tinyproxy

    private static let isInstalled = ForeignServer.isInstalled("tinyproxy")

    private func tinyproxy(_ lines: String...) async throws -> ForeignServer {
        let lines = lines.joined(separator: "\n")
        return try await ForeignServer.start(
            "tinyproxy",
            files: ["tinyproxy.conf": { "Port \($0)\nListen 127.0.0.1\nTimeout 60\nMaxClients 20\n\(lines)\n" }],
            arguments: { ["-d", "-c", "\($1)/tinyproxy.conf"] }
        )
    }

    @Test(.enabled(if: Self.isInstalled, "tinyproxy is not installed"), arguments: [false, true])
    func tinyproxyOpensATunnel(authenticates: Bool) async throws {
        let server = try await EchoServer.start()
        let proxy = try await self.tinyproxy(authenticates ? "BasicAuth fern s3cret" : "")
        let probe = ConnectionProbe(server: server)
        let credentials = authenticates ? ProxyEndpoint.Credentials(username: "fern", password: "s3cret") : nil
        #expect(
            await self.open(probe, through: proxy.port, credentials: credentials) == .ready(maxConcurrentStreams: 100)
        )
        let bodies = (0..<50).map { String(repeating: "\($0)", count: 2000) }
        let results = await probe.send(bodies).sorted { $0.tag.rawValue < $1.tag.rawValue }
        #expect(results.map { String(decoding: $0.body, as: UTF8.self) } == bodies)
        await probe.close()
        _ = await probe.closed()
        proxy.stop()
        await server.stop()
    }

    @Test(.enabled(if: Self.isInstalled, "tinyproxy is not installed"), arguments: [nil, "wrong"])
    func tinyproxyRefusesMissingOrWrongCredentials(password: String?) async throws {
        let proxy = try await self.tinyproxy("BasicAuth fern s3cret")
        let probe = ConnectionProbe(host: "localhost", port: 1, tls: TLSConfiguration())
        let credentials = password.map { ProxyEndpoint.Credentials(username: "fern", password: $0) }
        let beginning = await self.open(probe, through: proxy.port, credentials: credentials)
        let error = try #require(await probe.closeError)
        // Without credentials Tinyproxy sends 407. For wrong ones it sends 401, which is not meant for proxies.
        #expect(error.isConfiguration, "\(error)")
        #expect(beginning == .closed(.proxyAuthenticationFailed), "\(error)")
        proxy.stop()
    }

    @Test(.enabled(if: Self.isInstalled, "tinyproxy is not installed"))
    func tinyproxyReportsForbiddenPortsAndUnreachableOrigins() async throws {
        let forbidding = try await self.tinyproxy("ConnectPort 443")
        let probe = ConnectionProbe(host: "localhost", port: 1, tls: TLSConfiguration())
        #expect(await self.open(probe, through: forbidding.port) == .closed(.proxyRefused))
        forbidding.stop()
        let allowing = try await self.tinyproxy()
        let other = ConnectionProbe(host: "localhost", port: 1, tls: TLSConfiguration())
        #expect(await self.open(other, through: allowing.port) == .closed(.proxyFailed))
        allowing.stop()
    }
}
