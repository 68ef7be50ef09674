import APNSSimulator
import Foundation
import Logging
import SupervisedPool
import Synchronization
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// The snapshot of a client.
struct StatusTests {
    @Test("A status has the counts of the client and contains no secret")
    func countsWithoutSecrets() async throws {
        let key = SimulatedKey()
        try await withPatientSimulator(configure: {
            $0.authentication = .token(privateKeyPEM: key.p8, keyID: key.keyID, teamID: key.teamID)
            $0.pool = .init(size: 1, maxOverflow: 0, connectSpacing: .zero)
            $0.logger.logLevel = .critical
        }) { client, simulator in
            simulator.addKey(key)
            simulator.setToken(DeviceToken.sample(1).hexadecimal, .bad)
            for number in 0..<5 { _ = await client.deliver(samplePush(), to: DeviceToken.sample(number)) }
            await simulator.dropConnections()
            await until { client.runtime.monitor.connectionLosses.load(ordering: .relaxed) > 0 }
            #expect(await client.deliver(samplePush(), to: DeviceToken.sample(0)).certainty == .accepted)
            let status = await client.status
            #expect(status.health == .serving && status.pushesInFlight == 0 && status.restarts == 0)
            #expect(status.connects == 2 && status.connectionLosses == 1)
            #expect(status.authentication.keyID == key.keyID && status.authentication.teamID == key.teamID)
            #expect(status.pool.workers.count == 1 && status.pool.capacity == 1000)
            let jwt = try #require(
                client.runtime.credentials.latest.tokens.current(now: client.runtime.clock.now)?.token.jwt
            )
            let signature = try #require(jwt.split(separator: ".").last)
            let keyLine = try #require(key.p8.split(separator: "\n").dropFirst().first)
            var members = ""
            dump(status, to: &members)
            for secret in [String(signature), String(keyLine), "BEGIN", DeviceToken.sample(1).hexadecimal] {
                #expect(!members.contains(secret))
            }
        }
    }

    @Test("Clients that never ran and stopped clients have a status")
    func withoutARun() async throws {
        let client = try APNSClient.unstarted()
        #expect(await client.status.health == .starting)
        await client.shutdown()
        #expect(await client.status.health == .stopped)
    }

    @Test("A client logs the versions that it runs with")
    func versions() async throws {
        var (logger, lines) = RecordingLog.make()
        logger.logLevel = .info
        try await withPatientSimulator(configure: { [logger] in $0.logger = logger }) { _, _ in }
        let line = try #require(lines.entries.first { $0.message == "the client runs" })
        #expect(line.metadata["swift-apns-pool"] == "\(LibraryVersion.library)")
        #expect("\(line.metadata["openssl"] ?? "")".contains("OpenSSL"), "\(line.metadata)")
        #expect("\(line.metadata["nghttp2"] ?? "")".hasPrefix("1."), "\(line.metadata)")
    }

    @Test func theToolHasTheSameVersion() throws {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
        let tool = root.appendingPathComponent("Sources/APNSCommand/APNSTool.swift")
        #expect(try String(contentsOf: tool, encoding: .utf8).contains("version: \"\(LibraryVersion.library)\""))
    }
}

struct CheckTests {
    private let zeros = String(repeating: "0", count: 64)

    private func failed(_ check: APNSCheck) -> [APNSCheck.Step.Name] { check.steps.filter { !$0.isOK }.map(\.name) }

    private func withSimulator(
        _ body: (APNSClient, Simulator) async throws -> Void
    ) async throws {
        try await withPatientSimulator(configure: {
            $0.pool = .init(size: 1, maxOverflow: 0, connectSpacing: .zero)
            $0.logger.logLevel = .critical
        }) { client, simulator in
            simulator.setToken(zeros, .bad)
            try await body(client, simulator)
        }
    }

    @Test func badDeviceTokenPassesTheCheck() async throws {
        try await self.withSimulator { client, simulator in
            let check = await client.check(topic: "com.example.app", within: Patience.limit)
            #expect(check.isOK, "\(check)")
            #expect(check.steps.map(\.name) == [.client, .connection, .response, .credential, .topic])
            #expect(check.roundTrip ?? .zero > .zero)
            #expect(check.steps.allSatisfy { $0.advice == nil })
            #expect(simulator.record.requestsReceived == 1)
            #expect(await !client.status.suspectsMisconfiguration)
        }
    }

    @Test func anUnknownKeyFailsTheCredentialStep() async throws {
        try await self.withSimulator { client, simulator in
            simulator.inject(Fault(.respond(.invalidProviderToken), when: .always))
            for _ in 1...3 {
                let check = await client.check(topic: "com.example.app", within: Patience.limit)
                #expect(!check.isOK && failed(check) == [.credential], "\(check)")
                #expect(check.steps.last?.advice != nil && check.description.contains("InvalidProviderToken"))
            }
        }
    }

    @Test func aTopicOfAnotherTeamFailsTheTopicStep() async throws {
        try await self.withSimulator { client, simulator in
            simulator.setTopics(["com.example.other"])
            let check = await client.check(topic: "com.example.app", within: Patience.limit)
            #expect(failed(check) == [.topic], "\(check)")
            #expect(check.steps.contains { $0.name == .credential && $0.isOK })
            #expect(await failed(client.check(topic: "", within: Patience.limit)) == [.topic])
        }
    }

    @Test func overloadSkipsTheCredentialStep() async throws {
        try await self.withSimulator { client, simulator in
            simulator.inject(Fault(.respond(.tooManyRequests), when: .always))
            let check = await client.check(topic: "com.example.app", within: Patience.limit)
            #expect(failed(check) == [.response] && !check.steps.contains { $0.name == .credential }, "\(check)")
        }
    }

    @Test func aCheckWithoutAPNsEndsInTime() async throws {
        let server = try await ScriptedServer.start()
        await server.stop()
        var configuration = APNSClientConfiguration.local(port: server.port, caPEM: nil)
        // Longer than the time limit of the test.
        configuration.timeouts.deadline = .seconds(300)
        try await withAPNSClient(configuration: configuration) { client in
            let check = await client.check(topic: "com.example.app", within: .milliseconds(300))
            #expect(failed(check) == [.connection], "\(check)")
        }
    }

    @Test func aCheckWithoutAResponseEndsInTime() async throws {
        let clock = ManualClock()
        try await withServer(script: { _ in [.hold] }, configure: { $0.use(clock) }) { client, server in
            async let end = client.check(topic: "com.example.app", within: .milliseconds(500))
            await server.wait { $0.held == 1 }
            clock.advance(by: .milliseconds(500))
            let check = await end
            #expect(failed(check) == [.response] && check.roundTrip == nil, "\(check)")
        }
    }

    @Test func aCheckReportsAClientThatDoesNotRun() async throws {
        let client = try APNSClient.unstarted()
        #expect(await failed(client.check(topic: "com.example.app")) == [.client])
        await client.shutdown()
    }
}
