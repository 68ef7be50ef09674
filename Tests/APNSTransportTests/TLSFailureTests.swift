import Foundation
import NIOCore
import NIOPosix
import TestSupport
import Testing

@testable import APNSTransport

/// A server that sends first, and does not use TLS.
private final class Greeter: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    func channelActive(context: ChannelHandlerContext) {
        let greeting = ByteBuffer(string: "HTTP/1.1 400 Bad Request\r\n\r\n")
        context.writeAndFlush(self.wrapOutboundOut(greeting), promise: nil)
    }
}

/// The error codes of bad certificates, wrong ports and missing trust roots, and how soon they are reported.
struct TLSFailureTests {
    /// Opens a connection that must fail with this code, not by a timeout.
    private func expectFailure(
        _ code: WireError.Code,
        isConfiguration: Bool,
        host: String = "localhost",
        port: Int,
        tls: TLSConfiguration = TLSConfiguration(),
        at location: SourceLocation = #_sourceLocation
    ) async {
        let probe = ConnectionProbe(host: host, port: port, tls: tls)
        // The connect timeout is longer than this test may take.
        let beginning = await probe.open()
        #expect(beginning == .closed(code), sourceLocation: location)
        if let error = await probe.closeError {
            #expect(error.isConfiguration == isConfiguration, "\(error)", sourceLocation: location)
            #expect(!error.message.isEmpty && !error.message.contains("no further detail"), sourceLocation: location)
        }
        #expect(await probe.results.isEmpty, sourceLocation: location)
    }

    private func trusting(_ pem: String) -> TLSConfiguration {
        var tls = TLSConfiguration()
        tls.caPEM = pem
        tls.trustsSystemRoots = false
        return tls
    }

    // MARK: Certificates

    @Test func anUntrustedCertificateFails() async throws {
        let server = try await EchoServer.start()
        let stranger = try CertificateAuthority()
        await self.expectFailure(
            .certificateUntrusted,
            isConfiguration: true,
            port: server.port,
            tls: self.trusting(stranger.certificatePEM)
        )
        await server.stop()
    }

    @Test(arguments: [
        (-200_000, -100_000, WireError.Code.certificateExpired), (100_000, 200_000, .certificateNotYetValid),
    ])
    func aCertificateOutsideItsValidityFails(_ from: Int, _ to: Int, _ code: WireError.Code) async throws {
        let authority = try CertificateAuthority()
        let identity = try authority.issue(names: ["localhost"], validFrom: from, validTo: to)
        let server = try await EchoServer.start { tls in
            tls.certificateChainPEM = identity.certificateChainPEM
            tls.privateKeyPEM = identity.privateKeyPEM
        }
        let tls = self.trusting(authority.certificatePEM)
        await self.expectFailure(code, isConfiguration: true, port: server.port, tls: tls)
        await server.stop()
    }

    @Test(arguments: [
        (["example.com"], "localhost"), (["localhost"], "127.0.0.1"), (["127.0.0.2"], "127.0.0.1"),
        (["127.0.0.1"], "localhost"),
    ])
    func aCertificateForAnotherHostFails(_ names: [String], _ host: String) async throws {
        let server = try await EchoServer.start(names: names)
        let tls = self.trusting(server.caPEM)
        let code = WireError.Code.certificateForOtherHost
        await self.expectFailure(code, isConfiguration: true, host: host, port: server.port, tls: tls)
        await server.stop()
    }

