import APNSRelay
import APNSSimulator
import ArgumentParser
import Crypto
import Foundation
import HTTPTypes
import Logging
import NIOCore
import NIOHTTP1
import NIOPosix
import PostgresTestServer
import PushQueue
import RelayTestSupport
import WebPushGateway

/// `relay-bench web-push`
struct WebPushRun: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "web-push",
        abstract: "Sends encrypted messages through a relay, verifies new senders, and stores many subscriptions.",
        discussion: "The relay is a process of its own. The senders and the simulator are in this one."
    )

    @Flag(help: "Use PostgreSQL instead of SQLite.")
    var postgres = false

    @Option(help: "The relay's program.")
    var relay = FleetRun.relayBesideThis

    @Option(help: "How many messages.")
    var pushes = 40_000

    @Option(help: "How many senders at a time.")
    var clients = 64

    @Option(help: "How many subscriptions get the messages.")
    var devices = 1_000

    @Option(help: "How many subscriptions are stored at the end.")
    var subscriptions = 1_000_000

    private static let origin = "https://push.example.com"
    /// The length of the body of a message, in bytes: that of a text of 900 bytes.
    private static let bodyCount = 1_000

    func run() async throws {
        let bench = try BenchQueue(postgres: self.postgres)
        defer { bench.remove() }
        try await self.send(bench)
        try self.verify()
    }

    // MARK: Messages

    private func send(_ bench: BenchQueue) async throws {
        var configuration = Simulator.Configuration()
        configuration.environment = .production
        configuration.credential = .none
        let simulator = try await Simulator.start(configuration)
        let authority = bench.folder.appending(path: "ca.pem")
        try Data(simulator.certificateAuthorityPEM.utf8).write(to: authority)
        let port = try await Self.freePort()
        var environment = [
            "APPS": "fern", "APP_FERN_TOPIC": "com.grasscove.Fern", "APP_FERN_ENVIRONMENTS": "production",
            "SERVER_PRODUCTION": "localhost:\(simulator.port)", "CLIENT_CA_FILE": authority.path,
            "HTTP_PORT": "\(port)", "WEB_PUSH_ORIGINS": Self.origin,
            "WEB_PUSH_KEY": Data(repeating: 7, count: 32).base64EncodedString(),
            "WEB_PUSH_PUSHES_PER_MINUTE": "1000000",
        ]
        if let server = bench.server {
            environment["STORAGE_POSTGRES"] = server.url(try server.createDatabase())
        } else {
            environment["STORAGE_FILE"] = bench.folder.appending(path: "relay.sqlite").path
        }
        let process = try FleetRun.start(self.relay, environment)
        defer { process.terminate() }
        let client = TestHTTPClient()
        let url = "http://127.0.0.1:\(port)"
        while (try? await client.send(.GET, "\(url)/ready", timeout: .seconds(1)))?.status != 200 {
            try await Task.sleep(for: .milliseconds(50))
        }
        let paths = try await self.register(0..<self.devices, url, client)
        let authorization = try Self.authorization(P256.Signing.PrivateKey())
        let senderKey = P256.KeyAgreement.PrivateKey().publicKey.x963Representation
        let cpu = ProcessFigures.cpuSeconds(of: process.processIdentifier)
        let start = ContinuousClock.now
        _ = try await self.concurrently(self.pushes) { number in
            let response = try await client.send(
                .POST,
                url + paths[number % paths.count],
                headers: ["authorization": authorization, "content-encoding": "aes128gcm", "ttl": "3600"],
                body: Self.message(number, senderKey)
            )
            guard response.status == 201 else { throw ExitCode.failure }
            return ""
        }
        let seconds = start.duration(to: .now) / .seconds(1)
        try await simulator.waitFor(self.pushes, timeout: .seconds(120))
        let used = ProcessFigures.cpuSeconds(of: process.processIdentifier) - cpu
        print(
            String(
                format: """
                    web push: %.0f messages/s from %d senders; %.0f us of CPU a message in the relay, sending included, so \
                    %.0f/s on one core
                    """,
                Double(self.pushes) / seconds,
                self.clients,
                used / Double(self.pushes) * 1e6,
                Double(self.pushes) / used
            )
        )
        try await self.subscribe(url, client, process)
        await simulator.stop()
    }

    /// Registers devices, and returns the paths of their endpoints.
    private func register(_ numbers: Range<Int>, _ url: String, _ client: TestHTTPClient) async throws -> [String] {
        try await self.concurrently(numbers.count) { number in
            let token = BenchQueue.token(numbers.lowerBound + number)
            let response = try await client.send(
                .POST,
                "\(url)/webpush/subscriptions",
                headers: ["content-type": "application/json"],
                body: Array(#"{"app":"fern","token":"\#(token)"}"#.utf8)
            )
            let created = try response.decode(Created.self)
            return String(created.endpoint.dropFirst(Self.origin.count))
        }
    }

    private struct Created: Decodable {
        var endpoint: String
    }

    /// Calls a function for each number, as many at a time as there are clients.
    private func concurrently(
        _ count: Int,
        _ body: @escaping @Sendable (Int) async throws -> String
    ) async throws -> [String] {
        let clients = self.clients
        return try await withThrowingTaskGroup(of: [String].self) { group in
            for client in 0..<clients {
                group.addTask {
                    var results: [String] = []
                    for number in stride(from: client, to: count, by: clients) {
                        results.append(try await body(number))
                    }
                    return results
                }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
    }

    /// A message with the header of RFC 8188. Its content cannot be decrypted, which only the device would notice.
    private static func message(_ number: Int, _ senderKey: Data) -> [UInt8] {
        var bytes = withUnsafeBytes(of: (UInt64(number), UInt64.random(in: 0 ... .max))) { Array($0) }
        bytes += [0, 0, 16, 0, 65]
        bytes += senderKey
        bytes += [UInt8](repeating: 1, count: Self.bodyCount - bytes.count)
        return bytes
    }

    private static func authorization(_ key: P256.Signing.PrivateKey) throws -> String {
        let expiry = Int(Date().timeIntervalSince1970) + 3_600
        let texts = [#"{"typ":"JWT","alg":"ES256"}"#, #"{"aud":"\#(Self.origin)","exp":\#(expiry)}"#]
        let signed = texts.map { Base64Text.encode($0.utf8) }.joined(separator: ".")
        let signature = try key.signature(for: Data(signed.utf8)).rawRepresentation
        return
            "vapid t=\(signed).\(Base64Text.encode(signature)), k=\(Base64Text.encode(key.publicKey.x963Representation))"
    }

    private static func freePort() async throws -> Int {
        let server = try await ServerBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .bind(host: "127.0.0.1", port: 0).get()
        defer { server.close(promise: nil) }
        return server.localAddress?.port ?? 0
    }

    // MARK: Senders

    private func verify() throws {
        let verifier = VAPIDVerifier(origins: [Self.origin])
        let headers = try (0..<1_000).map { _ in
            var fields = HTTPFields()
            fields[.authorization] = try Self.authorization(P256.Signing.PrivateKey())
            return fields
        }
        for name in ["new", "known"] {
            let start = ContinuousClock.now
            for fields in headers { _ = try verifier.sender(fields, now: Date().timeIntervalSince1970) }
            let micros = start.duration(to: .now) / .microseconds(1) / Double(headers.count)
            print(String(format: "web push: a %@ sender is verified in %.1f us", name, micros))
        }
    }

    // MARK: Subscriptions

    /// Registers many devices. The memory of the relay must not grow with their number.
    private func subscribe(_ url: String, _ client: TestHTTPClient, _ process: Process) async throws {
        let part = self.subscriptions / 4
        for number in 0..<4 {
            let start = ContinuousClock.now
            _ = try await self.register(number * part..<(number + 1) * part, url, client)
            print(
                String(
                    format: "web push: %d subscriptions, the last %d registered at %.0f/s; %d MiB of memory",
                    (number + 1) * part,
                    part,
                    Double(part) / (start.duration(to: .now) / .seconds(1)),
                    ProcessFigures.residentMiB(of: process.processIdentifier)
                )
            )
        }
    }
}
