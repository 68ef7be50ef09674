import Foundation
import Logging
import SupervisedPool
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// The content of the log.
struct LogTests {
    private func authentication() -> APNSAuthentication {
        .token(privateKeyPEM: KeyTexts.p256, keyID: "9UC9ZLQ8YW", teamID: "ABBM6U9RM5")
    }

    private func trace() -> (Logger, Journal<RecordingLog.Line>) {
        var (logger, lines) = RecordingLog.make()
        logger.logLevel = .trace
        return (logger, lines)
    }

    @Test func aLastingFaultIsLoggedOnce() async throws {
        let (logger, lines) = self.trace()
        try await withServer(
            script: { _ in [.respond(403, reason: "InvalidProviderToken")] },
            configure: {
                $0.authentication = authentication()
                $0.logger = logger
            }
        ) { client, _ in
            for _ in 1...2 { _ = await client.deliver(samplePush(), to: deviceToken) }
            await lines.wait { $0.contains { $0.level == .critical } }
            _ = await deliver(100, with: client)
        }
        #expect(lines.count(.critical, containing: "refuses the credential") == 1)
    }

    @Test func aRepeatedlyFailingConnectionIsLoggedOnce() async throws {
        let clock = ManualClock()
        let (logger, lines) = self.trace()
        let server = try await ScriptedServer.start()
        let closed = try #require(ClosedPort())
        let network = AddressSwitch(server.port)
        var configuration = APNSClientConfiguration.local(server)
        configuration.use(clock)
        configuration.logger = logger
        network.apply(to: &configuration)
        try await withAPNSClient(configuration: configuration) { client in
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            network.point(to: closed.number)
            server.dropAll()
            // The test's clock controls the pauses between the attempts.
            await until {
                clock.advance(by: .milliseconds(50))
                return lines.count(.debug, containing: "lost or refused again") >= 5
            }
            #expect(lines.count(.notice, containing: "connection lost or refused") <= 2)
        }
        await server.stop()
    }

    /// The number of lines above debug level does not depend on the number of pushes. No line contains a secret or a
    /// whole device token.
    @Test func pushesAreLoggedAtDebugWithoutSecrets() async throws {
        var counts: [Int] = []
        for number in [10, TestScale.size(300, thorough: 1000)] {
            let (logger, lines) = self.trace()
            let script: ScriptedServer.Script = { push in
                push.number % 2 == 0 ? [.respond(200)] : [.respond(410, reason: "Unregistered")]
            }
            var jwt = ""
            try await withServer(
                script: script,
                configure: {
                    $0.authentication = authentication()
                    $0.logger = logger
                }
            ) { client, server in
                for index in 0..<number { _ = await client.deliver(samplePush(), to: DeviceToken.sample(index)) }
                _ = await client.sendAll(samplePush(), to: (0..<number).map { DeviceToken.sample($0) })
                jwt = String((server.record.pushes.first?.field("authorization") ?? "").dropFirst("bearer ".count))
            }
            counts.append(lines.entries.count { $0.level > .debug })
            #expect(jwt.count > 100)
            let signature = try #require(jwt.split(separator: ".").last)
            // All lines of the key's text except the first and the last, which are not secret.
            let keyLines = KeyTexts.p256.split(separator: "\n").dropFirst().dropLast().map(String.init)
            let secrets = [String(signature)] + keyLines
            for line in lines.entries {
                let text = line.message + line.metadata.map { "\($0.key)=\($0.value)" }.joined(separator: " ")
                for secret in secrets { #expect(!text.contains(secret)) }
                for index in 0..<10 { #expect(!text.contains(DeviceToken.sample(index).hexadecimal)) }
            }
        }
        #expect(counts[0] == counts[1], "\(counts)")
    }
}
