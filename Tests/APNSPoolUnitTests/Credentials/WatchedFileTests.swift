import APNSSimulator
import Dispatch
import Foundation
import Logging
import NIOCore
import NIOPosix
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// Files of keys and certificates that change while the client runs.
struct WatchedFileTests {
    private let push = samplePush()

    /// Runs a client whose key file is a link that can be changed to another key.
    private func withKeyFile(
        configure: (inout APNSClientConfiguration) -> Void = { _ in },
        _ body: (APNSClient, Simulator, LinkedKeys) async throws -> Void
    ) async throws {
        let links = try LinkedKeys()
        defer { links.remove() }
        var simulation = Simulator.Configuration()
        simulation.credential = .keys(links.keys.map { .init($0) })
        simulation.limitsProviderTokenUpdates = true
        let simulator = try await Simulator.start(simulation)
        var configuration = APNSClientConfiguration.local(
            port: simulator.port,
            caPEM: simulator.certificateAuthorityPEM
        )
        configuration.authentication = .token(keyFile: links.file, teamID: LinkedKeys.team)
        configure(&configuration)
        do {
            try await withAPNSClient(configuration: configuration) { try await body($0, simulator, links) }
        } catch {
            await simulator.stop()
            throw error
        }
        await simulator.stop()
    }

    @Test("A key in a changed file that one server refuses is tried once more")
    func fileRefusedOnce() async throws {
        let clock = ManualClock()
        try await self.withKeyFile(configure: { $0.use(clock) }) { client, simulator, links in
            #expect(await client.deliver(self.push, to: deviceToken).certainty == .accepted)
            simulator.inject(Fault(.respond(.invalidProviderToken), when: .next))
            try links.change()
            await until {
                clock.advance(by: .milliseconds(500))
                return client.runtime.credentials.latest.number > 1
            }
            #expect(await client.status.authentication.keyID == links.keys[1].keyID)
        }
    }

    @Test("A client ends while a read of its key file takes long")
    func fileThatIsReadForLong() async throws {
        let clock = ManualClock()
        try await self.withKeyFile(configure: { $0.use(clock) }) { client, simulator, links in
            #expect(await client.deliver(self.push, to: deviceToken).certainty == .accepted)
            // All threads for files are busy.
            let release = DispatchSemaphore(value: 0)
            let threads = NIOSingletons.blockingPoolThreadCountSuggestion
            for _ in 0..<threads { NIOThreadPool.singleton.submit { _ in release.wait() } }
            clock.advance(by: .seconds(61))
            #expect(await ends(advancing: clock) { await client.shutdown(within: .milliseconds(50)) })
            for _ in 0..<threads { release.signal() }
        }
    }

    @Test(
        "A changed file without a verdict is reported once and tried again, also after a reload by hand",
        arguments: [false, true]
    )
    func fileWithoutVerdict(isReloaded: Bool) async throws {
        let clock = ManualClock()
        let (logger, lines) = RecordingLog.make()
        try await self.withKeyFile(configure: {
            $0.use(clock)
            $0.logger = logger
        }) { client, simulator, links in
            #expect(await client.deliver(self.push, to: deviceToken).certainty == .accepted)
            simulator.inject(Fault(.respond(.serviceUnavailable), when: .always))
            try links.change()
            let manager = client.runtime.credentials
            await until {
                clock.advance(by: .milliseconds(500))
                return manager.candidate != nil
            }
            if isReloaded {
                async let reload = APNSAuthenticationError.of {
                    _ = try await client.reloadAuthentication(within: .seconds(10))
                }
                await until {
                    clock.advance(by: .milliseconds(500))
                    return manager.candidate == nil
                }
                #expect(await reload?.code == .noVerdict)
            }
            await until {
                clock.advance(by: .milliseconds(500))
                return lines.count(.warning, containing: "cannot be used (yet)") == 1
            }
            // A second try without a verdict says nothing new.
            for isRunning in [true, false] {
                await until {
                    clock.advance(by: .milliseconds(500))
                    return (manager.candidate != nil) == isRunning
                }
            }
            #expect(manager.latest.number == 1)
            simulator.removeFaults()
            await until {
                clock.advance(by: .milliseconds(500))
                return manager.latest.number > 1
            }
            #expect(await client.status.authentication.keyID == links.keys[1].keyID)
            #expect(await client.deliver(self.push, to: deviceToken).certainty == .accepted)
        }
        #expect(lines.count(.warning, containing: "cannot be used (yet)") == 1)
    }

    @Test func aReplacedFileIsAdoptedOnceItIsComplete() async throws {
        let clock = ManualClock()
        let (logger, lines) = RecordingLog.make()
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        var simulation = Simulator.Configuration()
        simulation.credential = .clientCertificate
        let simulator = try await Simulator.start(simulation)
        let first = try simulator.makeClientCertificate()
        let second = try simulator.makeClientCertificate(validTo: 500 * 86_400)
        let certificateFile = folder.appendingPathComponent("apns.pem")
        let keyFile = folder.appendingPathComponent("apns.key")
        try first.certificatePEM.write(to: certificateFile, atomically: true, encoding: .utf8)
        try first.privateKeyPEM.write(to: keyFile, atomically: true, encoding: .utf8)
        var configuration = APNSClientConfiguration.local(
            port: simulator.port,
            caPEM: simulator.certificateAuthorityPEM
        )
        configuration.authentication = .certificate(certificateFile: certificateFile.path, keyFile: keyFile.path)
        configuration.use(clock)
        configuration.logger = logger
        try await withAPNSClient(configuration: configuration) { client in
            #expect(await client.deliver(self.push, to: deviceToken).certainty == .accepted)
            #expect(try await !client.reloadAuthentication())
            // The new certificate is complete, but only part of its key is written.
            try second.certificatePEM.write(to: certificateFile, atomically: true, encoding: .utf8)
            try String(second.privateKeyPEM.prefix(100)).write(to: keyFile, atomically: false, encoding: .utf8)
            try await clock.advance(toWakeUpAt: clock.now.advanced(by: .seconds(60)))
            await lines.wait { $0.contains { $0.message.contains("cannot be used (yet)") } }
            #expect(await client.deliver(self.push, to: deviceToken).certainty == .accepted)
            #expect(
                await APNSAuthenticationError.of { try await client.reloadAuthentication() }?.code == .configuration
            )
            try second.privateKeyPEM.write(to: keyFile, atomically: false, encoding: .utf8)
            try await clock.advance(toWakeUpAt: clock.now.advanced(by: .seconds(60)))
            await until { await client.status.authentication.certificateExpiry == second.notAfter }
            #expect(await client.deliver(self.push, to: deviceToken).certainty == .accepted)
            #expect(simulator.record.requestsProcessed == 4)
        }
        #expect(lines.count(.warning, containing: "cannot be used (yet)") == 1)
        await simulator.stop()
    }

    @Test func aChangedLinkToAKeyFileReplacesTheKey() async throws {
        try await self.withKeyFile { client, simulator, links in
            #expect(await client.status.authentication.keyID == links.keys[0].keyID)
            try links.change()
            #expect(try await client.reloadAuthentication())
            #expect(await client.status.authentication.keyID == links.keys[1].keyID)
        }
    }
}
