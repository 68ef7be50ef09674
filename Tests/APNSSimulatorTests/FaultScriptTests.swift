import APNSModel
import Foundation
import Testing

@testable import APNSSimulator

@Suite struct FaultScriptTests {
    private static let effects: [FaultEffect] = [
        .answer(.unregistered, timestamp: 12), .answer(status: 500, reason: nil),
        .answer(status: 502, body: Array("<html>".utf8)), .malformedBody(), .delay(.milliseconds(250)),
        .delay(.uniform(.milliseconds(1), .seconds(2))), .delay(.exponential(mean: .milliseconds(30))),
        .stall(), .stall(isProcessed: true), .refuse, .reset(code: 8, isProcessed: true),
        .goAway(), .goAway(.beforeThisRequest, reason: "Shutdown", code: 11), .goAway(.streamID(5)),
        .dropConnection(isProcessed: true, closeNotify: true), .silence, .settings(maxConcurrentStreams: 3),
        .earlyAnswer(.badDeviceToken),
    ]

    @Test(arguments: effects) func scriptsAreData(effect: FaultEffect) throws {
        let trigger = FaultTrigger(skip: 3, times: nil, probability: 0.5, deviceTokens: ["AB"], connection: 2)
        let script = FaultScript([Fault(effect), Fault(effect, when: trigger), Fault(effect, when: .next(4))])
        let data = try JSONEncoder().encode(script)
        #expect(try JSONDecoder().decode(FaultScript.self, from: data) == script)
    }

    @Test func scriptsAreShortToWrite() throws {
        let text = """
            {"faults": [
                {"when": {"skip": 100, "times": 5}, "effect": {"kind": "answer", "reason": "ServiceUnavailable"}},
                {"when": {"always": true, "probability": 0.1}, "effect": {"kind": "delay", "milliseconds": 40}},
                {"when": {}, "effect": {"kind": "goaway", "reason": "Shutdown"}}
            ]}
            """
        let script = try JSONDecoder().decode(FaultScript.self, from: Data(text.utf8))
        #expect(
            script.faults == [
                Fault(.answer(.serviceUnavailable), when: .nth(101, times: 5)),
                Fault(.delay(.milliseconds(40)), when: .probability(0.1)),
                Fault(.goAway(reason: "Shutdown")),
            ]
        )
        let wrong = #"{"faults":[{"when":{},"effect":{"kind":"explode"}}]}"#
        #expect(throws: DecodingError.self) { try JSONDecoder().decode(FaultScript.self, from: Data(wrong.utf8)) }
    }

    private func draws(_ engine: inout FaultEngine, _ count: Int, token: String = "aa") -> [FaultEffect.Kind?] {
        (0..<count).map { _ in engine.draw(isEarly: false, connection: 1) { token }.decisive }
    }

    @Test func faultsFollowOneAnother() {
        var engine = FaultEngine(seed: 1)
        engine.inject(Fault(.answer(.badTopic), when: .nth(2, times: 2)))
        engine.inject(.refuse(count: 1))
        let badTopic = FaultEffect.answer(.badTopic).kind
        #expect(self.draws(&engine, 5) == [FaultEffect.refuse.kind, badTopic, badTopic, nil, nil])
        #expect(engine.isEmpty)
    }

    @Test func conditionsHoldTogether() {
        var engine = FaultEngine(seed: 1)
        engine.inject(Fault(.refuse, when: .deviceToken("BB")))
        engine.inject(Fault(.stall(), when: FaultTrigger(connection: 2)))
        #expect(self.draws(&engine, 2) == [nil, nil])
        #expect(self.draws(&engine, 2, token: "bb") == [FaultEffect.refuse.kind, FaultEffect.refuse.kind])
        #expect(engine.draw(isEarly: false, connection: 2) { "aa" }.decisive == FaultEffect.stall().kind)
        engine.removeAll()
        #expect(engine.isEmpty)
    }

    @Test func chanceIsRepeatable() {
        func run(_ seed: UInt64) -> [Bool] {
            var engine = FaultEngine(seed: seed)
            engine.inject(Fault(.refuse, when: .probability(0.25)))
            return self.draws(&engine, 4000).map { $0 != nil }
        }
        let hits = run(5)
        #expect(hits == run(5))
        #expect(hits != run(6))
        #expect((800...1200).contains(hits.count { $0 }))
    }

    @Test func delaysAddUpAndSettingsPass() {
        var engine = FaultEngine(seed: 1)
        engine.inject(Fault(.delay(.milliseconds(10))))
        engine.inject(Fault(.delay(.uniform(.milliseconds(5), .milliseconds(6)))))
        engine.inject(Fault(.settings(maxConcurrentStreams: 7)))
        engine.inject(.answer(.badTopic))
        let draw = engine.draw(isEarly: false, connection: 1) { "" }
        #expect((.milliseconds(15) ... .milliseconds(16)).contains(draw.delay))
        #expect(draw.settings == 7 && draw.decisive == FaultEffect.answer(.badTopic).kind && draw.count == 4)
    }

    @Test func delaysHaveTheirMean() {
        var random = SeededRandom(seed: 3)
        let sum = (0..<20_000).reduce(Duration.zero) { sum, _ in
            sum + DelayDistribution.exponential(mean: .milliseconds(10)).draw(using: &random)
        }
        #expect((9.7...10.3).contains(sum.inMilliseconds / 20_000))
    }
}
