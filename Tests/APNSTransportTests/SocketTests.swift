import Foundation
import NIOCore
import NIOPosix
import TestSupport
import Testing

@testable import APNSTransport

/// A server on the library's own session type. It sends a fixed response to each request. Confined to one loop.
final class SlowServer: ServerConnectionDelegate {
    let connection: ServerConnection
    let response: [UInt8]
    init(_ connection: ServerConnection, response: [UInt8]) {
        self.connection = connection
        self.response = response
    }
    func received(_ requests: [ServerRequest]) {
        for request in requests {
            self.connection.respond(streamID: request.streamID, status: 200, fields: FieldList(), body: self.response)
        }
        self.connection.flush()
    }
    func streamClosed(_ streamID: Int32, code: HTTP2ErrorCode) {}
    func closed(_ error: WireError) {}
}

/// Resolves every host to `::1`, where nothing listens, and to `127.0.0.1`.
private struct TwoAddresses: Resolver, Sendable {
    let loop: any EventLoop
    func initiateAQuery(host: String, port: Int) -> EventLoopFuture<[SocketAddress]> {
        self.loop.makeCompletedFuture { [try SocketAddress(ipAddress: "127.0.0.1", port: port)] }
    }
    func initiateAAAAQuery(host: String, port: Int) -> EventLoopFuture<[SocketAddress]> {
        self.loop.makeCompletedFuture { [try SocketAddress(ipAddress: "::1", port: port)] }
    }
    func cancelQueries() {}
}

@Suite(.timeLimit(.minutes(5)), .serialized)
struct SocketTests {
    private static func descriptors() -> Int {
        (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count) ?? 0
    }

    /// Other suites open and close sockets meanwhile, so this count runs in its own process.
    @Test(.enabled(if: FileManager.default.fileExists(atPath: "/proc/self/fd"), "there is no /proc/self/fd"))
    func connectionsLeaveNoDescriptors() async {
        await #expect(processExitsWith: .success) {
            let server = try await EchoServer.start()
            func round(_ index: Int) async {
                let probe = ConnectionProbe(server: server, host: index % 2 == 0 ? "localhost" : "127.0.0.1")
                let beginning = await probe.open()
                #expect(beginning == .ready(maxConcurrentStreams: 100))
                #expect(await probe.send(["x"]).map(\.ending) == [.response])
                await probe.close()
                _ = await probe.closed()
            }
            for index in 0..<10 { await round(index) }
            let before = SocketTests.descriptors()
            for index in 0..<TestScale.size(100, thorough: 200) { await round(index) }
            // The server closes its sockets a little later: wait one tick of each loop at a time.
            var rest = 0
            for _ in 0..<1000 {
                rest = SocketTests.descriptors()
                if rest <= before { break }
                for loop in MultiThreadedEventLoopGroup.singleton.makeIterator() {
                    try await loop.submit {}.get()
                }
            }
            #expect(rest <= before)
            await server.stop()
        }
    }

    @Test func aClosedConnectionIsFreed() async throws {
        let server = try await EchoServer.start()
        let probe = ConnectionProbe(server: server)
        _ = await probe.open()
        _ = await probe.send(["x"])
        await probe.close()
        _ = await probe.closed()
        // NIO releases the channel within its next ticks.
        for _ in 0..<1000 where await probe.connectionIsHeldByOthers() {
            for loop in MultiThreadedEventLoopGroup.singleton.makeIterator() { try await loop.submit {}.get() }
        }
        #expect(await !probe.connectionIsHeldByOthers())
        await server.stop()
    }

    @Test func aPeerThatResumesReadingReceivesEverything() async throws {
        let server = try await EchoServer.start(session: { $0.maxConcurrentStreams = 10_000 })
        let relay = try await TCPRelay.start(to: server.port)
        let probe = ConnectionProbe(server: server, port: relay.port)
        // After two seconds without room, requests would return to the pool.
        let clock = StalledClock()
        #expect(await probe.open { $0.clock = clock } == .ready(maxConcurrentStreams: 10_000))
        try await relay.stall()
        // 16 MiB that the peer does not read: far more than the sockets' buffers and the window.
        let body = String(repeating: "x", count: 4000)
        await probe.submit(Array(repeating: probe.request(body: body), count: 4000))
        #expect(await probe.results.isEmpty)
        try await relay.resume()
        let results = await probe.results(4000)
        #expect(results.count == 4000)
        let others = results.filter { $0.ending != .response }
        #expect(others.isEmpty, "\(others.count) without a response, the first: \(String(describing: others.first))")
        // A session keeps 1 MiB of incomplete responses. Beyond that it cuts the bodies.
        let cut = results.filter { $0.body.count != 4000 }
        #expect(cut.count < 2000, "\(cut.count) bodies are cut, the first has \(cut.first?.body.count ?? 0) bytes")
        await probe.close()
        await relay.stop()
        await server.stop()
    }

    @Test func aHugeResponseIsReadAndCapped() async throws {
        let authority = try CertificateAuthority()
        let identity = try authority.issue(names: ["localhost"])
        var tls = TLSConfiguration()
        tls.certificateChainPEM = identity.certificateChainPEM
        tls.privateKeyPEM = identity.privateKeyPEM
        let listener = try await Listener.bind(
            host: "127.0.0.1",
            port: 0,
            tls: TLSContext(.server, configuration: tls),
            group: MultiThreadedEventLoopGroup.singleton,
            configuration: { HTTP2ServerSession.Configuration() },
            accept: { SlowServer($0, response: [UInt8](repeating: 7, count: 2_000_000)) }
        )
        var client = TLSConfiguration()
        client.caPEM = authority.certificatePEM
        let probe = ConnectionProbe(host: "localhost", port: listener.port, tls: client)
        _ = await probe.open()
        let results = await probe.send(["a", "b", "c", "d"])
        #expect(results.allSatisfy { $0.ending == .response && $0.body.count == StreamTable.bodyLimit })
        await probe.close()
        await listener.close()
    }

    @Test func aServerThatAcceptsButStaysSilentTimesOut() async throws {
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .bind(host: "127.0.0.1", port: 0).get()
        let port = try #require(channel.localAddress?.port)
        let probe = ConnectionProbe(host: "localhost", port: port, tls: TLSConfiguration())
        let beginning = await probe.open { $0.connectTimeout = .milliseconds(300) }
        #expect(beginning == .closed(.connectTimeout))
        #expect(await probe.closeError?.isConfiguration == false)
        try await channel.close().get()
    }

    @Test func aSilentPeerCausesAPingTimeout() async throws {
        let server = try await EchoServer.start()
        let relay = try await TCPRelay.start(to: server.port)
        let probe = ConnectionProbe(server: server, port: relay.port)
        _ = await probe.open {
            $0.pathCheck.busy = .milliseconds(100)
            $0.pathCheck.acknowledgement = .milliseconds(100)
        }
        try await relay.stall()
        let results = await probe.send(["x"])
        #expect(results.map(\.ending) == [.unknown])
        #expect(await probe.closed().code == .pingTimeout)
        await relay.stop()
        await server.stop()
    }

    /// If one of several addresses fails, the connect to another one goes on.
    @Test func aRefusingAddressDoesNotStopTheNextOne() async throws {
        let server = try await EchoServer.start()
        let probe = ConnectionProbe(server: server)
        let resolver = TwoAddresses(loop: MultiThreadedEventLoopGroup.singleton.next())
        #expect(await probe.open(resolver: resolver) == .ready(maxConcurrentStreams: 100))
        #expect(await probe.send(["x"]).map(\.ending) == [.response])
        await probe.close()
        await server.stop()
    }
}
