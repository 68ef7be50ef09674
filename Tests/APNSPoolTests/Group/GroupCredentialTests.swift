import APNSSimulator
import Foundation
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// Which credential a client of a group starts with, and which files it follows.
struct GroupCredentialTests: GroupOfClients {
    private static let isolations = [APNSClientGroup.Isolation.perKey, .perApp]

    private func withGroup(
        simulation: Simulator.Configuration = Simulator.Configuration(),
        _ isolation: APNSClientGroup.Isolation,
        _ clock: ManualClock,
        _ body: (APNSClientGroup, Simulator, URL) async throws -> Void
    ) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "group-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        try await self.withGroup(
            simulation: simulation,
            configure: {
                $0.client.use(clock)
                $0.isolation = isolation
                $0.idleTimeout = .seconds(60)
            }
        ) { group, simulator in try await body(group, simulator, folder) }
    }

    private func idle(_ group: APNSClientGroup, _ clock: ManualClock) async {
        await until {
            clock.advance(by: .milliseconds(100))
            return group.status.allSatisfy { !$0.isRunning }
        }
    }

    @Test("A key that has moved to another file is read there when its client starts again", arguments: isolations)
    func movedKeyFile(isolation: APNSClientGroup.Isolation) async throws {
        let clock = ManualClock()
        try await self.withGroup(isolation, clock) { group, simulator, folder in
            let key = SimulatedKey()
            var app = self.app(0, simulator, key: key)
            for name in ["old.p8", "new.p8"] {
                let file = folder.appending(path: name)
                try Data(key.p8.utf8).write(to: file)
                app.authentication = .token(keyFile: file.path, keyID: key.keyID, teamID: key.teamID)
                try await group.replace(app)
                #expect(await self.deliver(group, 0, simulator).certainty == .accepted)
            }
            try FileManager.default.removeItem(at: folder.appending(path: "old.p8"))
            await self.idle(group, clock)
            #expect(await self.deliver(group, 0, simulator).certainty == .accepted)
        }
    }

    @Test("A running client follows the file that its key has moved to", arguments: isolations)
    func movedKeyChanges(isolation: APNSClientGroup.Isolation) async throws {
        let clock = ManualClock()
        let links = try LinkedKeys()
        defer { links.remove() }
        try await self.withGroup(isolation, clock) { group, simulator, _ in
            var app = self.app(0, simulator)
            for file in [links.targets[0], links.file] {
                app.authentication = .token(keyFile: file, teamID: LinkedKeys.team)
                try await group.replace(app)
                #expect(await self.deliver(group, 0, simulator).certainty == .accepted)
            }
            try links.change()
            // The client does not idle meanwhile.
            try await group.withClient(for: "app0", in: .custom(host: "localhost", port: simulator.port)) { _ in
                await until {
                    clock.advance(by: .milliseconds(100))
                    return group.status.allSatisfy { $0.credential.contains(links.keys[1].keyID) }
                }
            }
            #expect(await self.deliver(group, 0, simulator).certainty == .accepted)
            #expect(simulator.received().last?.keyID == links.keys[1].keyID)
        }
    }

    @Test("A client starts with the new passphrase of its file", arguments: isolations)
    func newPassphrase(isolation: APNSClientGroup.Isolation) async throws {
        let clock = ManualClock()
        var simulation = Simulator.Configuration()
        simulation.credential = .clientCertificate
        try await self.withGroup(simulation: simulation, isolation, clock) { group, simulator, folder in
            let certificate = try simulator.makeClientCertificate(topics: [self.topic(0)])
            let file = folder.appending(path: "apns.p12")
            var app = self.app(0, simulator)
            for passphrase in ["one", "two"] {
                try Data(certificate.pkcs12(passphrase: passphrase)).write(to: file)
                app.authentication = .certificate(pkcs12File: file.path, passphrase: passphrase)
                try await group.replace(app)
                #expect(await self.deliver(group, 0, simulator).certainty == .accepted)
            }
            await self.idle(group, clock)
            #expect(await self.deliver(group, 0, simulator).certainty == .accepted)
        }
    }

    @Test("A key that replaced another one on a client is what the next client starts with", arguments: isolations)
    func replacedByItsClient(isolation: APNSClientGroup.Isolation) async throws {
        let clock = ManualClock()
        try await self.withGroup(isolation, clock) { group, simulator, _ in
            let (old, new) = (SimulatedKey(), SimulatedKey())
            try group.add(self.app(0, simulator, key: old))
            let authentication = self.app(0, simulator, key: new).authentication
            try await group.withClient(for: "app0", in: .custom(host: "localhost", port: simulator.port)) {
                try await $0.replaceAuthentication(authentication)
            }
            for _ in 0..<2 {
                #expect(await self.deliver(group, 0, simulator).certainty == .accepted)
                #expect(simulator.received().last?.keyID == new.keyID)
                await self.idle(group, clock)
            }
        }
    }

    @Test("The next client starts with the key id that came with the new key in the same file", arguments: isolations)
    func replacedInItsFile(isolation: APNSClientGroup.Isolation) async throws {
        let clock = ManualClock()
        try await self.withGroup(isolation, clock) { group, simulator, folder in
            let file = folder.appending(path: "key.p8")
            func authentication(_ key: SimulatedKey) throws -> APNSAuthentication {
                try Data(key.p8.utf8).write(to: file)
                return .token(keyFile: file.path, keyID: key.keyID, teamID: key.teamID)
            }
            let (old, new) = (SimulatedKey(), SimulatedKey())
            var app = self.app(0, simulator)
            app.authentication = try authentication(old)
            try group.add(app)
            try await group.withClient(for: "app0", in: .custom(host: "localhost", port: simulator.port)) {
                try await $0.replaceAuthentication(try authentication(new))
            }
            for _ in 0..<2 {
                #expect(await self.deliver(group, 0, simulator).certainty == .accepted)
                #expect(simulator.received().last?.keyID == new.keyID)
                await self.idle(group, clock)
            }
        }
    }

    @Test("A client starts with the token source that its app got last")
    func newTokenSource() async throws {
        let clock = ManualClock()
        try await self.withGroup(.perKey, clock) { group, simulator, folder in
            let file = folder.appending(path: "token").path
            var app = self.app(0, simulator)
            try group.add(app)
            #expect(await self.deliver(group, 0, simulator).certainty == .accepted)
            app.authentication.tokenSource = SharedFileTokenSource(path: file)
            try await group.replace(app)
            await self.idle(group, clock)
            clock.advance(by: .seconds(3600))
            #expect(await self.deliver(group, 0, simulator).certainty == .accepted)
            #expect(FileManager.default.fileExists(atPath: file))
        }
    }

    enum Repair: CaseIterable {
        case push, replacement, time
    }

    @Test("An app whose client cannot be started is failing, until its key is read again")
    func healthWithoutAFile() async throws {
        let clock = ManualClock()
        try await self.withGroup(.perKey, clock) { group, simulator, folder in
            let key = SimulatedKey()
            let file = folder.appending(path: "key.p8")
            var app = self.app(0, simulator)
            app.authentication = .token(keyFile: file.path, keyID: key.keyID, teamID: key.teamID)
            let sender = group.sender(for: "app0", in: .custom(host: "localhost", port: simulator.port))
            try Data(key.p8.utf8).write(to: file)
            try group.add(app)
            for repair in Repair.allCases {
                #expect(await self.deliver(group, 0, simulator).certainty == .accepted)
                await self.idle(group, clock)
                try FileManager.default.removeItem(at: file)
                #expect(await sender.health == .serving)
                #expect(await self.deliver(group, 0, simulator).error?.code == .configuration)
                for health in [await sender.health, await group.health] {
                    guard case .failing(let cause) = health else {
                        Issue.record("\(health)")
                        continue
                    }
                    #expect(cause.code == .configuration && cause.message.contains(file.path))
                }
                try Data(key.p8.utf8).write(to: file)
                switch repair {
                case .push: #expect(await self.deliver(group, 0, simulator).certainty == .accepted)
                case .replacement: try await group.replace(app)
                case .time:
                    await until {
                        clock.advance(by: .milliseconds(500))
                        return await sender.health == .serving
                    }
                }
                #expect(await sender.health == .serving)
                #expect(await group.health == .serving)
            }
        }
    }

    @Test("A revoked key stays revoked when its client stops, until the app gets another one", arguments: isolations)
    func revokedByItsClient(isolation: APNSClientGroup.Isolation) async throws {
        let clock = ManualClock()
        try await self.withGroup(isolation, clock) { group, simulator, _ in
            let app = self.app(0, simulator)
            try group.add(app)
            let environment = APNSEnvironment.custom(host: "localhost", port: simulator.port)
            try await group.withClient(for: "app0", in: environment) { await $0.revokeAuthentication() }
            for _ in 0..<2 {
                let sender = group.sender(for: "app0", in: environment)
                #expect(await self.deliver(group, 0, simulator).error?.code == .credential)
                #expect(await sender.health.cause?.code == .credential)
                #expect(await group.health.cause?.code == .credential)
                await self.idle(group, clock)
                #expect(await sender.sendAll(samplePush(topic: self.topic(0)), to: [deviceToken]).notSent == 1)
                // The same key again.
                try await group.replace(app)
            }
            #expect(simulator.record.requestsReceived == 0)
            try await group.replace(self.app(0, simulator))
            #expect(await self.deliver(group, 0, simulator).certainty == .accepted)
            #expect(await group.health == .serving)
        }
    }
}
