import APNSModel
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import APNSSimulator
@testable import APNSTransport

struct SimulatorTests {
    private let jwt: String
    private let key = SimulatedKey()

    init() throws { self.jwt = try self.key.providerToken(issuedAt: Sample.now) }

    /// A simulator and a connected client whose stream limit is raised already. Stream 1 was its first push.
    private func pair(
        _ configuration: Simulator.Configuration = .init()
    ) async throws -> (simulator: Simulator, client: WireClient) {
        let simulator = try await Simulator.start(configuration)
        let client = try WireClient(simulator)
        #expect(await client.open())
        #expect(await client.send(1, jwt: self.jwt).map(\.status) == [200])
        await client.limit(1000)
        return (simulator, client)
    }

    @Test func theLimitRisesWithTheFirstValidToken() async throws {
        let simulator = try await Simulator.start()
        let client = try WireClient(simulator)
        #expect(await client.open())
        #expect(await client.limits == [1])
        #expect(await client.send(1, jwt: nil).map(\.status) == [403])
        #expect(await client.limits == [1])
        #expect(await client.send(1, jwt: self.jwt).map(\.status) == [200])
        await client.limit(1000)
        #expect(await client.send(1000, jwt: self.jwt).count { $0.status == 200 } == 1000)
        #expect(await client.limits == [1, 1000])
        await simulator.stop()
    }

    @Test func clientsWithoutTokensStartAtTheFullLimit() async throws {
        var configuration = Simulator.Configuration()
        configuration.credential = .none
        configuration.environment = .production
        let simulator = try await Simulator.start(configuration)
        let client = try WireClient(simulator)
        #expect(await client.open())
        #expect(await client.limits == [1000])
        let results = await client.send(10, jwt: nil)
        #expect(results.allSatisfy { $0.status == 200 && $0.fields.first("apns-unique-id") == nil })
        await simulator.stop()
    }

    @Test func otherTeamsAreRefusedOnAConnection() async throws {
        let (simulator, client) = try await self.pair()
        let other = try SimulatedKey().providerToken(issuedAt: Sample.now)
        let result = await client.send(1, jwt: other)
        #expect(result.first?.status == 403)
        #expect(simulator.record.pushes.last?.reason == .invalidProviderToken)
        await simulator.stop()
    }

    @Test func keysCanBeAddedAndRemoved() async throws {
        var configuration = Simulator.Configuration()
        configuration.credential = .keys([])
        let simulator = try await Simulator.start(configuration)
        let client = try WireClient(simulator)
        #expect(await client.open())
        #expect(await client.send(1, jwt: self.jwt).first?.status == 403)
        try simulator.addKey(
            keyID: self.key.keyID,
            teamID: self.key.teamID,
            publicKeyPEM: self.key.publicKeyPEM
        )
        #expect(await client.send(1, jwt: self.jwt).first?.status == 200)
        simulator.removeKey(keyID: self.key.keyID)
        #expect(await client.send(1, jwt: self.jwt).first?.status == 403)
        await simulator.stop()
    }

    @Test func theConfiguredClockAndUpdateLimitApply() async throws {
        let clock = SharedClock()
        clock.now.withLock { $0 = Sample.now }
        var configuration = Simulator.Configuration()
        configuration.clock = { clock.now.withLock { $0 } }
        configuration.limitsProviderTokenUpdates = true
        let (simulator, client) = try await self.pair(configuration)
        let second = try self.key.providerToken(issuedAt: Sample.now + 1)
        #expect(await client.send(1, jwt: second).first?.status == 429)
        #expect(simulator.record.pushes.last?.reason == .tooManyProviderTokenUpdates)
        #expect(await client.send(1, jwt: self.jwt).first?.status == 200)
        clock.now.withLock { $0 += 20 * 60 }
        #expect(await client.send(1, jwt: second).first?.status == 200)
        clock.now.withLock { $0 += 41 * 60 }
        #expect(await client.send(1, jwt: second).first?.status == 403)
        #expect(simulator.record.pushes.last?.reason == .expiredProviderToken)
        await simulator.stop()
    }

