import APNSTransport
import NIOCore
import NIOPosix
import SupervisedPool
import Synchronization
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// Servers that cannot be reached, are not trusted, or refuse the client.
struct ConnectFaultTests {
    /// Runs a client around `body`. The client must end whatever its server does.
    private func withClient(
        _ configuration: APNSClientConfiguration,
        _ body: (APNSClient) async throws -> Void
    ) async throws {
        let client = try APNSClient(configuration: configuration)
        try await client.start()
        try await body(client)
        await client.shutdown(within: .zero)
        #expect(client.runtime.lifecycle.pushesInFlight == 0)
    }

    @Test func aPushToAClosedPortWaitsUntilItsDeadline() async throws {
        let port = try #require(ClosedPort())
        defer { withExtendedLifetime(port) {} }
        try await withClient(.local(port: port.number, caPEM: nil)) { client in
            let outcome = await client.deliver(
                samplePush(),
                to: deviceToken,
                options: DeliveryOptions(deadline: .milliseconds(500))
            )
            #expect(outcome.certainty == .notSent)
            #expect(outcome.error?.code == .deadlineExceeded)
            #expect(outcome.canResend)
        }
    }

    @Test func aClosedPortMakesTheClientUnavailable() async throws {
        let port = try #require(ClosedPort())
        defer { withExtendedLifetime(port) {} }
        var configuration = APNSClientConfiguration.local(port: port.number, caPEM: nil)
        configuration.pool.unavailableAfter = .milliseconds(300)
        try await withClient(configuration) { client in
            let outcome = await client.deliver(samplePush(), to: deviceToken)
            #expect(outcome.certainty == .notSent)
            #expect(outcome.error?.code == .unavailable)
            #expect(await client.deliver(samplePush(), to: deviceToken).error?.code == .unavailable)
        }
    }

    @Test func aHostThatDoesNotExistIsAConfigurationFault() async throws {
        let clock = ManualClock()
        let lookUps = Journal<MonotonicInstant>()
        var configuration = APNSClientConfiguration.local(port: 443, caPEM: nil, host: "nowhere.invalid")
        configuration.use(clock)
        let adjust = configuration.adjustConnection
        configuration.adjustConnection = {
            adjust?(&$0)
            $0.nameResolver = NameResolver { host, _ in
                lookUps.write(clock.now)
                return .failure(WireError(.hostNotFound, "the host '\(host)' does not exist"))
            }
        }
        try await withClient(configuration) { client in
            // The clock stands still, so the push does not wait.
            let outcome = await client.deliver(samplePush(), to: deviceToken)
            #expect(outcome.certainty == .notSent && outcome.error?.code == .configuration)
            #expect(outcome.error?.message.contains("'nowhere.invalid' does not exist") == true, "\(outcome)")
            let first = clock.now
            #expect(lookUps.entries == [first])
            // No push brings the next look-up forward.
            await until { clock.nextWakeUp == first.advanced(by: .seconds(5)) }
            clock.advance(by: .milliseconds(4999))
            #expect(await client.deliver(samplePush(), to: deviceToken).error?.code == .configuration)
            #expect(lookUps.entries == [first])
            clock.advance(by: .milliseconds(1))
            await lookUps.wait(count: 2)
            #expect(lookUps.entries == [first, first.advanced(by: .seconds(5))])
        }
    }

    @Test("If so configured, pushes wait for a connection, however long there is none")
    func pushesMayWaitForAConnection() async throws {
        let clock = ManualClock()
        let server = try await ScriptedServer.start()
        let closed = try #require(ClosedPort())
        let network = AddressSwitch(closed.number)
        var configuration = APNSClientConfiguration.local(server)
        configuration.use(clock)
        configuration.timeouts.deadline = .seconds(3600)
        configuration.pool.unavailableAfter = .seconds(10)
        configuration.pool.whenUnavailable = .wait
        network.apply(to: &configuration)
        try await withClient(configuration) { client in
            let early = Task { await client.deliver(samplePush(), to: deviceToken) }
            let end = clock.now.advanced(by: .seconds(60))
            await until {
                clock.advance(by: .milliseconds(100))
                return clock.now >= end
            }
            await until { await client.health.cause?.code == .unreachable }
            let late = Task { await client.deliver(samplePush(), to: DeviceToken.sample(1)) }
            await until { await client.status.pool.queueDepth == 2 }
            network.point(to: server.port)
            let outcomes = Task { await [early.value, late.value] }
            #expect(await ends(advancing: clock) { _ = await outcomes.value })
            #expect(await outcomes.value.map(\.certainty) == [.accepted, .accepted])
        }
        await server.stop()
    }

    @Test func anUntrustedCertificateFailsAtOnce() async throws {
        let server = try await ScriptedServer.start()
        var configuration = APNSClientConfiguration.local(port: server.port, caPEM: nil)
        // The clock stands still, so neither the deadline nor the hold-off ends.
        configuration.use(ManualClock())
        try await withClient(configuration) { client in
            let outcome = await client.deliver(samplePush(), to: deviceToken)
            #expect(outcome.certainty == .notSent)
            #expect(outcome.error?.code == .configuration)
            #expect(outcome.advice == .checkEnvironment)
            // During the hold-off the client does not connect, and all pushes fail at once.
            for _ in 0..<20 {
                #expect(await client.deliver(samplePush(), to: deviceToken).error?.code == .configuration)
            }
            #expect(server.record.connections == 1)
        }
        await server.stop()
    }

