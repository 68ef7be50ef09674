import APNSModel
import NIOCore
import TestSupport
import Testing

@testable import APNSSimulator
@testable import APNSTransport

/// Each fault, as a client of `APNSTransport` experiences it.
struct FaultTests {
    private let jwt: String

    init() throws { self.jwt = try SimulatedKey().providerToken(issuedAt: Sample.now) }

    private func pair(
        _ configuration: Simulator.Configuration = .init(),
        pings: PathCheck.Limits = .patient
    ) async throws -> (simulator: Simulator, client: WireClient) {
        let simulator = try await Simulator.start(configuration)
        let client = try WireClient(simulator, pings: pings)
        #expect(await client.open())
        #expect(await client.send(1, jwt: self.jwt).map(\.status) == [200])
        await client.limit(1000)
        return (simulator, client)
    }

    @Test func burstsOf503And500FollowEachOther() async throws {
        let (simulator, client) = try await self.pair()
        simulator.inject(.serviceUnavailable(count: 3))
        simulator.inject(.internalServerError(count: 2))
        let results = await client.send(7, jwt: self.jwt)
        #expect(results.map(\.status) == [503, 503, 503, 500, 500, 200, 200])
        #expect(String(decoding: results[0].body, as: UTF8.self) == #"{"reason":"ServiceUnavailable"}"#)
        #expect(simulator.record.requestsProcessed == 3 && simulator.record.faultsApplied == 5)
        await simulator.stop()
    }

