import APNSSimulator
import APNSTesting
import Foundation
import Logging
import SupervisedPool
import Synchronization
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// The text of a status.
struct StatusTests {
    @Test("The text of a status has the facts for a support ticket, and the status contains no secret")
    func textWithoutSecrets() async throws {
        let key = SimulatedKey()
        try await withSimulatedAPNS(configure: {
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
            let text = status.description
            let expected = [
                "swift-apns-pool \(LibraryVersion.library)", "OpenSSL", "nghttp2 1.", "Swift 6.", "environment: custom",
                "localhost", "health: serving", "lifecycle: running", "connections:", "1000", key.keyID,
                "provider token 1",
                "recent faults:", " ago", "5 alert accepted", "1 alert rejected (BadDeviceToken)", "2 connects",
                "pool.maxOverflow: 0", "pool.connectSpacing", "trust.caPEM: set",
            ]
            for part in expected { #expect(text.contains(part), "\(part) in \(text)") }
            #expect(!text.contains("pool.size") && !text.contains("timeouts"))
            let jwt = try #require(
                client.runtime.credentials.latest.tokens.current(now: client.runtime.clock.now)?.token.jwt
            )
            let signature = try #require(jwt.split(separator: ".").last)
            let keyLine = try #require(key.p8.split(separator: "\n").dropFirst().first)
            var members = ""
            dump(status, to: &members)
            for secret in [String(signature), String(keyLine), "BEGIN", DeviceToken.sample(1).hexadecimal] {
                #expect(!text.contains(secret) && !members.contains(secret))
            }
        }
    }

    @Test("Clients that never ran and stopped clients have a status")
    func textWithoutARun() async throws {
        let client = try APNSClient.unstarted()
        let text = await client.status.description
        #expect(text.contains("health: starting") && text.contains("recent faults: none"), "\(text)")
        await client.shutdown()
        #expect(await client.status.description.contains("health: stopped"))
    }

    @Test("The text names a proxy without its password")
    func proxyPassword() throws {
        var configuration = APNSClientConfiguration.local(port: 1, caPEM: nil)
        configuration.proxy = .init(host: "proxy.example", port: 3128, username: "u", password: "hunter2")
        let settings = APNSClientStatus.Settings(configuration)
        #expect(settings.differences.contains("proxy: set"))
        var members = ""
        dump(settings, to: &members)
        #expect(!members.contains("hunter2"))
    }

    @Test func theToolHasTheSameVersion() throws {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
        let tool = root.appendingPathComponent("Sources/APNSCommand/APNSTool.swift")
        #expect(try String(contentsOf: tool, encoding: .utf8).contains("version: \"\(LibraryVersion.library)\""))
    }

    @Test func repeatedFaultsShareALineAndTheListIsBounded() {
        var faults = RecentFaults()
        func at(_ seconds: Int64) -> MonotonicInstant { MonotonicInstant(nanoseconds: seconds * 1_000_000_000) }
        for second in 0..<10 { faults.add("refused", now: at(Int64(second))) }
        #expect(faults.lines(now: at(19)) == ["\(Duration.seconds(10)) ago, 10 times in a row: refused"])
        for number in 0..<100 { faults.add("\(number)", now: at(10)) }
        #expect(faults.lines(now: at(19)).count == RecentFaults.room)
        #expect(faults.lines(now: at(19)).last?.hasSuffix(": 99") == true)
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
            let check = await client.check(topic: "com.example.app")
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
                let check = await client.check(topic: "com.example.app")
                #expect(!check.isOK && failed(check) == [.credential], "\(check)")
                #expect(check.steps.last?.advice != nil && check.description.contains("InvalidProviderToken"))
            }
        }
    }

    @Test func aTopicOfAnotherTeamFailsTheTopicStep() async throws {
        try await self.withSimulator { client, simulator in
            simulator.setTopics(["com.example.other"])
            let check = await client.check(topic: "com.example.app")
            #expect(failed(check) == [.topic], "\(check)")
            #expect(check.steps.contains { $0.name == .credential && $0.isOK })
            #expect(await failed(client.check(topic: "")) == [.topic])
        }
    }

    @Test func overloadSkipsTheCredentialStep() async throws {
        try await self.withSimulator { client, simulator in
            simulator.inject(Fault(.respond(.tooManyRequests), when: .always))
            let check = await client.check(topic: "com.example.app")
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
        try await withServer(script: { _ in [.hold] }) { client, server in
            let check = await client.check(topic: "com.example.app", within: .milliseconds(500))
            #expect(failed(check) == [.response] && check.roundTrip == nil, "\(check)")
        }
    }

    @Test func aCheckReportsAClientThatDoesNotRun() async throws {
        let client = try APNSClient.unstarted()
        #expect(await failed(client.check(topic: "com.example.app")) == [.client])
        await client.shutdown()
    }
}
