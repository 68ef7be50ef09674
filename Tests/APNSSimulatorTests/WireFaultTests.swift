import APNSModel
import APNSBasics
import TestSupport
import Testing

@testable import APNSSimulator
@testable import APNSTransport

/// Faults on the wire, byte by byte.
struct WireFaultTests {
    private let jwt: String

    init() throws { self.jwt = try SimulatedKey().providerToken(issuedAt: Sample.now) }

    /// A simulator without warm-up. The fault applies to its first request, on stream 1.
    private func pair(_ faults: [Fault]) async throws -> (simulator: Simulator, client: RawClient) {
        var configuration = Simulator.Configuration()
        configuration.initialMaxConcurrentStreams = 1000
        configuration.faults = FaultScript(faults)
        let simulator = try await Simulator.start(configuration)
        let client = try await RawClient.connect(simulator)
        client.start()
        return (simulator, client)
    }

    private func meet(_ effect: FaultEffect) async throws -> (simulator: Simulator, client: RawClient) {
        let pair = try await self.pair([Fault(effect)])
        pair.client.push(1, jwt: self.jwt)
        return pair
    }

    private func leave(_ pair: (simulator: Simulator, client: RawClient)) async {
        await pair.client.close()
        await pair.simulator.stop()
    }

    @Test(arguments: [0, 5, 2000] as [Int]) func bodiesMayBeCutOff(after bytes: Int) async throws {
        let response = ScriptedResponse(status: 400).with { $0.body = Array(repeating: 0x78, count: 4000) }
        let pair = try await self.meet(.cutBody(response, after: bytes, code: 8))
        let reset = try await pair.client.frame { $0.type == 3 }
        #expect(reset?.code == 8 && reset?.streamID == 1)
        let data = pair.client.frames.filter { $0.type == 0 && $0.streamID == 1 }
        #expect(data.reduce(0) { $0 + $1.payload.count } == bytes)
        #expect(data.allSatisfy { $0.flags & 1 == 0 })
        #expect(pair.client.types(on: 1).first == 1)
        // The next stream is not affected.
        pair.client.push(3, jwt: self.jwt)
        let next = try await pair.client.frame { $0.type == 1 && $0.streamID == 3 }
        #expect(next?.flags == 5)
        await self.leave(pair)
    }

    @Test func responsesMayNeverEnd() async throws {
        let pair = try await self.meet(
            .respond(ScriptedResponse(.badTopic).with { $0.neverEnds = true })
        )
        #expect(try await pair.client.frame { $0.type == 0 } != nil)
        pair.client.push(3, jwt: self.jwt)
        #expect(try await pair.client.frame { $0.type == 1 && $0.streamID == 3 } != nil)
        #expect(pair.client.frames.filter { $0.streamID == 1 }.allSatisfy { $0.flags & 1 == 0 && $0.type != 3 })
        await self.leave(pair)
    }

    @Test func bodiesMayBeEndless() async throws {
        let pair = try await self.meet(.oversizedBody(bytes: .max))
        // The number of bytes that both windows allow.
        #expect(try await pair.client.wait { $0.received >= 65_535 })
        // A window for 100,000 more on the connection and on the stream.
        for stream in [0, 1] as [Int32] {
            pair.client.send(
                RawFrame(type: 8, stream: .request, payload: [0, 1, 0x86, 0xA0]).bytes(requestStreamID: stream)
            )
        }
        #expect(try await pair.client.wait { $0.received >= 165_000 })
        #expect(pair.client.frames.allSatisfy { $0.type != 0 || $0.flags & 1 == 0 })
        await self.leave(pair)
    }

    @Test func oversizedBodiesEnd() async throws {
        let pair = try await self.meet(.oversizedBody(status: 400, bytes: 30_000))
        #expect(try await pair.client.frame { $0.type == 0 && $0.flags & 1 == 1 } != nil)
        #expect(pair.client.frames.filter { $0.type == 0 }.reduce(0) { $0 + $1.payload.count } == 30_000)
        await self.leave(pair)
    }

    @Test func trailersFollowTheBody() async throws {
        let pair = try await self.meet(.respond(ScriptedResponse(.badTopic).with { $0.trailers = ["x-end": "1"] }))
        #expect(try await pair.client.frame { $0.type == 1 && $0.flags & 1 == 1 } != nil)
        #expect(pair.client.types(on: 1) == [1, 0, 1])
        await self.leave(pair)
    }

    @Test func emptyBodiesMayHaveTrailers() async throws {
        let pair = try await self.meet(.respond(ScriptedResponse(status: 200).with { $0.trailers = ["x-end": "1"] }))
        #expect(try await pair.client.frame { $0.type == 1 && $0.flags & 1 == 1 } != nil)
        #expect(pair.client.types(on: 1).filter { $0 == 1 }.count == 2)
        await self.leave(pair)
    }

