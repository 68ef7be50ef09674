import APNSModel
import APNSBasics
import Foundation
import APNSTransport
import Testing

@testable import APNSSimulator

struct FaultScriptTests {
    private static let response = ScriptedResponse(.badTopic).with {
        $0.id = .text("x")
        $0.headers = ["retry-after": "3"]
        $0.headerBytes = 20_000
        $0.informational = [103]
        $0.trailers = ["x": "y"]
        $0.cutAfter = 3
        $0.resetCode = 0
        $0.isProcessed = true
    }

    private static let tls: TLSFault = {
        var fault = TLSFault()
        fault.certificate = .expired
        fault.alpn = .none
        fault.versions = .tls12
        fault.handshakeAlert = 40
        fault.clientCertificate = .revoked
        return fault
    }()

    private static let effects: [FaultEffect] = [
        .respond(.unregistered, timestamp: 12), .respond(status: 500, reason: nil),
        .respond(RejectionReason(rawValue: "New")), .goAway(reason: "New"),
        .respond(status: 502, body: Array("<html>".utf8)), .malformedBody(), .oversizedBody(bytes: .max),
        .cutBody(ScriptedResponse(.badTopic), after: 0, code: 8), .respond(FaultScriptTests.response),
        .respond(FaultScriptTests.response.with { $0.neverEnds = true }),
        .respond(FaultScriptTests.response.with { $0.id = .missing }),
        .earlyResponse(.badDeviceToken), .earlyResponse(FaultScriptTests.response),
        .delay(.milliseconds(250)), .delay(.uniform(.milliseconds(1), .seconds(2))),
        .delay(.exponential(mean: .milliseconds(30))), .delay(.logNormal(median: .milliseconds(30), spread: 0.25)),
        .pause(.seconds(60), everywhere: true), .stall(), .stall(isProcessed: true), .refuse,
        .reset(code: 8, isProcessed: true), .reset(code: 7, isProcessed: true),
        .goAway(), .goAway(.beforeThisRequest, reason: "Shutdown", code: 11), .goAway(.streamID(5)),
        .goAway(debug: "text", code: 7), .gracefulGoAway(notice: .seconds(1), reason: "Shutdown"),
        .dropConnection(isProcessed: true, .closeNotify), .dropConnection(.rst),
        .silence, .silence(isProcessed: true, acknowledgesPings: true), .silence(reads: false),
        .settings(maxConcurrentStreams: 3),
        .settings(
            .headerTableSize(0),
            .initialWindowSize(0),
            .maxFrameSize(1 << 20),
            .maxHeaderListSize(1),
            HTTP2Setting(identifier: 0xFAFA, value: 1)
        ),
        .pingFlood(5), .settingsFlood(6), .slowReader(bytes: 10, every: .milliseconds(5)),
        .clock(offsetSeconds: -7200), .listenerDown(.seconds(2)), .closeOnAccept(.rst), .neverSpeak(),
        .neverSpeak(for: .seconds(1)), .handshakeStall(), .handshakeStall(afterBytes: 0, for: .seconds(3)),
        .tls(Self.tls), .certificate(.otherHost), .alpn(.http11), .handshakeAlert(48), .clientCertificate(.unknownCA),
        .rapidResetLimit(),
    ]

    @Test(arguments: effects) func scriptsRoundTrip(effect: FaultEffect) throws {
        let trigger = FaultTrigger(
            event: effect.events.last,
            skip: 3,
            times: nil,
            every: 4,
            probability: 0.5,
            perSecond: 6,
            deviceTokens: ["AB"],
            connection: 2,
            from: .seconds(1),
            until: .seconds(5),
            period: .milliseconds(20)
        )
        let script = FaultScript([Fault(effect), Fault(effect, when: trigger), Fault(effect, when: .next(4))], seed: 9)
        let data = try JSONEncoder().encode(script)
        #expect(try JSONDecoder().decode(FaultScript.self, from: data) == script)
    }

