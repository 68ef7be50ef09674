import NIOCore
import NIOPosix
import Testing

@testable import APNSTransport

/// Sends four million acknowledgements of PINGs that the client never sent. Reading them takes it some seconds.
private final class FloodingSession: ServerConnectionDelegate {
    private let connection: ServerConnection
    init(_ connection: ServerConnection) { self.connection = connection }

    func opened() {
        var pings = Frame(.ping, flags: Frame.ack, [UInt8](repeating: 0, count: 8)).bytes
        for _ in 0..<22 { pings += pings }
        let bytes = Frame.settings().bytes + pings
        self.connection.loop.assumeIsolated().execute {
            self.connection.write(bytes)
        }
    }
    func received(_ requests: [ServerRequest]) {}
    func streamClosed(_ streamID: Int32, code: HTTP2ErrorCode) {}
    func closed(_ error: WireError) {}
}

struct NetworkProbeTests {
    @Test("A probe ends even if the server never stops sending")
    func floodingServer() async throws {
        let authority = try CertificateAuthority()
        let identity = try authority.issue(names: ["localhost"])
        var serverTLS = TLSConfiguration()
        serverTLS.certificateChainPEM = identity.certificateChainPEM
        serverTLS.privateKeyPEM = identity.privateKeyPEM
        let listener = try await Listener.bind(
            host: "127.0.0.1",
            port: 0,
            tls: try TLSContext(.server, configuration: serverTLS),
            group: MultiThreadedEventLoopGroup.singleton,
            configuration: { HTTP2ServerSession.Configuration() },
            accept: { FloodingSession($0) }
        )
        var tls = TLSConfiguration()
        tls.caPEM = authority.certificatePEM
        tls.trustsSystemRoots = false
        var connection = Connection.Configuration(
            host: "127.0.0.1",
            port: listener.port,
            tls: try TLSContext(.client, configuration: tls),
            variableNames: [":path"]
        )
        connection.connectTimeout = .milliseconds(400)
        let finding = await NetworkProbe.examine(connection, authority: "localhost")
        #expect(finding.handshake?.distrust?.code == .certificateForOtherHost)
        #expect(finding.response == nil)
        let code = finding.error?.code
        // The time is over, or the server has sent too much.
        #expect(code == .connectTimeout || code == .flooded)
        await listener.close()
    }
}