    @Test func informationalResponsesComeFirst() async throws {
        let pair = try await self.meet(.respond(ScriptedResponse(status: 200).with { $0.informational = [100, 103] }))
        #expect(try await pair.client.frame { $0.type == 1 && $0.flags & 1 == 1 } != nil)
        #expect(pair.client.frames.filter { $0.streamID == 1 }.map(\.type) == [1, 1, 1])
        #expect(pair.client.frames.filter { $0.streamID == 1 }.map { $0.flags & 1 } == [0, 0, 1])
        await self.leave(pair)
    }

    @Test func resetsMayFollowACompleteResponse() async throws {
        let pair = try await self.meet(.respond(ScriptedResponse(.badTopic).with { $0.resetCode = 0 }))
        #expect(try await pair.client.frame { $0.type == 3 }?.code == 0)
        #expect(pair.client.types(on: 1) == [1, 0, 3])
        pair.client.push(3, jwt: self.jwt)
        #expect(try await pair.client.frame { $0.type == 1 && $0.streamID == 3 } != nil)
        await self.leave(pair)
    }

    @Test func resetsMayFollowAnEarlyResponse() async throws {
        let pair = try await self.pair([
            Fault(.earlyResponse(ScriptedResponse(.payloadTooLarge).with { $0.resetCode = 0 }))
        ])
        pair.client.push(1, jwt: self.jwt, body: nil)
        let reset = try await pair.client.frame { $0.type == 3 }
        #expect(reset?.code == 0)
        #expect(pair.client.types(on: 1) == [1, 0, 3])
        let ledger = pair.simulator.record
        #expect(ledger.pushes.map(\.status) == [413] && ledger.pushes.map(\.isProcessed) == [false])
        #expect(ledger.faults == ["early-response": 1])
        await self.leave(pair)
    }

    @Test(arguments: [7, 8] as [UInt32]) func streamsAreResetBeforeTheirBody(code: UInt32) async throws {
        let pair = try await self.pair([Fault(.reset(code: code), when: FaultTrigger(event: .headers))])
        pair.client.push(1, jwt: self.jwt, body: nil)
        #expect(try await pair.client.frame { $0.type == 3 }?.code == code)
        pair.client.push(3, jwt: self.jwt)
        #expect(try await pair.client.frame { $0.type == 1 && $0.streamID == 3 } != nil)
        let ledger = pair.simulator.record
        #expect(ledger.pushes.map(\.fate) == [.reset, .responded] && ledger.requestsProcessed == 1)
        #expect(ledger.streamsRefused == (code == 7 ? 1 : 0))
        await self.leave(pair)
    }

    @Test func veryLongDelaysAreHarmless() async throws {
        let forever = Duration.seconds(Int64.max)
        let pair = try await self.pair([
            Fault(.pause(forever)), Fault(.delay(.fixed(forever))), Fault(.gracefulGoAway(notice: forever)),
            Fault(.pingFlood(1), when: .at(forever, every: forever)),
            Fault(.slowReader(bytes: 1 << 20, every: forever), when: FaultTrigger(event: .time, from: .seconds(50))),
        ])
        pair.client.push(1, jwt: self.jwt)
        #expect(try await pair.client.frame { $0.type == 7 } != nil)
        await self.leave(pair)
    }

    @Test func headersMayBeTooLarge() async throws {
        let pair = try await self.meet(.respond(ScriptedResponse(status: 200).with { $0.headerBytes = 60_000 }))
        let ended = try await pair.client.wait { state in
            state.frames.contains { $0.streamID == 1 && ($0.type == 1 || $0.type == 9) && $0.flags & 4 == 4 }
        }
        #expect(ended)
        let block = pair.client.frames.filter { $0.streamID == 1 && ($0.type == 1 || $0.type == 9) }
        #expect(block.reduce(0) { $0 + $1.payload.count } > 40_000 && block.count > 1)
        await self.leave(pair)
    }

    @Test func responsesMayHaveAnyIDAndHeaders() async throws {
        let (simulator, client) = try await self.wirePair(
            FaultScript([
                Fault(.respond(ScriptedResponse(status: 200).with { $0.id = .missing })),
                Fault(.respond(ScriptedResponse(status: 200).with { $0.id = .text("not an id") })),
                Fault(.respond(ScriptedResponse(.tooManyRequests).with { $0.headers = ["retry-after": "7"] })),
            ])
        )
        let results = await client.send(3, jwt: self.jwt)
        #expect(results.map { $0.fields.first("apns-id") != nil } == [false, true, true])
        #expect(results[1].fields.first("apns-id") == "not an id")
        #expect(results[2].fields.first("retry-after") == "7" && results[2].status == 429)
        await client.close()
        await simulator.stop()
    }