    @Test("A host name with a trailing dot matches the certificate's name without it")
    func dotAtTheEnd() async throws {
        let server = try await EchoServer.start(names: ["push.example.com"])
        let found = [try SocketAddress(ipAddress: "127.0.0.1", port: server.port)]
        let probe = ConnectionProbe(server: server, host: "push.example.com.")
        #expect(
            await probe.open { $0.nameResolver = NameResolver { _, _ in .success(found) } }
                == .ready(maxConcurrentStreams: 100)
        )
        await probe.close()
        await server.stop()
    }

    @Test(
        "An empty host or one that begins with a dot is a configuration error",
        arguments: [".example.com", ".", "", ".."]
    )
    func dotAtTheBeginning(_ host: String) async throws {
        let server = try await EchoServer.start(names: ["push.example.com"])
        let found = [try SocketAddress(ipAddress: "127.0.0.1", port: server.port)]
        let probe = ConnectionProbe(server: server, host: host)
        #expect(
            await probe.open { $0.nameResolver = NameResolver { _, _ in .success(found) } } == .closed(.hostNotFound)
        )
        #expect(await probe.closeError?.isConfiguration == true)
        await server.stop()
    }

    @Test("A name in the subject alone does not count as a name of the certificate")
    func nameInTheSubjectOnly() async throws {
        // The subject of its certificate is "localhost".
        let server = try await EchoServer.start(names: [])
        let tls = self.trusting(server.caPEM)
        await self.expectFailure(.certificateForOtherHost, isConfiguration: true, port: server.port, tls: tls)
        await server.stop()
    }

    @Test func anAddressInTheCertificateConnects() async throws {
        let server = try await EchoServer.start(names: ["127.0.0.1"])
        let probe = ConnectionProbe(server: server, host: "127.0.0.1")
        #expect(await probe.open() == .ready(maxConcurrentStreams: 100))
        #expect(await probe.send(["x"]).map(\.ending) == [.response])
        await probe.close()
        await server.stop()
    }

    @Test(arguments: [TLSConfiguration.Version.tls12, .tls13])
    func onlyACommonTLSVersionConnects(_ version: TLSConfiguration.Version) async throws {
        let server = try await EchoServer.start { tls in
            tls.minimumVersion = version
            tls.maximumVersion = version
        }
        let probe = ConnectionProbe(server: server)
        #expect(await probe.open() == .ready(maxConcurrentStreams: 100))
        #expect(await probe.send(["a", "b"]).count == 2)
        await probe.close()
        var tls = self.trusting(server.caPEM)
        tls.minimumVersion = version == .tls12 ? .tls13 : .tls12
        tls.maximumVersion = tls.minimumVersion
        await self.expectFailure(.handshakeFailed, isConfiguration: false, port: server.port, tls: tls)
        await server.stop()
    }

    // MARK: Not HTTP/2

    @Test func aServerWithoutHTTP2Fails() async throws {
        let server = try await EchoServer.start { $0.offersHTTP1Only = true }
        let tls = self.trusting(server.caPEM)
        await self.expectFailure(.noHTTP2, isConfiguration: true, port: server.port, tls: tls)
        await server.stop()
    }

    private static let hasOpenSSL = ForeignServer.isInstalled("openssl")

    private func startOpenSSL(_ arguments: [String]) async throws -> ForeignServer {
        try await ForeignServer.start("openssl") { port, _ in
            ["s_server", "-accept", "127.0.0.1:\(port)", "-cert", "cert.pem", "-key", "key.pem", "-quiet"] + arguments
        }
    }

    @Test(.enabled(if: hasOpenSSL, "openssl is not installed")) func aServerWithoutALPNFails() async throws {
        let server = try await self.startOpenSSL([])
        defer { server.stop() }
        let tls = self.trusting(server.caPEM)
        await self.expectFailure(.noHTTP2, isConfiguration: true, port: server.port, tls: tls)
    }

    @Test(.enabled(if: hasOpenSSL, "openssl is not installed"), arguments: ["-tls1_3", "-tls1_2"])
    func aServerThatRequiresACertificateFails(_ version: String) async throws {
        let server = try await self.startOpenSSL(["-Verify", "1", "-alpn", "h2", version])
        defer { server.stop() }
        let tls = self.trusting(server.caPEM)
        await self.expectFailure(.clientCertificateRefused, isConfiguration: true, port: server.port, tls: tls)
    }

    @Test(.enabled(if: hasOpenSSL, "openssl is not installed"), arguments: ["-tls1_3", "-tls1_2"])
    func aServerThatRefusesTheCertificateFails(_ version: String) async throws {
        let server = try await self.startOpenSSL([
            "-Verify", "1", "-verify_return_error", "-CAfile", "ca.pem", "-alpn", "h2", version,
        ])
        defer { server.stop() }
        let stranger = try CertificateAuthority(commonName: "Stranger").issue(names: ["client"])
        var tls = self.trusting(server.caPEM)
        tls.certificateChainPEM = stranger.certificateChainPEM
        tls.privateKeyPEM = stranger.privateKeyPEM
        await self.expectFailure(.clientCertificateRefused, isConfiguration: true, port: server.port, tls: tls)
    }

    // MARK: No TLS, no server

    @Test func aServerWithoutTLSFails() async throws {
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { child in
                child.eventLoop.makeCompletedFuture { try child.pipeline.syncOperations.addHandler(Greeter()) }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let port = try #require(channel.localAddress?.port)
        await self.expectFailure(.notTLS, isConfiguration: true, port: port)
        try await channel.close().get()
    }

    @Test(arguments: ["localhost", "127.0.0.1", "::1"])
    func aClosedPortRefusesTheConnection(_ host: String) async throws {
        let port = try #require(ClosedPort())
        let probe = ConnectionProbe(host: host, port: port.number, tls: TLSConfiguration())
        defer { withExtendedLifetime(port) {} }
        let beginning = await probe.open()
        // A machine without IPv6 reports another error for ::1.
        #expect(beginning == .closed(.connectRefused) || (host == "::1" && beginning == .closed(.connectFailed)))
        #expect(await probe.closeError?.isConfiguration == false)
    }

    @Test func aHostThatDoesNotExistFails() async throws {
        let probe = ConnectionProbe(host: "nobody.invalid", port: 443, tls: TLSConfiguration())
        let beginning = await probe.open()
        // Without a name server the look-up ends with a temporary error.
        #expect([.closed(.hostNotFound), .closed(.nameResolutionFailed)].contains(beginning))
        if beginning == .closed(.hostNotFound) { #expect(await probe.closeError?.isConfiguration == true) }
    }

    @Test func aServerThatClosesAtOnceFails() async throws {
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { $0.close() }
            .bind(host: "127.0.0.1", port: 0).get()
        let port = try #require(channel.localAddress?.port)
        let probe = ConnectionProbe(host: "127.0.0.1", port: port, tls: TLSConfiguration())
        let beginning = await probe.open()
        #expect([.closed(.closedByPeer), .closed(.connectionReset)].contains(beginning))
        try await channel.close().get()
    }

    // MARK: Trust roots and the client certificate

    private func code(_ change: (inout TLSConfiguration) throws -> Void) rethrows -> WireError.Code? {
        var configuration = TLSConfiguration()
        try change(&configuration)
        do {
            _ = try TLSContext(.client, configuration: configuration)
            return nil
        } catch {
            #expect(error.isConfiguration)
            return error.code
        }
    }

    @Test func filesAndTextsWithoutCertificatesAreRejected() throws {
        let garbage = NSTemporaryDirectory() + "http2wire-" + UUID().uuidString + ".pem"
        try "not a certificate".write(toFile: garbage, atomically: true, encoding: .utf8)
        defer { try? FileManager.default.removeItem(atPath: garbage) }
        #expect(self.code { $0.caFile = "/nowhere/ca.pem" } == .trustRootsUnreadable)
        #expect(self.code { $0.caFile = garbage } == .trustRootsUnreadable)
        #expect(self.code { $0.caFile = NSTemporaryDirectory() } == .trustRootsUnreadable)
        #expect(self.code { $0.caPEM = "" } == .trustRootsUnreadable)
        #expect(self.code { $0.caPEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n" } != nil)
    }

    @Test("A damaged certificate after a good one is an error, and other text after it is not")
    func damagedChain() throws {
        let first = try CertificateAuthority().certificatePEM
        let second = try CertificateAuthority().certificatePEM
        let damaged = second.replacing("\n", with: "\n!", maxReplacements: 3)
        #expect(self.code { $0.caPEM = first + damaged + second } == .trustRootsUnreadable)
        #expect(self.code { $0.caPEM = first + second + "and so on\n" } == nil)
        let identity = try CertificateAuthority().issue(names: ["a"])
        #expect(
            self.code {
                $0.certificateChainPEM = identity.certificateChainPEM + damaged
                $0.privateKeyPEM = identity.privateKeyPEM
            } == .certificateUnusable
        )
    }

    /// OpenSSL would otherwise ask for a passphrase on the terminal.
    @Test("A certificate in an encrypted block is refused without a question") func encryptedCertificate() async {
        await #expect(processExitsWith: .success) {
            // Without a terminal, a question would fail, so the error's text must show that there was none.
            let pem = try CertificateAuthority().certificatePEM
            let header = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00112233445566778899AABBCCDDEEFF\n\n"
            let begin = "-----BEGIN CERTIFICATE-----\n"
            let error = #expect(throws: WireError.self) {
                _ = try PEM.certificates(in: pem.replacing(begin, with: begin + header), code: .trustRootsUnreadable)
            }
            #expect(error?.message.contains("bad password read") == true, "\(error?.message ?? "")")
            #expect(error?.message.contains("processing") == false, "\(error?.message ?? "")")
        }
    }

    @Test func certificatesAndKeysThatDoNotMatchAreRejected() throws {
        let authority = try CertificateAuthority()
        let one = try authority.issue(names: ["a"])
        let other = try authority.issue(names: ["b"])
        #expect(
            self.code {
                $0.certificateChainPEM = one.certificateChainPEM
                $0.privateKeyPEM = other.privateKeyPEM
            } == .certificateUnusable
        )
        #expect(
            self.code {
                $0.certificateChainPEM = "garbage"
                $0.privateKeyPEM = one.privateKeyPEM
            } == .certificateUnusable
        )
        #expect(
            self.code {
                $0.certificateChainPEM = one.certificateChainPEM
                $0.privateKeyPEM = "garbage"
            } == .certificateUnusable
        )
        #expect(self.code { $0.certificateChainPEM = one.certificateChainPEM } == .certificateUnusable)
        #expect(self.code { $0.privateKeyPEM = one.privateKeyPEM } == .certificateUnusable)
    }

    /// The environment belongs to the whole process, so this test runs in its own process.
    @Test func aMachineWithoutTrustRootsIsAConfigurationError() async {
        await #expect(processExitsWith: .success) {
            setenv("SSL_CERT_FILE", "/nowhere/cert.pem", 1)
            setenv("SSL_CERT_DIR", "/nowhere/certs", 1)
            #expect(throws: Never.self) {
                var configuration = TLSConfiguration()
                configuration.caPEM = try CertificateAuthority().certificatePEM
                _ = try TLSContext(.client, configuration: configuration)
            }
            let error = #expect(throws: WireError.self) {
                _ = try TLSContext(.client, configuration: TLSConfiguration())
            }
            #expect(error?.code == .trustStoreMissing)
            #expect(error?.isConfiguration == true)
        }
    }

    /// A loop thread may still use OpenSSL while another thread has called `exit()`.
    @Test("OpenSSL still works while the exit handlers run") func openSSLOutlivesExit() async {
        await #expect(processExitsWith: .success) {
            // Exit handlers run in reverse order: this one runs after any handler that OpenSSL registers later.
            atexit {
                if (try? SHA256Digest.hexadecimal(of: [1])) == nil { _exit(1) }
            }
            _ = try SHA256Digest.hexadecimal(of: [0])
            exit(0)
        }
        // A simulator's first use of OpenSSL.
        await #expect(processExitsWith: .success) {
            atexit {
                if (try? SHA256Digest.hexadecimal(of: [1])) == nil { _exit(1) }
            }
            _ = try CertificateAuthority()
            exit(0)
        }
    }
}