    @Test func refusedStreamsAreNotProcessed() async throws {
        let (simulator, client) = try await self.pair()
        simulator.inject(Fault(.refuse, when: .nth(2, times: 3)))
        let results = await client.send(6, jwt: self.jwt)
        #expect(
            results.map(\.ending) == [.response] + Array(repeating: .notProcessed, count: 3) + [.response, .response]
        )
        let ledger = simulator.record
        #expect(ledger.streamsRefused == 3 && ledger.requestsProcessed == 4)
        #expect(ledger.pushes.map(\.isProcessed) == [true, true, false, false, false, true, true])
        await simulator.stop()
    }

    @Test func resetsMayHideAnAcceptedPush() async throws {
        let (simulator, client) = try await self.pair()
        simulator.inject(Fault(.reset(code: 2, isProcessed: true)))
        #expect(await client.send(1, jwt: self.jwt).map(\.ending) == [.unknown])
        #expect(simulator.record.pushes.last?.isProcessed == true)
        #expect(simulator.record.pushes.last?.fate == .reset)
        await simulator.stop()
    }

    @Test func delaysHoldResponsesBack() async throws {
        let (simulator, client) = try await self.pair()
        simulator.inject(Fault(.delay(.milliseconds(150))))
        let start = ContinuousClock.now
        let tags = await client.submit(2, jwt: self.jwt)
        #expect(await client.results(tags).map(\.status) == [200, 200])
        #expect(await client.finished.suffix(2) == [tags[1], tags[0]])
        #expect(ContinuousClock.now - start >= .milliseconds(150))
        await simulator.stop()
    }

    @Test func allResponsesCanBeDelayed() async throws {
        var configuration = Simulator.Configuration()
        configuration.responseDelay = .milliseconds(60)
        let (simulator, client) = try await self.pair(configuration)
        let elapsed = await ContinuousClock().measure { _ = await client.send(100, jwt: self.jwt) }
        #expect(elapsed >= .milliseconds(60))
        await simulator.stop()
    }

    @Test func stalledStreamsGetNoResponse() async throws {
        let (simulator, client) = try await self.pair()
        simulator.inject(Fault(.stall()))
        let tags = await client.submit(2, jwt: self.jwt)
        #expect(await client.results([tags[1]]).map(\.status) == [200])
        await client.cancel(tags[0])
        #expect(await client.results([tags[0]]).map(\.ending) == [.unknown])
        #expect(simulator.record.pushes[1].fate == .stalled)
        #expect(await client.send(1, jwt: self.jwt).map(\.status) == [200])
        await simulator.stop()
    }

    @Test func goAwayEndsAfterItsRequest() async throws {
        let (simulator, client) = try await self.pair()
        simulator.inject(Fault(.goAway(.afterThisRequest, reason: "Shutdown"), when: .nth(5)))
        let results = await client.send(20, jwt: self.jwt)
        #expect(results.prefix(5).allSatisfy { $0.status == 200 })
        #expect(results.dropFirst(5).allSatisfy { $0.ending == .notProcessed })
        #expect(await client.closed()?.message.contains("Shutdown") == true)
        #expect(simulator.record.requestsProcessed == 6)
        try await simulator.waitUntil(timeout: Patience.limit) { $0.connectionsClosed == 1 }
        await simulator.stop()
    }

    @Test func goAwayMayExcludeItsRequest() async throws {
        let (simulator, client) = try await self.pair()
        simulator.inject(Fault(.delay(.milliseconds(80)), when: .next(3)))
        simulator.inject(Fault(.goAway(.beforeThisRequest), when: .nth(4)))
        let results = await client.send(6, jwt: self.jwt)
        #expect(
            results.map(\.ending) == Array(repeating: .response, count: 3) + Array(repeating: .notProcessed, count: 3)
        )
        #expect(simulator.record.requestsProcessed == 4)
        _ = await client.closed()
        await simulator.stop()
    }

    @Test func goAwayOnDemand() async throws {
        let (simulator, client) = try await self.pair()
        #expect(await simulator.goAway(reason: "BadCertificateEnvironment") == 1)
        #expect(await client.closed()?.code == .clientCertificateRefused)
        await simulator.stop()
    }

    @Test(arguments: [false, true]) func droppedConnectionsLoseTheirResponses(isProcessed: Bool) async throws {
        let (simulator, client) = try await self.pair()
        simulator.inject(Fault(.dropConnection(isProcessed: isProcessed), when: .nth(3)))
        let results = await client.send(10, jwt: self.jwt)
        #expect(results.prefix(2).allSatisfy { $0.status == 200 })
        #expect(results.dropFirst(2).allSatisfy { $0.ending == .unknown })
        #expect(await client.goAway == nil)
        _ = await client.closed()
        #expect(simulator.record.requestsProcessed == (isProcessed ? 4 : 3))
        await simulator.stop()
    }

    @Test func dropsOnDemandSelectConnections() async throws {
        let (simulator, busy) = try await self.pair()
        let idle = try WireClient(simulator)
        #expect(await idle.open())
        simulator.inject(Fault(.stall(), when: FaultTrigger(connection: 1)))
        await busy.submit(1, jwt: self.jwt)
        try await simulator.waitUntil(timeout: Patience.limit) { $0.requestsWithoutResponse == 1 }
        #expect(await simulator.dropConnections(.idle) == 1)
        _ = await idle.closed()
        #expect(simulator.connectionNumbers == [1])
        #expect(await simulator.dropConnections(.number(1), closeNotify: true) == 1)
        _ = await busy.closed()
        await simulator.stop()
    }

    @Test func aPingDetectsSilence() async throws {
        var pings = PathCheck.Limits.patient
        pings.busy = .milliseconds(200)
        // Longer than a busy machine needs for an acknowledgement.
        pings.acknowledgement = .seconds(2)
        let (simulator, client) = try await self.pair(pings: pings)
        simulator.inject(Fault(.silence, when: .nth(2)))
        let results = await client.send(3, jwt: self.jwt)
        #expect(results.map(\.ending) == [.response, .unknown, .unknown])
        #expect(await client.closed()?.code == .pingTimeout)
        #expect(simulator.record.requestsProcessed == 2)
        await simulator.stop()
    }

    @Test func theStreamLimitFallsAndRises() async throws {
        let (simulator, client) = try await self.pair()
        simulator.inject(Fault(.settings(maxConcurrentStreams: 1)))
        #expect(await client.send(1, jwt: self.jwt).map(\.status) == [200])
        await client.limit(1)
        simulator.inject(Fault(.settings(maxConcurrentStreams: 50)))
        #expect(await client.send(1, jwt: self.jwt).map(\.status) == [200])
        await client.limit(50)
        await simulator.stop()
    }

    @Test func earlyResponsesPrecedeTheBody() async throws {
        var configuration = Simulator.Configuration()
        configuration.initialWindowSize = 16
        let (simulator, client) = try await self.pair(configuration)
        simulator.inject(Fault(.earlyResponse(.badDeviceToken), when: .nth(2)))
        let payload = String(repeating: "x", count: 4000)
        let results = await client.send(3, jwt: self.jwt, payload: payload)
        #expect(results.map(\.status) == [200, 400, 200])
        let early = simulator.record.pushes.filter { $0.status == 400 }
        #expect(early.count == 1 && early[0].payload.count < 4000 && !early[0].isProcessed)
        #expect(simulator.record.requestsReceived == 4)
        await simulator.stop()
    }

    @Test func bodiesMayHaveAnyForm() async throws {
        let (simulator, client) = try await self.pair()
        simulator.inject(Fault(.malformedBody(status: 403)))
        simulator.inject(Fault(.oversizedBody(status: 400, bytes: 200_000)))
        simulator.inject(Fault(.respond(status: 502, body: Array("<html>".utf8))))
        simulator.inject(Fault(.respond(RejectionReason(rawValue: "FromTheFuture"))))
        let results = await client.send(5, jwt: self.jwt)
        #expect(results.map(\.status) == [403, 400, 502, 400, 200])
        #expect(results[1].body.count == 4096)
        await simulator.stop()
    }
}
