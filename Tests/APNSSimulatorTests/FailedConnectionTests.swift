import APNSModel
import NIOCore
import NIOPosix
import Synchronization
import TestSupport
import Testing

@testable import APNSSimulator
@testable import APNSTransport

private let hasClients = Command.path(of: "curl") != nil && Command.path(of: "openssl") != nil

/// Clients that do not get as far as their first request. Each leaves a trace that names the cause and the remedy.
struct FailedConnectionTests {
    struct Case: CustomStringConvertible, Sendable {
        var cause: FailedConnection.Cause
        /// The command and its arguments. `PORT` and `CA` are replaced.
        var command: [String]
        var words: String
        var remedy: String

        var description: String { "\(self.cause): \(self.command.joined(separator: " "))" }
    }

    private static let curl = ["curl", "--silent", "--max-time", "\(Patience.seconds)", "--output", "/dev/null"]

    static let cases: [Case] = [
        Case(
            cause: .plainHTTP,
            command: curl + ["http://localhost:PORT"],
            words: "HTTP without TLS",
            remedy: "https://"
        ),
        Case(
            cause: .notTLS,
            command: curl + ["--http2-prior-knowledge", "http://localhost:PORT"],
            words: "not TLS",
            remedy: "h2c"
        ),
        Case(
            cause: .untrusted,
            command: curl + ["--http2", "https://localhost:PORT"],
            words: "does not trust the simulator's certificate (TLS alert 48, unknown ca)",
            remedy: "trust ca.pem"
        ),
        Case(
            cause: .noHTTP2,
            command: curl + ["--http1.1", "--cacert", "CA", "https://localhost:PORT"],
            words: "does not offer h2 in ALPN",
            remedy: "only HTTP/2"
        ),
        Case(
            cause: .notHTTP2,
            command: curl + ["--http1.1", "--no-alpn", "--cacert", "CA", "https://localhost:PORT"],
            words: "something other than HTTP/2",
            remedy: "only HTTP/2"
        ),
        Case(
            cause: .wrongHost,
            command: [
                "openssl", "s_client", "-connect", "127.0.0.1:PORT", "-servername", "apns.test", "-alpn", "h2",
                "-verify_hostname", "apns.test", "-verify_return_error", "-CAfile", "CA",
            ],
            words: "connects to apns.test, and the simulator's certificate is for localhost",
            remedy: "--name apns.test"
        ),
        Case(
            cause: .wrongHost,
            command: curl + [
                "--http2", "--cacert", "CA", "--resolve", "apns.test:PORT:127.0.0.1", "https://apns.test:PORT",
            ],
            words: "connects to apns.test",
            remedy: "--name apns.test"
        ),
        Case(
            cause: .oldTLS,
            command: [
                "openssl", "s_client", "-connect", "localhost:PORT", "-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0",
            ],
            words: "no TLS version",
            remedy: "TLS 1.2"
        ),
    ]

    private func run(_ command: [String], _ simulator: Simulator) async throws {
        let folder = try TemporaryFolder()
        let ca = try folder.write("ca.pem", simulator.certificateAuthorityPEM)
        let arguments = command.dropFirst().map {
            $0.replacing("PORT", with: "\(simulator.port)").replacing("CA", with: $0 == "CA" ? ca : "CA")
        }
        _ = try await Command.run(command[0], Array(arguments))
    }

