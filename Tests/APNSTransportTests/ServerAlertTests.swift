import CAPNSOpenSSL
import NIOCore
import Testing

@testable import APNSTransport

/// TLS alerts that a server session writes itself, tested without a socket.
struct ServerAlertTests {
    private func pair(
        suites: String?,
        version: TLSConfiguration.Version = .tls13
    ) throws -> (client: TLSSession, server: TLSSession) {
        let authority = try CertificateAuthority()
        let identity = try authority.issue(names: ["localhost"])
        var own = TLSConfiguration()
        own.certificateChainPEM = identity.certificateChainPEM
        own.privateKeyPEM = identity.privateKeyPEM
        own.sendsAnyAlert = true
        var trusting = TLSConfiguration()
        trusting.caPEM = authority.certificatePEM
        trusting.trustsSystemRoots = false
        trusting.maximumVersion = version
        let context = try TLSContext(.client, configuration: trusting)
        if let suites { #expect(SSL_CTX_set_ciphersuites(context.pointer, suites) == 1) }
        return (
            try TLSSession(context: context, peerName: "localhost"),
            try TLSSession(context: try TLSContext(.server, configuration: own), peerName: "")
        )
    }

    private func move(_ from: TLSSession, _ to: TLSSession) {
        var buffer = ByteBuffer()
        from.takeOutput(into: &buffer)
        buffer.withUnsafeReadableBytes { to.feed($0) }
    }

    private func shake(_ client: TLSSession, _ server: TLSSession) -> Bool {
        var complete = 0
        for _ in 0..<6 where complete < 2 {
            complete = 0
            for (one, other) in [(client, server), (server, client)] {
                if case .complete = one.handshake() { complete += 1 }
                self.move(one, other)
            }
        }
        return complete == 2
    }

    @Test(
        arguments: ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"],
        [0, 1, 300]
    )
    func clientsAcceptTheAlert(suite: String, records: Int) throws {
        let (client, server) = try self.pair(suites: suite)
        #expect(self.shake(client, server))
        var piece = [UInt8](repeating: 0, count: 16_384)
        for number in 0..<records {
            // Every third message is longer than a record.
            let bytes = [UInt8](repeating: 7, count: number.isMultiple(of: 3) ? 20_000 : 10)
            #expect(bytes.withUnsafeBytes { server.write($0) } == nil)
            self.move(server, client)
            var count = 0
            while case .bytes(let more) = piece.withUnsafeMutableBytes({ client.read(into: $0) }) { count += more }
            #expect(count == bytes.count)
        }
        #expect(server.appendAlert(45))
        self.move(server, client)
        guard case .failed(let error) = piece.withUnsafeMutableBytes({ client.read(into: $0) }) else {
            Issue.record("the client did not receive the alert")
            return
        }
        #expect(error.code == .clientCertificateRefused && error.message.contains("certificate expired"))
    }

    @Test func noAlertIsSentBeforeTheHandshakeOrInTLS12() throws {
        let (client, server) = try self.pair(suites: nil, version: .tls12)
        #expect(server.appendAlert(42) == false)
        #expect(self.shake(client, server))
        #expect(server.appendAlert(42) == false)
        #expect(server.outputCount == 0)
    }
}