    @Test func shortScriptsAreRead() throws {
        let text = """
            {"faults": [
                {"when": {"skip": 100, "times": 5}, "effect": {"kind": "respond", "reason": "ServiceUnavailable"}},
                {"when": {"always": true, "probability": 0.1}, "effect": {"kind": "delay", "milliseconds": 40}},
                {"when": {}, "effect": {"kind": "goaway", "reason": "Shutdown"}}
            ]}
            """
        let script = try JSONDecoder().decode(FaultScript.self, from: Data(text.utf8))
        #expect(
            script.faults == [
                Fault(.respond(.serviceUnavailable), when: .nth(101, times: 5)),
                Fault(.delay(.milliseconds(40)), when: .probability(0.1)),
                Fault(.goAway(reason: "Shutdown")),
            ]
        )
        let list = #"[{"effect":{"kind":"refuse"}}]"#
        #expect(try FaultScript(json: list.utf8) == FaultScript([Fault(.refuse)]))
    }

    @Test("The third request is written as in Swift, or with the number of those before it")
    func nthAndSkip() throws {
        let forms = [#"{"nth":3,"times":2}"#, #"{"skip":2,"times":2}"#]
        for form in forms {
            let script = try FaultScript(json: #"[{"when":\#(form),"effect":{"kind":"refuse"}}]"#.utf8)
            #expect(script.faults == [Fault(.refuse, when: .nth(3, times: 2))], "\(form)")
        }
        let both = #"[{"when":{"nth":3,"skip":2},"effect":{"kind":"refuse"}}]"#
        let error = #expect(throws: FaultScriptError.self) { try FaultScript(json: both.utf8) }
        #expect(error?.keyPath == "[0].when.nth")
    }

    @Test("A misspelt reason is refused with a suggestion, unless the script says that it is meant")
    func misspeltReasons() throws {
        func error(_ effect: String) -> String? {
            let json = #"{"faults":[{"effect":\#(effect)}]}"#
            return #expect(throws: FaultScriptError.self) { try FaultScript(json: json.utf8) }?.description
        }
        #expect(
            error(#"{"kind":"respond","reason":"Unregisterd"}"#)
                == #"faults[0].effect.reason = "Unregisterd": Apple lists no such reason; did you mean Unregistered? "#
                + #""unknown": true allows any text"#
        )
        #expect(error(#"{"kind":"goaway","reason":"shutdown"}"#)?.contains("did you mean Shutdown?") == true)
        #expect(
            error(#"{"kind":"respond","reason":"X"}"#)?.hasSuffix(#"no such reason; "unknown": true allows any text"#)
                == true
        )
        let meant = #"[{"effect":{"kind":"respond","reason":"X","unknown":true}}]"#
        #expect(try FaultScript(json: meant.utf8).faults == [Fault(.respond(RejectionReason(rawValue: "X")))])
    }

    private func request(connection: Int = 1, at uptime: Duration = .zero) -> FaultEngine.Situation {
        FaultEngine.Situation(event: .request, connection: connection, uptime: uptime)
    }

    private func draws(_ engine: inout FaultEngine, _ count: Int, token: String = "aa") -> [FaultEffect.Kind?] {
        (0..<count).map { _ in engine.draw(self.request()) { token }.decisive }
    }

    @Test func faultsApplyOneAfterAnother() {
        var engine = FaultEngine(seed: 1)
        engine.inject(Fault(.respond(.badTopic), when: .nth(2, times: 2)))
        engine.inject(.refuse(count: 1))
        let badTopic = FaultEffect.respond(.badTopic).kind
        #expect(self.draws(&engine, 5) == [FaultEffect.refuse.kind, badTopic, badTopic, nil, nil])
        #expect(engine.isEmpty)
    }

    @Test func allConditionsMustHold() {
        var engine = FaultEngine(seed: 1)
        engine.inject(Fault(.refuse, when: .deviceToken("BB")))
        engine.inject(Fault(.stall(), when: FaultTrigger(connection: 2)))
        #expect(self.draws(&engine, 2) == [nil, nil])
        #expect(self.draws(&engine, 2, token: "bb") == [FaultEffect.refuse.kind, FaultEffect.refuse.kind])
        #expect(engine.draw(self.request(connection: 2)) { "aa" }.decisive == FaultEffect.stall().kind)
        engine.removeAll()
        #expect(engine.isEmpty)
    }

    @Test func aSeedRepeatsItsDraws() {
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

    @Test func delaysAddUpAndSettingsDoNotDecide() {
        var engine = FaultEngine(seed: 1)
        engine.inject(Fault(.delay(.milliseconds(10))))
        engine.inject(Fault(.delay(.uniform(.milliseconds(5), .milliseconds(6)))))
        engine.inject(Fault(.settings(maxConcurrentStreams: 7)))
        engine.inject(.respond(.badTopic))
        let draw = engine.draw(self.request()) { "" }
        #expect((.milliseconds(15) ... .milliseconds(16)).contains(draw.delay))
        #expect(draw.beside == [FaultEffect.settings(maxConcurrentStreams: 7).kind])
        #expect(draw.decisive == FaultEffect.respond(.badTopic).kind)
        #expect(draw.names == ["delay", "delay", "settings", "respond"])
    }

    @Test func delaysHaveTheirMean() {
        var random = SplitMix64(seed: 3)
        let sum = (0..<20_000).reduce(Duration.zero) { sum, _ in
            sum + DelayDistribution.exponential(mean: .milliseconds(10)).draw(using: &random)
        }
        #expect((9.7...10.3).contains(sum.inMilliseconds / 20_000))
    }

    @Test(
        arguments: [
            ("{", "", "this is not JSON"), ("7", "", "expected an object"), ("{}", "faults", "a list of faults"),
            (#"{"faults":[],"x":1}"#, "x", "unknown key"), (#"{"faults":[],"seed":-1}"#, "seed", "a whole number"),
            (#"[{"effect":{"kind":"explode"}}]"#, "[0].effect.kind", "unknown effect"),
            (#"[{"effect":"surprise"}]"#, "[0].effect", "expected an object"),
            (#"{"faults":[{"when":{}}]}"#, "faults[0].effect", "a fault needs an effect"),
            (
                #"{"faults":[{"effect":{"kind":"refuse"},"when":{"always":1}}]}"#, "faults[0].when.always",
                "true or false"
            ),
            (#"[{"effect":{"kind":"refuse"},"when":{"on":"connect"}}]"#, "[0].when.on", "applies only to request"),
            (#"[{"effect":{"kind":"refuse"},"when":{"on":"never"}}]"#, "[0].when.on", "unknown value"),
            (#"[{"effect":{"kind":"refuse"},"when":{"probability":2}}]"#, "[0].when.probability", "from 0.0 to 1.0"),
            (#"[{"effect":{"kind":"refuse"},"when":{"every":0}}]"#, "[0].when.every", "a whole number from 1"),
            (#"[{"effect":{"kind":"respond","status":99}}]"#, "[0].effect.status", "from 200 to 599"),
            (#"[{"effect":{"kind":"respond","headers":{"a":1}}}]"#, "[0].effect.headers.a", "a text"),
            (#"[{"effect":{"kind":"respond","informational":[200]}}]"#, "[0].effect.informational", "from 100 to 199"),
            (#"[{"effect":{"kind":"delay"}}]"#, "[0].effect.milliseconds", "milliseconds"),
            (#"[{"effect":{"kind":"delay","milliseconds":1e300}}]"#, "[0].effect.milliseconds", "a number from 0"),
            (#"[{"effect":{"kind":"tls","handshakeAlert":"bad"}}]"#, "[0].effect.handshakeAlert", "unknown name"),
            (#"[{"effect":{"kind":"settings","maxFrameSize":1}}]"#, "[0].effect.maxFrameSize", "from 16384"),
            (#"[{"effect":{"kind":"settings","others":{"3":1}}}]"#, "[0].effect.others.3", "above 6"),
            (#"[{"effect":{"kind":"frame","type":1,"payload":"abc"}}]"#, "[0].effect.kind", "unknown effect"),
            (#"[{"effect":{"kind":"tls","certificate":"nice"}}]"#, "[0].effect.certificate", "expired"),
        ]
    )
    func errorsNameTheKeyPath(json: String, keyPath: String, problem: String) throws {
        let error = try #require(throws: FaultScriptError.self) { try FaultScript(json: json.utf8) }
        #expect(error.keyPath == keyPath)
        #expect(error.problem.contains(problem), "\(error)")
        #expect(error.description.hasPrefix(keyPath.isEmpty ? "the script" : keyPath))
    }

    @Test func errorsNameTheValue() throws {
        let json = #"{"faults":[{"effect":{"kind":"respond","status":99}}]}"#
        let error = try #require(throws: FaultScriptError.self) { try FaultScript(json: json.utf8) }
        #expect(error.value == "99")
        #expect(error.description == "faults[0].effect.status = 99: expected a whole number from 200 to 599")
    }

    @Test("A number with a zero fraction is an integer, and any other fraction is an error")
    func fractions() throws {
        func script(_ status: String) -> String { #"[{"effect": {"kind": "respond", "status": \#(status)}}]"# }
        #expect(try FaultScript(json: script("503.0").utf8) == FaultScript(json: script("503").utf8))
        for status in ["503.5", "1e300", "-503.0"] {
            #expect(throws: FaultScriptError.self) { try FaultScript(json: script(status).utf8) }
        }
    }

    @Test func countsRatesAndSpansTriggerFaults() {
        var engine = FaultEngine(seed: 1)
        engine.inject(Fault(.refuse, when: .every(3)))
        #expect(
            self.draws(&engine, 9).map { $0 != nil } == [false, false, true, false, false, true, false, false, true]
        )
        engine.removeAll()
        engine.inject(Fault(.refuse, when: FaultTrigger(times: nil, perSecond: 2)), at: .seconds(10))
        let times: [Duration] = [.seconds(10), .seconds(10), .milliseconds(10_900), .seconds(11), .seconds(12)]
        let hits = times.map { engine.draw(self.request(at: $0)) { "" }.decisive != nil }
        #expect(hits == [true, true, false, true, true])
        engine.removeAll()
        engine.inject(Fault(.refuse, when: .during(.seconds(1)..<(.seconds(2)))), at: .seconds(10))
        let spans: [Duration] = [.seconds(10), .seconds(11), .milliseconds(11_999), .seconds(12), .seconds(11)]
        #expect(
            spans.map { engine.draw(self.request(at: $0)) { "" }.decisive != nil } == [false, true, true, false, true]
        )
    }

    @Test func aScriptsSeedIgnoresEarlierFaults() {
        let script = FaultScript([Fault(.refuse, when: .probability(0.3))], seed: 77)
        func run(_ seed: UInt64, before: Int) -> [Bool] {
            var engine = FaultEngine(seed: seed)
            for _ in 0..<before { engine.inject(Fault(.stall(), when: .nth(1_000_000))) }
            engine.inject(script)
            return self.draws(&engine, 500).map { $0 != nil }
        }
        #expect(run(1, before: 0) == run(2, before: 3))
    }

    @Test func timedFaultsRunAndRepeat() throws {
        var engine = FaultEngine(seed: 1)
        let injected = engine.inject(Fault(.goAway(), when: .at(.seconds(2))))
        let once = try #require(injected)
        #expect(once.after == .seconds(2))
        let met = engine.keep(once, uptime: .seconds(2))
        let kept = try #require(met)
        #expect(kept.fault?.effect == .goAway() && kept.next == nil)
        let again = engine.keep(once, uptime: .seconds(2))
        #expect(again == nil && engine.isEmpty)
        let often = Fault(.pingFlood(1), when: .at(.zero, every: .seconds(1), times: 2))
        let repeated = engine.inject(often)
        let following = engine.keep(try #require(repeated), uptime: .zero)?.next
        let second = try #require(following)
        #expect(second.after == .seconds(1))
        let last = engine.keep(second, uptime: .seconds(1))
        #expect(last?.fault != nil && last?.next == nil && engine.isEmpty)
        // Connections have no device token.
        let ofADevice = engine.inject(Fault(.goAway(), when: FaultTrigger(event: .time, deviceTokens: ["aa"])))
        #expect(ofADevice == nil)
        let removed = engine.inject(often)
        engine.removeAll()
        let nothing = engine.keep(try #require(removed), uptime: .zero)
        #expect(nothing == nil)
    }

    @Test func logNormalDelaysHaveTheirMedian() {
        var random = SplitMix64(seed: 3)
        let distribution = DelayDistribution.logNormal(median: .milliseconds(10), spread: 0.5)
        let drawn = (0..<20_000).map { _ in distribution.draw(using: &random).inMilliseconds }.sorted()
        #expect((9.7...10.3).contains(drawn[10_000]))
        // The 95th percentile: the median times e to the power of 0.5 × 1.645.
        #expect((21.5...24).contains(drawn[19_000]))
        #expect(abs(Logarithm.inverse(1) - 2.718_281_828_459_045) < 1e-14)
        #expect(abs(Logarithm.natural(Logarithm.inverse(-12.5)) + 12.5) < 1e-12)
    }

    @Test(
        arguments: [
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"), (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"), (-1, "Wed, 31 Dec 1969 23:59:59 GMT"),
            (Int64.max, "Fri, 31 Dec 9999 23:59:59 GMT"), (Int64.min, "Mon, 01 Jan 0001 00:00:00 GMT"),
        ] as [(Int64, String)]
    )
    func datesHaveTheFormOfHTTP(seconds: Int64, text: String) {
        #expect(HTTPDate.text(seconds) == text)
    }
}