    @Test func aCertificateForAnotherHostFailsAtOnce() async throws {
        let server = try await ScriptedServer.start(names: ["example.com"])
        try await withClient(.local(server)) { client in
            let outcome = await client.deliver(samplePush(), to: deviceToken)
            #expect(outcome.error?.code == .configuration)
            #expect(outcome.error?.message.contains("localhost") == true)
        }
        await server.stop()
    }

    @Test func aPushToAServerThatClosesAtOnceIsNotSent() async throws {
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { $0.close() }
            .bind(host: "127.0.0.1", port: 0).get()
        let port = try #require(listener.localAddress?.port)
        try await withClient(.local(port: port, caPEM: nil)) { client in
            let outcome = await client.deliver(
                samplePush(),
                to: deviceToken,
                options: DeliveryOptions(deadline: .seconds(1))
            )
            #expect(outcome.certainty == .notSent)
        }
        try await listener.close()
    }

    @Test func aServerWithoutTLSIsAConfigurationFault() async throws {
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { $0.pipeline.addHandler(Greeter()) }
            .bind(host: "127.0.0.1", port: 0).get()
        let port = try #require(listener.localAddress?.port)
        try await withClient(.local(port: port, caPEM: nil)) { client in
            let outcome = await client.deliver(samplePush(), to: deviceToken)
            #expect(outcome.certainty == .notSent)
            #expect(outcome.error?.code == .configuration)
        }
        try await listener.close()
    }

    @Test func aServerThatIgnoresTheHandshakeTimesOut() async throws {
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .bind(host: "127.0.0.1", port: 0).get()
        let port = try #require(listener.localAddress?.port)
        var configuration = APNSClientConfiguration.local(port: port, caPEM: nil)
        configuration.timeouts.connect = .milliseconds(200)
        try await withClient(configuration) { client in
            let outcome = await client.deliver(
                samplePush(),
                to: deviceToken,
                options: DeliveryOptions(deadline: .seconds(1))
            )
            #expect(outcome.certainty == .notSent)
            #expect(outcome.error?.code == .deadlineExceeded)
        }
        try await listener.close()
    }

    @Test func aCertificateRefusedByTwoConnectionsIsACredentialFault() async throws {
        let script: ScriptedServer.Script = { _ in
            [.goAway(includingThis: false, debugData: #"{"reason":"BadCertificateEnvironment"}"#)]
        }
        try await withServer(script: script) { client, server in
            // One server may be wrong, so the push is resent once on another connection.
            let outcome = await client.deliver(samplePush(), to: deviceToken)
            #expect(outcome.certainty == .notProcessed)
            #expect(outcome.attempts == 2)
            let next = await client.deliver(samplePush(), to: deviceToken)
            #expect(next.error?.code == .credential)
            #expect(next.retryAfter ?? .zero > .zero)
            #expect(server.record.connections == 2)
            #expect(await client.status.hasCredentialFault)
        }
    }

    @Test func aCertificateRefusedByOneConnectionIsNoFault() async throws {
        let script: ScriptedServer.Script = { push in
            push.connection == 1
                ? [.goAway(includingThis: false, debugData: #"{"reason":"BadCertificateEnvironment"}"#)]
                : [.respond(200)]
        }
        try await withServer(script: script) { client, server in
            let outcome = await client.deliver(samplePush(), to: deviceToken)
            #expect(outcome.certainty == .accepted && outcome.attempts == 2)
            #expect(await !client.status.hasCredentialFault)
        }
    }
}

extension ConnectFaultTests {
    @Test func aCertificateAlertOnTwoConnectionsIsACredentialFault() async throws {
        let connections = Atomic<Int>(0)
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                connections.wrappingAdd(1, ordering: .relaxed)
                return channel.pipeline.addHandler(CertificateRefuser())
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let port = try #require(listener.localAddress?.port)
        let clock = ManualClock()
        var configuration = APNSClientConfiguration.local(port: port, caPEM: nil)
        configuration.use(clock)
        let client = try APNSClient(configuration: configuration)
        try await client.start()
        let push = Task { await client.deliver(samplePush(), to: deviceToken) }
        // The push waits for a second connection to confirm the fault, but not until its deadline.
        #expect(await ends(advancing: clock, for: [client]) { _ = await push.value })
        let outcome = await push.value
        #expect(outcome.error?.code == .credential && outcome.certainty == .notSent)
        #expect(outcome.retryAfter ?? .zero > .seconds(3))
        #expect(await client.status.hasCredentialFault)
        #expect(await client.deliver(samplePush(), to: deviceToken).error?.code == .credential)
        #expect(connections.load(ordering: .relaxed) == 2)
        await client.shutdown(within: .zero)
        try await listener.close()
    }
}

/// Responds to the first bytes with the TLS alert `bad_certificate` (RFC 8446, section 6.2).
private final class CertificateRefuser: ChannelInboundHandler, Sendable {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let alert = ByteBuffer(bytes: [0x15, 3, 3, 0, 2, 2, 42])
        context.writeAndFlush(self.wrapOutboundOut(alert), promise: nil)
        context.close(promise: nil)
    }
}

/// Sends plain text first, and no TLS.
private final class Greeter: ChannelInboundHandler, Sendable {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    func channelActive(context: ChannelHandlerContext) {
        context.writeAndFlush(
            self.wrapOutboundOut(ByteBuffer(string: "HTTP/1.1 400 Bad Request\r\n\r\n")),
            promise: nil
        )
    }
}
