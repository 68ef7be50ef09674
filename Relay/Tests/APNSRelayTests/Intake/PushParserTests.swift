import APNSModel
import APNSPool
import Foundation
import PushQueue
import PushQueueConformance
import Testing

@testable import APNSRelay

struct PushParserTests {
    private static let now = QueueTime(secondsSince1970: 1_795_440_000)
    private static let token = String(repeating: "ab", count: 32)
    private static let apps = [
        "fern": TestRelay.app("fern"),
        "moss": TestRelay.app("moss", environments: ["development": .development]),
        "reed": TestRelay.app("reed", environments: ["a": .production, "b": .development]),
    ]

    private static func batch(
        _ format: PushBody.Format = .json,
        isPartial: Bool = true,
        apps: Set<String>? = nil
    ) -> PushBody {
        PushBody(
            format,
            isPartial: isPartial,
            parser: PushParser(
                apps: self.apps,
                caller: Caller(name: "shop", tokenDigests: [], apps: apps),
                defaultLane: format == .json ? .interactive : .bulk,
                dispatch: DispatchSettings(),
                now: self.now,
                ids: PushIDGenerator()
            )
        )
    }

    private static func parse(_ text: String, apps: Set<String>? = nil) -> (push: NewPush?, fault: PushFault?) {
        var batch = self.batch(apps: apps)
        _ = Array(text.utf8).withUnsafeBufferPointer { batch.parse($0, limit: 1) }
        return (batch.pushes.first, batch.faults.first)
    }

