import APNSSimulator
import Foundation
import NIOHTTP1
import PushQueue
import PushQueueConformance
import RelayTestSupport
import ServiceLifecycle
import Synchronization
import Testing

@testable import APNSRelay

struct TLSTests {
    /// Certificates of one authority in a folder.
    private struct Files {
        let folder: URL
        let client: SimulatedCertificate

        var certificate: String { self.path("certificate.pem") }
        var key: String { self.path("key.pem") }
        var authority: String { self.path("authority.pem") }

        private func path(_ name: String) -> String { self.folder.appending(path: name).path }

        static func with(_ body: (Files) async throws -> Void) async throws {
            let simulator = try await Simulator.start()
            let client = try simulator.makeClientCertificate()
            await simulator.stop()
            let folder = FileManager.default.temporaryDirectory.appending(path: "relay-tls-\(UUID())")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(at: folder) }
            let files = Files(folder: folder, client: client)
            try Data(client.certificatePEM.utf8).write(to: URL(filePath: files.certificate))
            try Data(client.privateKeyPEM.utf8).write(to: URL(filePath: files.key))
            try Data(simulator.certificateAuthorityPEM.utf8).write(to: URL(filePath: files.authority))
            try await body(files)
        }

        func settings(_ change: (inout HTTPSettings) -> Void = { _ in }) -> RelaySettings {
            RelayServer.settings { settings in
                settings.http.certificateChainFile = self.certificate
                settings.http.privateKeyFile = self.key
                change(&settings.http)
            }
        }
    }

    /// The status of a request over TLS, with or without a client's certificate.
    private static func status(
        _ server: RelayServer,
        _ certificate: SimulatedCertificate? = nil
    ) async throws -> Int {
        let client = TestHTTPClient(
            certificate: certificate.map { .init(chain: $0.certificatePEM, key: $0.privateKeyPEM) }
        )
        return try await server.send(.POST, "/v1/pushes", body: RelayServer.push(), client: client).status
    }

    @Test("The API is served over TLS")
    func tls() async throws {
        try await Files.with { files in
            try await RelayServer.run(files.settings()) { server in
                let status = try await Self.status(server)
                #expect(status == 202)
            }
        }
    }

    @Test(
        "curl is served, whatever versions of TLS and HTTP it prefers",
        arguments: [["--tls-max", "1.2"], ["--tlsv1.3"], ["--http2"], ["--http1.0"]]
    )
    func curl(_ options: [String]) async throws {
        try await Files.with { files in
            try await RelayServer.run(files.settings()) { server in
                let process = Process()
                process.executableURL = URL(filePath: "/usr/bin/env")
                let limit = "\(Patience.limit.components.seconds)"
                process.arguments =
                    ["curl", "--silent", "--insecure", "--max-time", limit, "--write-out", "%{http_code}"]
                    + options + ["https://localhost:\(server.port)/live"]
                let output = Pipe.make()
                process.standardOutput = output
                await withCheckedContinuation { (ended: CheckedContinuation<Void, Never>) in
                    process.terminationHandler = { _ in ended.resume() }
                    do { try process.start() } catch { ended.resume() }
                }
                let text = String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
                #expect(text == "live200")
            }
        }
    }

    @Test("With authorities, callers need a certificate of one of them, and a token")
    func mutualTLS() async throws {
        try await Files.with { files in
            let settings = files.settings { $0.clientAuthoritiesFile = files.authority }
            let known = files.client
            let simulator = try await Simulator.start()
            let foreign = try simulator.makeClientCertificate()
            await simulator.stop()
            try await RelayServer.run(settings) { server in
                let status = try await Self.status(server, known)
                #expect(status == 202)
                await #expect(throws: (any Error).self) { try await Self.status(server) }
                await #expect(throws: (any Error).self) { try await Self.status(server, foreign) }
                #expect(server.queue.state.withLock { $0.pushes.count } == 1)
            }
        }
    }

    @Test("The doctor says when the certificate expires, and fails when it has expired or cannot be used")
    func expiry() async throws {
        try await Files.with { files in
            let settings = files.settings { $0.port = 8027 }
            let expiry = try #require(try TLSFiles(settings.http)?.expiry)
            // The simulator's certificates are valid for a year.
            let year = SystemQueueClock().now.duration(to: expiry) / .seconds(86_400)
            #expect((364.9...365).contains(year))
            let listens = "listens at 127.0.0.1:8027 with a chain of length 1; the certificate expires in"
            let remedy = "; replace it"
            for (days, isOK, message) in [
                (14.0, true, "\(listens) 14 days"), (13.9, true, "\(listens) 13 days\(remedy)"),
                (0, false, "the certificate expired 0 days ago\(remedy)"),
                (-2.5, false, "the certificate expired 2 days ago\(remedy)"),
            ] {
                let now = expiry.advanced(by: .seconds(-days * 86_400))
                let expected = RelayDoctor.Finding("http", isOK: isOK, message)
                #expect(RelayDoctor(settings).listening(now: now) == [expected])
            }
            let missing = files.settings { $0.privateKeyFile = "/missing.pem" }
            let finding = RelayDoctor(missing).listening(now: expiry).first
            #expect(finding?.isOK == false && finding?.message.contains("/missing.pem") == true)
        }
    }

    @Test("An error in a file names the file")
    func badFiles() async throws {
        try await Files.with { files in
            let empty = files.folder.appending(path: "empty.pem").path
            try Data().write(to: URL(filePath: empty))
            let simulator = try await Simulator.start()
            let other = files.folder.appending(path: "other.pem").path
            try Data(simulator.makeClientCertificate().privateKeyPEM.utf8).write(to: URL(filePath: other))
            await simulator.stop()
            let cases: [(String, (inout HTTPSettings) -> Void)] = [
                ("/missing.pem", { $0.certificateChainFile = "/missing.pem" }),
                ("/missing.pem", { $0.privateKeyFile = "/missing.pem" }),
                ("/missing.pem", { $0.clientAuthoritiesFile = "/missing.pem" }),
                (empty, { $0.certificateChainFile = empty }),
                (empty, { $0.privateKeyFile = empty }),
                (empty, { $0.clientAuthoritiesFile = empty }),
                (files.key, { $0.certificateChainFile = files.key }),
                (files.certificate, { $0.privateKeyFile = files.certificate }),
                (other, { $0.privateKeyFile = other }),
                ("private key", { $0.privateKeyFile = nil }),
                ("certificate chain", { $0.certificateChainFile = nil }),
            ]
            for (name, change) in cases {
                let settings = files.settings(change)
                let error = #expect(throws: RelayAPIError.self) { _ = try TLSFiles(settings.http) }
                #expect(error?.code == .tlsFileInvalid)
                #expect(error?.message.contains(name) == true, "\(error?.message ?? "")")
            }
        }
    }

    @Test("Bytes that are not TLS do not end the server")
    func plainText() async throws {
        try await Files.with { files in
            try await RelayServer.run(files.settings()) { server in
                let received = try await RawConnection.open(server) { connection in
                    try await connection.write("GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    return await connection.readToEnd()
                }
                #expect(!received.contains("200"))
                let status = try await Self.status(server)
                #expect(status == 202)
            }
        }
    }

    @Test("A refused body over TLS gets its response before the connection ends")
    func earlyResponse() async throws {
        try await Files.with { files in
            let settings = files.settings { $0.maxBodyBytes = 1_000 }
            try await RelayServer.run(settings) { server in
                let body = String(repeating: " ", count: 5_000_000)
                let received = try await server.send(.POST, "/v1/pushes", body: body)
                #expect(received.status == 413)
            }
        }
    }

    @Test("Callers need a certificate; probes and metrics have a port of their own, and need none")
    func probes() async throws {
        try await Files.with { files in
            let settings = files.settings { http in
                http.clientAuthoritiesFile = files.authority
                http.probePort = 0
            }
            let certificate = files.client
            try await RelayServer.run(settings) { server in
                let (ports, continuation) = AsyncStream.makeStream(of: Int.self)
                let probes = try #require(try server.api.makeProbes { continuation.yield($0) })
                let running = Task { try await probes.run() }
                let port = try #require(await ports.first { _ in true })
                let expected = ["live": 200, "ready": 200, "metrics": 200, "v1/outcomes": 404, "": 404]
                for (path, status) in expected {
                    let response = try await TestHTTPClient.shared.send(.GET, "http://127.0.0.1:\(port)/\(path)")
                    #expect(response.status == status, "\(path)")
                }
                #expect(try await Self.status(server, certificate) == 202)
                #expect(!server.api.routes.contains { ["/live", "/ready", "/metrics"].contains($0.path) })
                running.cancel()
                _ = await running.result
            }
        }
    }
}