    @Test("The limit on token updates can be turned on and off, and a reset restores it and forgets the tokens")
    func updateLimitChanges() async throws {
        var configuration = Simulator.Configuration()
        configuration.clock = { Sample.now }
        let (simulator, client) = try await self.pair(configuration)
        let tokens = try (1...3).map { try self.key.providerToken(issuedAt: Sample.now + $0) }
        func status(_ token: String) async -> Int? { await client.send(1, jwt: token).first?.status }
        for token in tokens { #expect(await status(token) == 200) }
        simulator.limitsProviderTokenUpdates = true
        #expect(await status(tokens[2]) == 200, "the open connection's token counts from now on")
        #expect(await status(tokens[0]) == 429)
        simulator.limitsProviderTokenUpdates = false
        #expect(await status(tokens[0]) == 200)
        simulator.limitsProviderTokenUpdates = true
        #expect(await status(tokens[0]) == 200)
        #expect(await status(tokens[1]) == 429)
        simulator.reset()
        #expect(!simulator.limitsProviderTokenUpdates)
        #expect(await status(tokens[1]) == 200)
        await simulator.stop()
    }

    @Test("After a reset, the first token of a key is accepted")
    func resetForgetsTokens() async throws {
        var configuration = Simulator.Configuration()
        configuration.clock = { Sample.now }
        configuration.limitsProviderTokenUpdates = true
        let (simulator, client) = try await self.pair(configuration)
        let second = try self.key.providerToken(issuedAt: Sample.now + 1)
        #expect(await client.send(1, jwt: second).first?.status == 429)
        simulator.reset()
        #expect(simulator.limitsProviderTokenUpdates)
        #expect(await client.send(1, jwt: second).first?.status == 200)
        await simulator.stop()
    }

    @Test("An expired token does not count as the first token of its key")
    func expiredTokensAreNotUpdates() async throws {
        var configuration = Simulator.Configuration()
        configuration.clock = { Sample.now }
        configuration.limitsProviderTokenUpdates = true
        let simulator = try await Simulator.start(configuration)
        simulator.addKey(self.key)
        let client = try WireClient(simulator)
        #expect(await client.open())
        let expired = try self.key.providerToken(issuedAt: Sample.now - 3_601)
        #expect(await client.send(1, jwt: expired).first?.status == 403)
        #expect(await client.send(1, jwt: self.jwt).first?.status == 200)
        await simulator.stop()
    }

    @Test func streamsAboveAnAcknowledgedLimitAreRefused() async throws {
        let (simulator, client) = try await self.pair()
        #expect(await simulator.apply(.settings(maxConcurrentStreams: 2)) == 1)
        await client.limit(2)
        #expect(await client.send(2, jwt: self.jwt).allSatisfy { $0.status == 200 })
        await simulator.apply(.settings(maxConcurrentStreams: 500))
        await client.limit(500)
        #expect(await client.send(500, jwt: self.jwt).allSatisfy { $0.status == 200 })
        await simulator.stop()
    }

    @Test func theRecordCountsWithoutPushes() async throws {
        var configuration = Simulator.Configuration()
        configuration.recording = .counts
        let (simulator, client) = try await self.pair(configuration)
        _ = await client.send(20, jwt: self.jwt)
        _ = await client.send(3, jwt: self.jwt, payload: "")
        let ledger = simulator.record
        #expect(ledger.pushes.isEmpty && ledger.requestsReceived == 24)
        #expect(ledger.requestsProcessed == 21 && ledger.requestsRejected == 3)
        await simulator.stop()
    }

    @Test func theRecordFindsDuplicates() async throws {
        let (simulator, client) = try await self.pair()
        let id = "eabeae54-14a8-11e5-b60b-1697f925ec7b"
        _ = await client.results(await client.submit(2, jwt: self.jwt, ids: [id, id.uppercased()]))
        let push = try #require(APNSID(id))
        #expect(simulator.record.duplicates == [push])
        #expect(simulator.record.processedCount(of: push) == 2)
        await simulator.stop()
    }

    @Test func testsCanWaitForTheRecord() async throws {
        let (simulator, client) = try await self.pair()
        async let waiting: Void = simulator.waitUntil(timeout: Patience.limit) { $0.requestsProcessed == 31 }
        for _ in 0..<3 { _ = await client.send(10, jwt: self.jwt) }
        try await waiting
        try await simulator.waitUntil(timeout: Patience.limit) { $0.requestsProcessed == 31 }
        await #expect(throws: SimulatorError.self) {
            try await simulator.waitUntil(timeout: .milliseconds(20)) { $0.requestsProcessed == 0 }
        }
        let cancelled = Task { try await simulator.waitUntil(timeout: Patience.limit) { $0.requestsProcessed == 0 } }
        cancelled.cancel()
        let result = await cancelled.result
        #expect(throws: SimulatorError.self) { try result.get() }
        let stopped = Task { try await simulator.waitUntil(timeout: Patience.limit) { $0.connectionsClosed == 99 } }
        await client.close()
        try await simulator.waitUntil(timeout: Patience.limit) { $0.connectionsClosed == 1 }
        #expect(simulator.openConnections == 0)
        await simulator.stop()
        stopped.cancel()
        let end = await stopped.result
        #expect(throws: SimulatorError.self) { try end.get() }
    }

    @Test func simulatorsRunInParallel() async throws {
        let ports = try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<8 {
                group.addTask {
                    let simulator = try await Simulator.start()
                    let client = try WireClient(simulator)
                    #expect(await client.open())
                    #expect(await client.send(1, jwt: self.jwt).map(\.status) == [200])
                    #expect(simulator.record.requestsReceived == 1)
                    await simulator.stop()
                    #expect(simulator.openConnections == 0)
                    return simulator.port
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(ports.count == 8 && ports.allSatisfy { $0 > 0 })
    }

    @Test func aStoppedSimulatorIsReleased() async throws {
        weak var core: SimulatorCore?
        do {
            let (simulator, client) = try await self.pair()
            core = simulator.core
            #expect(core != nil)
            await client.close()
            await simulator.stop()
        }
        #expect(await eventually { core == nil })
    }

    @Test func startReportsAUsedPort() async throws {
        let first = try await Simulator.start()
        var configuration = Simulator.Configuration()
        configuration.port = first.port
        await #expect { try await Simulator.start(configuration) } throws: { error in
            (error as? SimulatorError)?.code == .startFailed
        }
        await first.stop()
    }
}

/// A clock that a test sets.
final class SharedClock: Sendable {
    let now = Mutex<Int64>(0)
}