    private static func text(
        _ changes: [String: String?] = [:],
        headers: [String: String?] = [:]
    ) -> String {
        var head = ["apns-push-type": #""alert""#]
        for (key, value) in headers { head[key] = value }
        var members = [
            "app": #""fern""#, "token": "\"\(self.token)\"", "payload": #"{"aps":{"alert":"Hi"}}"#,
            "headers": "{\(head.map { "\"\($0)\":\($1)" }.joined(separator: ","))}",
        ]
        for (key, value) in changes { members[key] = value }
        return "{\(members.sorted { $0.key < $1.key }.map { "\"\($0)\":\($1)" }.joined(separator: ","))}"
    }

    @Test("A push with only the required members gets the defaults")
    func defaults() throws {
        let push = try #require(Self.parse(Self.text()).push)
        #expect(push.route == Route(app: "fern", environment: "production", lane: .interactive, caller: "shop"))
        #expect(push.token.hexadecimal == Self.token)
        #expect(push.push.topic == "com.example.fern")
        #expect(push.push.pushType == .alert)
        #expect(push.push.priority == nil)
        #expect(push.push.expiration == .systemDefault)
        #expect(push.route.caller == "shop")
        #expect(push.notBefore == Self.now)
        #expect(push.deadline == Self.now.advanced(by: .seconds(86_400)))
        #expect(push.idempotency == nil)
        #expect(push.supersedes == nil)
        #expect(!push.resendsUnknown)
    }

    @Test("All members are taken over, and headers may be strings or integers", arguments: [true, false])
    func everything(_ asStrings: Bool) throws {
        let id = "0190a5c4-1d8a-7b3e-8f00-112233445566"
        let push = try #require(
            Self.parse(
                Self.text(
                    [
                        "environment": #""development""#, "lane": #""bulk""#, "supersedes": #""score""#,
                        "idempotencyKey": #""order-1""#, "notBefore": "1795440000.5", "deadline": "1795450000",
                        "resendUnknown": "true",
                    ],
                    headers: [
                        "apns-push-type": #""voip""#, "apns-topic": #""com.example.fern.voip""#,
                        "apns-priority": asStrings ? #""10""# : "10",
                        "apns-expiration": asStrings ? #""1795440100""# : "1795440100",
                        "apns-collapse-id": asStrings ? #""7""# : "7", "apns-id": "\"\(id.uppercased())\"",
                    ]
                )
            ).push
        )
        #expect(push.route == Route(app: "fern", environment: "development", lane: .bulk, caller: "shop"))
        #expect(push.push.topic == "com.example.fern.voip")
        #expect(push.push.priority == .immediate)
        #expect(push.push.expiration == .at(secondsSince1970: 1_795_440_100))
        #expect(push.push.collapseID?.rawValue == "7")
        #expect(push.id.description == id)
        #expect(push.idempotency?.key == "order-1")
        #expect(push.supersedes == "score")
        #expect(push.notBefore == QueueTime(millisecondsSince1970: 1_795_440_000_500))
        #expect(push.deadline == QueueTime(secondsSince1970: 1_795_450_000))
        #expect(push.resendsUnknown)
    }

    @Test("The topic follows from the push type")
    func topic() throws {
        let push = try #require(Self.parse(Self.text(headers: ["apns-push-type": #""liveactivity""#])).push)
        #expect(push.push.topic == "com.example.fern.push-type.liveactivity")
    }

    @Test("The only environment of an app is its default")
    func onlyEnvironment() throws {
        let push = try #require(Self.parse(Self.text(["app": #""moss""#])).push)
        #expect(push.route.environment == "development")
    }

    @Test("The payload is passed on byte for byte")
    func payload() throws {
        let payload = "{ \"aps\" : {\"alert\":\"\\u00e9 \\/ é\"},\t\"n\": 1.50e0, \"n\": 12345678901234567890123 }"
        let push = try #require(Self.parse(Self.text(["payload": payload])).push)
        #expect(String(decoding: push.push.payload, as: UTF8.self) == payload)
    }

    @Test("An id from the caller is the idempotency key unless there is another one")
    func idAsKey() throws {
        let id = "0190a5c4-1d8a-7b3e-8f00-112233445566"
        let push = try #require(Self.parse(Self.text(headers: ["apns-id": "\"\(id)\""])).push)
        #expect(push.idempotency?.key == id)
    }

    @Test("The digest ignores order and blanks, and covers every member")
    func digest() throws {
        func digest(_ text: String) throws -> [UInt8] {
            try #require(Self.parse(text).push?.idempotency?.digest)
        }
        let base: [String: String?] = ["idempotencyKey": #""k""#]
        let same = try digest(Self.text(base))
        let reordered = """
            {"payload":{"aps":{"alert":"Hi"}}, "idempotencyKey":"k", "headers" : {"apns-push-type": "alert"},
             "token":"\(Self.token.uppercased())","app":"fern"}
            """
        #expect(try digest(reordered) == same)
        let others: [(members: [String: String?], headers: [String: String?])] = [
            (["app": #""moss""#], [:]), (["environment": #""development""#], [:]), (["lane": #""bulk""#], [:]),
            (["token": "\"\(String(repeating: "cd", count: 32))\""], [:]), (["payload": #"{"aps":{}}"#], [:]),
            (["notBefore": "1795440001"], [:]), (["deadline": "1795440009"], [:]), (["supersedes": #""a""#], [:]),
            (["resendUnknown": "true"], [:]), (["metadata": "{}"], [:]), ([:], ["apns-priority": "5"]),
            ([:], ["apns-expiration": "0"]),
            ([:], ["apns-collapse-id": #""a""#]), ([:], ["apns-topic": #""com.example.fern.voip""#]),
            ([:], ["apns-push-type": #""background""#]),
            ([:], ["apns-id": #""0190a5c4-1d8a-7b3e-8f00-112233445566""#]),
        ]
        var seen: Set<[UInt8]> = [same]
        for other in others {
            let members = other.members.merging(base) { first, _ in first }
            let isNew = seen.insert(try digest(Self.text(members, headers: other.headers))).inserted
            #expect(isNew, "\(other)")
        }
    }

    struct BadPush: Sendable, CustomTestStringConvertible {
        var field: String?
        var members: [String: String?] = [:]
        var headers: [String: String?] = [:]
        var code = PushFault.Code.invalidPush
        var testDescription: String { "\(self.field ?? "-") \(self.members) \(self.headers)" }
    }

    @Test(
        "A wrong member is named",
        arguments: [
            BadPush(field: "app", members: ["app": nil]),
            BadPush(field: "app", members: ["app": "1"]),
            BadPush(field: "app", members: ["app": #""oak""#]),
            BadPush(field: "environment", members: ["environment": #""test""#]),
            BadPush(field: "environment", members: ["app": #""reed""#]),
            BadPush(field: "token", members: ["token": nil]),
            BadPush(field: "token", members: ["token": #""xyz""#]),
            BadPush(field: "token", members: ["token": "null"]),
            BadPush(field: "headers", members: ["headers": nil]),
            BadPush(field: "headers", members: ["headers": "[]"]),
            BadPush(field: "payload", members: ["payload": nil]),
            BadPush(field: "payload", members: ["payload": "[]"]),
            BadPush(field: "payload", members: ["payload": "\"{}\""]),
            BadPush(field: "payload", members: ["payload": "{\"a\":\"\(String(repeating: "x", count: 4_096))\"}"]),
            BadPush(field: "metadata", members: ["metadata": "[]"]),
            BadPush(field: "metadata", members: ["metadata": "{\"a\":\"\(String(repeating: "x", count: 505))\"}"]),
            BadPush(field: "lane", members: ["lane": #""slow""#]),
            BadPush(field: "idempotencyKey", members: ["idempotencyKey": #""""#]),
            BadPush(field: "idempotencyKey", members: ["idempotencyKey": "\"\(String(repeating: "é", count: 65))\""]),
            BadPush(field: "idempotencyKey", members: ["idempotencyKey": #""a\u0000""#]),
            BadPush(field: "supersedes", members: ["supersedes": #""""#]),
            BadPush(field: "notBefore", members: ["notBefore": #""1795440000""#]),
            BadPush(field: "notBefore", members: ["notBefore": "-1"]),
            BadPush(field: "notBefore", members: ["notBefore": "1795540000"]),
            BadPush(field: "notBefore", members: ["notBefore": "1795440100", "deadline": "1795440100"]),
            BadPush(field: "deadline", members: ["deadline": "1795440000"]),
            BadPush(field: "deadline", members: ["deadline": "1795440000000"]),
            BadPush(field: "deadline", members: ["deadline": "1e400"]),
            BadPush(field: "deadline", members: ["deadline": "null"]),
            BadPush(field: "resendUnknown", members: ["resendUnknown": "1"]),
            BadPush(field: "priority", members: ["priority": "1"]),
            BadPush(field: "headers.apns-push-type", headers: ["apns-push-type": nil]),
            BadPush(field: "headers.apns-push-type", headers: ["apns-push-type": #""""#]),
            BadPush(field: "headers.apns-priority", headers: ["apns-priority": "7"]),
            BadPush(field: "headers.apns-priority", headers: ["apns-priority": "1.0"]),
            BadPush(field: "headers.apns-priority", headers: ["apns-priority": "true"]),
            BadPush(field: "headers.apns-priority", headers: ["apns-priority": "99999999999999999999"]),
            BadPush(field: "headers.apns-expiration", headers: ["apns-expiration": "-1"]),
            BadPush(field: "headers.apns-expiration", headers: ["apns-expiration": "1795440000000"]),
            BadPush(field: "headers.apns-collapse-id", headers: ["apns-collapse-id": #""""#]),
            BadPush(field: "headers.apns-topic", headers: ["apns-topic": #""com.example.fernando""#]),
            BadPush(
                field: "headers.apns-topic",
                headers: ["apns-push-type": #""voip""#, "apns-topic": #""com.example.fern""#]
            ),
            BadPush(field: "headers.apns-id", headers: ["apns-id": #""1""#]),
            BadPush(field: "headers.authorization", headers: ["authorization": #""bearer x""#]),
        ]
    )
    func wrongMember(_ bad: BadPush) {
        let (push, fault) = Self.parse(Self.text(bad.members, headers: bad.headers))
        #expect(push == nil)
        #expect(fault?.field == bad.field, "\(fault?.message ?? "")")
        #expect(fault?.code == bad.code)
        #expect(fault?.message.isEmpty == false)
    }

    @Test("Members and headers must be unique, also if one is written with escapes")
    func duplicates() {
        let payload = #""payload":{"aps":{}}"#
        let head = #""app":"fern","token":"ab""#
        let twice = Self.parse("{\(head),\"headers\":{\"apns-push-type\":\"alert\"},\(payload),\"\\u0061pp\":\"fern\"}")
        #expect(twice.fault?.field == "app")
        let header = #"{"apns-push-type":"alert","apns-push-typ\u0065":"voip"}"#
        #expect(Self.parse("{\(head),\"headers\":\(header),\(payload)}").fault?.field == "headers.apns-push-type")
    }

    @Test("A push to an app that the caller may not send to is forbidden, known or not", arguments: ["moss", "oak"])
    func forbidden(_ app: String) {
        let fault = Self.parse(Self.text(["app": "\"\(app)\""]), apps: ["fern"]).fault
        #expect(fault?.code == .forbidden)
        #expect(fault?.field == "app")
    }

    @Test("A push with a key may be submitted again after its deadline")
    func lateRetry() throws {
        let members: [String: String?] = ["deadline": "1795430000", "notBefore": "1795420000"]
        #expect(Self.parse(Self.text(members)).fault?.field == "deadline")
        let push = Self.parse(Self.text(members.merging(["idempotencyKey": #""k""#]) { first, _ in first })).push
        #expect(push?.deadline == QueueTime(secondsSince1970: 1_795_430_000))
    }

    @Test("Bad JSON is reported with its position")
    func badJSON() {
        let fault = Self.parse(#"{"app":"fern",}"#).fault
        #expect(fault?.code == .badJSON)
        #expect(fault?.message.contains("byte 15") == true)
    }

    // MARK: - Lines

    @Test("Each line is a push, blank lines are skipped, and errors carry the line")
    func lines() {
        var batch = Self.batch(.lines)
        let body = "\(Self.text())\r\n\n  \n{}\n\(Self.text(["lane": #""interactive""#]))\nx"
        let progress = Array(body.utf8).withUnsafeBufferPointer { batch.parse($0, limit: 100) }
        #expect(progress == .finished)
        #expect(batch.lines == [1, 5])
        #expect(batch.pushes.map(\.route.lane) == [.bulk, .interactive])
        #expect(batch.faults.map(\.line) == [4, 6])
        #expect(batch.faults.map(\.code) == [.invalidPush, .badJSON])
    }

    @Test("Without partial, parsing stops at the first wrong push")
    func stops() {
        var batch = Self.batch(.lines, isPartial: false)
        let body = "\(Self.text())\nx\ny\n\(Self.text())"
        let progress = Array(body.utf8).withUnsafeBufferPointer { batch.parse($0, limit: 100) }
        #expect(progress == .finished)
        #expect(batch.faults.map(\.line) == [2])
        #expect(batch.lines == [1])
    }

    @Test("A body is parsed in portions")
    func portions() {
        var batch = Self.batch(.lines)
        let body = Array(Array(repeating: Self.text(), count: 5).joined(separator: "\n").utf8)
        var calls = 1
        while body.withUnsafeBufferPointer({ batch.parse($0, limit: 2) }) == .unfinished { calls += 1 }
        #expect(calls == 3)
        #expect(batch.lines == [1, 2, 3, 4, 5])
    }

    @Test("More pushes than one request may have are refused")
    func tooMany() {
        var batch = Self.batch(.lines)
        let body = Array(String(repeating: "x\n", count: PushBody.maximumPushes + 1).utf8)
        let progress = body.withUnsafeBufferPointer { batch.parse($0, limit: .max) }
        #expect(progress == .tooMany)
    }

    @Test("Damaged pushes are accepted or refused, and never trap", arguments: 0..<10)
    func damage(_ seed: Int) {
        var random = SeededRandom(seed: UInt64(seed) + 100)
        let text = Self.text(
            ["notBefore": "1795440000.5", "deadline": "1.8e9", "supersedes": #""é\ud83d\ude00""#],
            headers: ["apns-priority": "10", "apns-id": #""0190a5c4-1d8a-7b3e-8f00-112233445566""#]
        )
        for _ in 0..<1_000 {
            var bytes = Array(text.utf8)
            for _ in 0..<Int.random(in: 1...8, using: &random) { RandomJSON.mutate(&bytes, using: &random) }
            var batch = Self.batch(.lines)
            _ = bytes.withUnsafeBufferPointer { batch.parse($0, limit: .max) }
            for push in batch.pushes {
                let payload = Data(push.push.payload)
                #expect((try? JSONSerialization.jsonObject(with: payload)) is [String: Any], "seed \(seed)")
            }
        }
    }
}