    @Test("A client that cannot get in is recorded with cause and remedy", .enabled(if: hasClients), arguments: cases)
    func cause(_ client: Case) async throws {
        let reported = Mutex<[FailedConnection]>([])
        var configuration = Simulator.Configuration()
        configuration.onFailedConnection = { failed in reported.withLock { $0.append(failed) } }
        let simulator = try await Simulator.start(configuration)
        for number in 1...2 {
            try await self.run(client.command, simulator)
            try await simulator.waitUntil(timeout: Patience.limit) { $0.connectionsFailed == number }
        }
        let failed = try #require(simulator.record.failedConnections.first)
        #expect(failed.cause == client.cause, "\(failed)")
        #expect(failed.message.contains(client.words), "\(failed.message)")
        #expect(failed.remedy.contains(client.remedy), "\(failed.remedy)")
        #expect(failed.count == 2 && failed.connection == 2 && failed.client == "127.0.0.1" && failed.faults == [])
        #expect(failed.firstMilliseconds <= failed.lastMilliseconds && simulator.record.failedConnections.count == 1)
        try await simulator.waitUntil(timeout: Patience.limit) { _ in reported.withLock { $0.count } == 2 }
        #expect(reported.withLock { $0.map(\.count) } == [1, 2])
        #expect(failed.remedy(caFile: "/x/ca.pem").contains("/x/ca.pem") == failed.remedy.contains("ca.pem"))
        simulator.reset()
        #expect(simulator.record.connectionsFailed == 0 && simulator.record.failedConnections == [])
        await simulator.stop()
    }

    @Test("A client certificate that is missing, or of another authority, is named", .enabled(if: hasClients))
    func clientCertificates() async throws {
        var configuration = Simulator.Configuration()
        configuration.credential = .clientCertificate
        let simulator = try await Simulator.start(configuration)
        let stranger = try await Simulator.start()
        let certificate = try stranger.makeClientCertificate()
        let folder = try TemporaryFolder()
        let files = [
            "-cert", try folder.write("cert.pem", certificate.certificatePEM),
            "-key", try folder.write("key.pem", certificate.privateKeyPEM),
        ]
        let command = ["openssl", "s_client", "-connect", "localhost:PORT", "-alpn", "h2"]
        for arguments in [command, command + files] { try await self.run(arguments, simulator) }
        try await simulator.waitUntil(timeout: Patience.limit) { $0.connectionsFailed == 2 }
        #expect(simulator.record.failedConnections.map(\.cause) == [.certificateMissing, .certificateRefused])
        await stranger.stop()
        await simulator.stop()
    }

    @Test("A fault of the simulator is named as the reason", .enabled(if: hasClients))
    func faults() async throws {
        let simulator = try await Simulator.start()
        var fault = TLSFault()
        fault.certificate = .expired
        simulator.inject(Fault(.tls(fault)))
        try await self.run(Self.curl + ["--http2", "--cacert", "CA", "https://localhost:PORT"], simulator)
        try await simulator.waitUntil(timeout: Patience.limit) { $0.connectionsFailed == 1 }
        let failed = try #require(simulator.record.failedConnections.first)
        #expect(failed.cause == .expired && failed.faults == ["tls"] && failed.remedy.contains("fault tls"))
        await simulator.stop()
    }

    @Test("Good connections, closed ports and checks of the port are no failures")
    func silence() async throws {
        let simulator = try await Simulator.start()
        let client = try WireClient(simulator)
        #expect(await client.open())
        await client.close()
        let group = MultiThreadedEventLoopGroup.singleton
        let probe = try await ClientBootstrap(group: group).connect(host: "127.0.0.1", port: simulator.port).get()
        try await probe.close()
        try await simulator.waitUntil(timeout: Patience.limit) { $0.connectionsClosed == 2 }
        #expect(simulator.record.connectionsFailed == 0)
        await simulator.stop()
    }

    @Test("A flood of failures with ever new host names fills no memory and no log")
    func flood() {
        var ledger = Ledger()
        var groups = 0
        for number in 0..<1000 {
            let failure = FailedEntrance(cause: .alert(42), host: "host-\(number)", client: nil)
            let failed = FailedConnection(
                failure,
                names: ["localhost"],
                faults: [],
                connection: number,
                milliseconds: 0
            )
            if ledger.count(failed) != nil { groups += 1 }
        }
        #expect(groups == 20 && ledger.failedConnections.count == 20 && ledger.connectionsFailed == 1000)
    }
}