    private func wirePair(_ script: FaultScript) async throws -> (Simulator, WireClient) {
        var configuration = Simulator.Configuration()
        configuration.initialMaxConcurrentStreams = 1000
        configuration.faults = script
        let simulator = try await Simulator.start(configuration)
        let client = try WireClient(simulator)
        #expect(await client.open())
        return (simulator, client)
    }

    // MARK: GOAWAY

    @Test func certificatesAreRefusedLikeAPNs() async throws {
        let pair = try await self.pair([
            Fault(.goAway(reason: "BadCertificateEnvironment"), when: FaultTrigger(event: .open))
        ])
        let goAway = try await pair.client.frame { $0.type == 7 }
        #expect(goAway?.payload.prefix(8).allSatisfy { $0 == 0 } == true)
        let debug = String(decoding: goAway?.payload.dropFirst(8) ?? [], as: UTF8.self)
        #expect(debug == #"{"reason":"BadCertificateEnvironment"}"#)
        await self.leave(pair)
    }

    @Test func aGracefulGoAwayHasTwoFrames() async throws {
        let pair = try await self.pair([Fault(.gracefulGoAway(notice: .seconds(1), reason: "Shutdown"))])
        pair.client.push(1, jwt: self.jwt)
        #expect(try await pair.client.frame { $0.type == 7 } != nil)
        // The second request falls within the notice, which is long enough for a busy machine.
        pair.client.push(3, jwt: self.jwt)
        #expect(try await pair.client.wait { state in state.frames.count { $0.type == 7 } == 2 })
        let last = pair.client.frames.filter { $0.type == 7 }.map { Array($0.payload.prefix(4)) }
        #expect(last == [[0x7F, 0xFF, 0xFF, 0xFF], [0, 0, 0, 3]])
        #expect(try await pair.client.waitForEnd() != nil)
        #expect(pair.simulator.record.requestsProcessed == 2 && pair.simulator.record.goAwaysSent == 2)
        await self.leave(pair)
    }

    @Test func goAwayMayCarryAnyText() async throws {
        let pair = try await self.meet(.goAway(debug: "Maximum active streams violated", code: 7))
        let goAway = try await pair.client.frame { $0.type == 7 }
        #expect(goAway.map { Array($0.payload[4..<8]) } == [0, 0, 0, 7])
        #expect(goAway.map { String(decoding: $0.payload[8...], as: UTF8.self) } == "Maximum active streams violated")
        await self.leave(pair)
    }

    // MARK: The end of a connection

    @Test(arguments: [(ConnectionEnding.fin, RawClient.End.fin), (.rst, .rst), (.closeNotify, .closeNotify)])
    func connectionsMayEndInAnyWay(ending: ConnectionEnding, end: RawClient.End) async throws {
        let pair = try await self.meet(.dropConnection(isProcessed: true, ending))
        #expect(try await pair.client.waitForEnd() == end)
        #expect(pair.client.frames.allSatisfy { $0.type != 7 && $0.streamID == 0 })
        #expect(pair.simulator.record.pushes.map(\.isProcessed) == [true])
        await self.leave(pair)
    }

    @Test func silenceMayAcknowledgePings() async throws {
        let id = "eabeae54-14a8-11e5-b60b-1697f925ec7b"
        let pair = try await self.pair([Fault(.silence(isProcessed: true, acknowledgesPings: true))])
        pair.client.push(1, jwt: self.jwt)
        pair.client.push(3, jwt: self.jwt, id: id)
        pair.client.send(RawFrame(type: 6, payload: [1, 2, 3, 4, 5, 6, 7, 8]).bytes(requestStreamID: 0))
        #expect(try await pair.client.frame { $0.type == 6 && $0.flags & 1 == 1 } != nil)
        #expect(pair.client.types(on: 1).isEmpty && pair.client.types(on: 3).isEmpty)
        let ledger = pair.simulator.record
        #expect(ledger.requestsProcessed == 2 && ledger.pushes.map(\.fate) == [.lost, .lost])
        #expect(pair.simulator.processed(apnsID: try #require(APNSID(id))))
        await self.leave(pair)
    }

