import APNSTransport
import NIOPosix
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// A server based on `APNSTransport` that accepts every push.
private struct AcceptingServer {
    let listener: Listener
    let caPEM: String

    static func start() async throws -> AcceptingServer {
        let authority = try CertificateAuthority()
        let identity = try authority.issue(names: ["localhost", "127.0.0.1"])
        var tls = TLSConfiguration()
        tls.certificateChainPEM = identity.certificateChainPEM
        tls.privateKeyPEM = identity.privateKeyPEM
        let listener = try await Listener.bind(
            host: "127.0.0.1",
            port: 0,
            tls: try TLSContext(.server, configuration: tls),
            group: MultiThreadedEventLoopGroup.singleton,
            configuration: { HTTP2ServerSession.Configuration() },
            accept: { AcceptingSession($0) }
        )
        return AcceptingServer(listener: listener, caPEM: authority.certificatePEM)
    }
}

private final class AcceptingSession: ServerConnectionDelegate {
    let connection: ServerConnection
    init(_ connection: ServerConnection) { self.connection = connection }
    func received(_ requests: [ServerRequest]) {
        for request in requests {
            var fields = FieldList()
            fields.append(name: "apns-id", value: request.fields.first("apns-id") ?? "")
            self.connection.respond(streamID: request.streamID, status: 200, fields: fields, body: [])
        }
        self.connection.flush()
    }
    func streamClosed(_ streamID: Int32, code: HTTP2ErrorCode) {}
    func closed(_ error: WireError) {}
}

struct FirstLightTests {
    @Test func pushesAndBulkCallsAreAccepted() async throws {
        let server = try await AcceptingServer.start()
        let configuration = APNSClientConfiguration.local(port: server.listener.port, caPEM: server.caPEM)
        let token = try DeviceToken(String(repeating: "ab", count: 32))
        try await withAPNSClient(configuration: configuration) { client in
            let notification = PushNotification(topic: "com.example.app", alert: "Hello")
            let receipt = try await client.send(notification, to: token)
            #expect(receipt.attempts == 1)
            let push = try notification.prepared()
            let summary = await client.sendAll(push, to: (0..<1000).map { _ in token })
            #expect(summary.accepted == 1000)
            await withTaskGroup(of: PushOutcome.self) { group in
                for _ in 0..<500 { group.addTask { await client.deliver(notification, to: token) } }
                for await outcome in group { #expect(outcome.certainty == .accepted) }
            }
        }
        await server.listener.close()
    }
}