    @Test(arguments: [true, false]) func silenceMayBeTotal(reads: Bool) async throws {
        let pair = try await self.pair([Fault(.silence(reads: reads))])
        pair.client.push(1, jwt: self.jwt)
        try await pair.simulator.waitUntil(timeout: Patience.limit) { $0.requestsReceived == 1 }
        pair.client.send(RawFrame(type: 6, payload: [1, 2, 3, 4, 5, 6, 7, 8]).bytes(requestStreamID: 0))
        pair.client.push(3, jwt: self.jwt)
        if reads {
            try await pair.simulator.waitUntil(timeout: Patience.limit) { $0.requestsReceived == 2 }
        } else {
            try await Task.sleep(for: .milliseconds(50))
            #expect(pair.simulator.record.requestsReceived == 1)
        }
        #expect(pair.client.frames.allSatisfy { $0.type != 6 && $0.streamID == 0 } && pair.client.end == nil)
        #expect(pair.simulator.record.requestsProcessed == 0)
        await self.leave(pair)
    }

    @Test func aPauseDelaysResponses() async throws {
        let pair = try await self.pair([Fault(.pause(.milliseconds(120)), when: .nth(2))])
        let clock = ContinuousClock()
        pair.client.push(1, jwt: self.jwt)
        #expect(try await pair.client.frame { $0.type == 1 && $0.streamID == 1 } != nil)
        let start = clock.now
        for stream in [3, 5, 7] as [Int32] { pair.client.push(stream, jwt: self.jwt) }
        #expect(try await pair.client.frame { $0.type == 1 && $0.streamID == 7 } != nil)
        #expect(start.duration(to: clock.now) >= .milliseconds(120))
        #expect(pair.simulator.record.requestsProcessed == 4)
        await self.leave(pair)
    }

    // MARK: Frames

    @Test func allSettingsCanBeSent() async throws {
        let pair = try await self.meet(
            .settings(
                .headerTableSize(0),
                .initialWindowSize(0),
                .maxFrameSize(1 << 20),
                .maxHeaderListSize(8000),
                HTTP2Setting(identifier: 0xFAFA, value: 1)
            )
        )
        let frame = try await pair.client.frame { $0.isSettings && $0.settings[4] == 0 }
        #expect(frame?.settings == [1: 0, 4: 0, 5: 1 << 20, 6: 8000, 0xFAFA: 1])
        await self.leave(pair)
    }

    @Test func theAnnouncedLimitRisesAndFalls() async throws {
        let limits: [UInt32] = [1, 1000, 1, 0]
        let pair = try await self.pair(limits.map { Fault(.settings(maxConcurrentStreams: $0)) })
        pair.client.push(1, jwt: self.jwt)
        #expect(try await pair.client.wait { state in state.frames.contains { $0.settings[3] == 0 && $0.isSettings } })
        let announced = pair.client.frames.filter(\.isSettings).compactMap { $0.settings[3] }
        #expect(announced == [1000] + limits || announced == [1000, 1000] + limits)
        await self.leave(pair)
    }

    @Test func pingsAndSettingsCanFlood() async throws {
        let pair = try await self.pair([Fault(.pingFlood(5000)), Fault(.settingsFlood(300))])
        pair.client.push(1, jwt: self.jwt)
        #expect(try await pair.client.wait { state in state.frames.count { $0.type == 6 } == 5000 })
        #expect(try await pair.client.wait { state in state.frames.count { $0.isSettings } >= 301 })
        #expect(try await pair.client.frame { $0.type == 1 && $0.streamID == 1 } != nil)
        await self.leave(pair)
    }

    @Test func slowReadersFillTheClientsWindow() async throws {
        let pair = try await self.pair([
            Fault(.slowReader(bytes: 512, every: .milliseconds(2)), when: .init(event: .open))
        ])
        #expect(try await pair.client.frame { $0.type == 4 && $0.flags & 1 == 1 } != nil)
        let body = String(repeating: "x", count: 4000)
        let clock = ContinuousClock()
        let start = clock.now
        for number in 0..<10 { pair.client.push(Int32(number * 2 + 1), jwt: self.jwt, body: body) }
        try await pair.simulator.waitUntil(timeout: Patience.limit) { $0.requestsReceived == 10 }
        // 40,000 bytes, read in steps of 512 bytes every two milliseconds.
        #expect(start.duration(to: clock.now) >= .milliseconds(140))
        await self.leave(pair)
    }

    @Test func rapidResetsEndTheConnection() async throws {
        let pair = try await self.pair([
            Fault(.rapidResetLimit(burst: 20, rate: 1), when: .connections()), Fault(.stall(), when: .always),
        ])
        for number in 0..<60 {
            let stream = Int32(number * 2 + 1)
            pair.client.push(stream, jwt: self.jwt)
            pair.client.send(RawFrame(type: 3, stream: .request, payload: [0, 0, 0, 8]).bytes(requestStreamID: stream))
        }
        #expect(try await pair.client.waitForEnd() != nil)
        #expect(pair.client.frames.contains { $0.type == 7 })
        await self.leave(pair)
    }
}
