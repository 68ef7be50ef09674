import APNSModel
import Dispatch
import Foundation
import Synchronization
import TestSupport
import Testing

/// Compares the custom encoder with Foundation's: both must make the same JSON of each value.
struct EncoderTests {
    /// JSON in a form for comparison: JSONSerialization reads it and writes it with sorted keys.
    private func normalised(_ data: Data) throws -> String {
        let object = try JSONSerialization.jsonObject(with: data, options: .fragmentsAllowed)
        let sorted = try JSONSerialization.data(withJSONObject: object, options: [.sortedKeys, .fragmentsAllowed])
        return String(decoding: sorted, as: UTF8.self)
    }

    /// The JSON that `.custom(key:)` writes for a value.
    private func ours(_ value: some Encodable & Sendable) throws -> Data {
        let payload = try PushNotification(topic: "t").custom(key: "v", value).prepared(skippingValidation: true)
            .payload
        return Data(payload.dropFirst(#"{"aps":{},"v":"#.utf8.count).dropLast())
    }

    func expectEqual(_ value: some Encodable & Sendable, _ comment: Comment? = nil) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .withoutEscapingSlashes
        let ours = try ours(value)
        let theirs = try encoder.encode(value)
        if ours.count != theirs.count || ours != theirs {
            #expect(try normalised(ours) == normalised(theirs), comment)
        }
        #expect(ours.count == theirs.count, comment)
    }

    @Test func randomValuesEqualFoundations() async throws {
        let run = PropertyRun(commands: 300, runs: 300)
        for seed in run.seeds {
            await TestScale.letOthersRun()
            var generator = SeededRandom(seed: seed)
            for _ in 0..<run.commandsPerRun {
                try expectEqual(Sample.random(depth: 4, using: &generator), "\(run.replay(seed))")
            }
        }
    }

    /// If the order of keys is defined, the bytes equal Foundation's.
    @Test func sortedValuesHaveFoundationsBytes() async throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        let run = PropertyRun(commands: 300, runs: 100)
        for seed in run.seeds {
            await TestScale.letOthersRun()
            var generator = SeededRandom(seed: seed)
            for _ in 0..<run.commandsPerRun {
                let value = OrderedValue.random(depth: 4, using: &generator)
                #expect(
                    try String(decoding: ours(value), as: UTF8.self)
                        == String(decoding: encoder.encode(value), as: UTF8.self),
                    "\(run.replay(seed))"
                )
            }
        }
    }

    @Test func randomNumbersEqualFoundations() throws {
        var generator = SeededRandom(seed: 7)
        for _ in 0..<300 {
            let bits = (0..<20).map { _ in generator.next() }
            try expectEqual(bits.map { Double(bitPattern: $0) }.filter(\.isFinite))
            try expectEqual(bits.map { Float(bitPattern: UInt32(truncatingIfNeeded: $0)) }.filter(\.isFinite))
            try expectEqual(bits.map { Double(Int64(bitPattern: $0) >> Int64($0 & 63)) })
            try expectEqual(bits.map { Int64(bitPattern: $0) >> Int64($0 & 63) })
            try expectEqual(bits)
            try expectEqual(bits.map { Decimal(Int64(bitPattern: $0)) / 1_000 })
        }
        try expectEqual([
            0.0, -0.0, 1, -1, 0.1, 1e15, 1e16, 1e17, 1e-5, .leastNonzeroMagnitude, .greatestFiniteMagnitude, 0x1p53,
        ])
        try expectEqual([Float(0), -0.0, 1, 0.1, 16_777_216, 1e10, .leastNonzeroMagnitude])
        try expectEqual([Int.min, .max, 0])
        try expectEqual([Int8.min, .max])
        try expectEqual([UInt16.max])
    }

    @Test func valuesOfEveryTypeEqualFoundations() throws {
        struct Everything: Encodable, Sendable {
            enum Raw: String, Encodable { case one, two }
            enum Payload: Encodable {
                case none
                case pair(Int, name: String)
            }
            struct Empty: Encodable {}
            var bool = true
            var int = -1, int8 = Int8.min, int16 = Int16.min, int32 = Int32.min, int64 = Int64.min
            var uint = UInt.max, uint8 = UInt8.max, uint16 = UInt16.max, uint32 = UInt32.max, uint64 = UInt64.max
            var float: Float = 0.1, double = 0.1, text = "t\"e/x\u{1}t", missing: Int?
            var some: Int? = 1
            var nested: [[Int?]] = [[1, nil], []]
            var date = Date(timeIntervalSinceReferenceDate: 1.5), data = Data([1, 2, 255])
            var url = URL(string: "https://example.com/a/b?c=d#e"), uuid = UUID()
            var decimal = Decimal(string: "-12345678901234567890.125")
            var raw = Raw.two, payloads = [Payload.none, .pair(1, name: "x")]
            var empty = Empty(), empties = [Empty()]
            var byKey = ["a": 1, "b/c": 2], byInt = [3: "x", -4: "y"], byRaw = [Raw.one: 1]
            var bytes: [UInt8] = [1, 2], set: Set<Int> = [1]
            var dates = [Date(timeIntervalSinceReferenceDate: -3)], urls = ["k": URL(string: "a/b")]
            var range = 1..<3
        }
        try expectEqual(Everything())
        try expectEqual([Everything?.none])
        try expectEqual(Data([1, 2, 3]))
        try expectEqual(Date(timeIntervalSinceReferenceDate: 123_456.789))
        try expectEqual("text")
        try expectEqual(Int?.none)
        try expectEqual(Optional(Data([1])))
    }

    @Test func inheritedValuesEqualFoundations() throws {
        class Base: Encodable, @unchecked Sendable {
            var a = 1, b = ["x"]
        }
        final class Flat: Base, @unchecked Sendable {
            var c = 2
            enum Key: CodingKey { case c, d }
            override func encode(to encoder: any Encoder) throws {
                // Two keyed containers of one encoder make one object.
                try super.encode(to: encoder)
                var container = encoder.container(keyedBy: Key.self)
                try container.encode(c, forKey: .c)
                var again = encoder.container(keyedBy: Key.self)
                try again.encode(3, forKey: .d)
                try container.encode(4, forKey: .d)
            }
        }
        final class Nested: Base, @unchecked Sendable {
            var c = 2
            enum Key: CodingKey { case c, d, e }
            override func encode(to encoder: any Encoder) throws {
                var container = encoder.container(keyedBy: Key.self)
                let late = container.superEncoder(forKey: .d)
                try super.encode(to: container.superEncoder())
                try container.encode(c, forKey: .c)
                try super.encode(to: late)
                _ = container.superEncoder(forKey: .e)
            }
        }
        try expectEqual(Flat())
        try expectEqual([Nested(), Base(), Flat()])
        #expect(
            try PushNotification(topic: "t").custom(Flat()).text()
                == #"{"aps":{},"a":1,"b":["x"],"c":2,"d":4}"#
        )
    }

    @Test func containersMayBeFilledInAnyOrder() throws {
        struct Late: Encodable, Sendable {
            enum Key: CodingKey { case a, b, c, d }
            func encode(to encoder: any Encoder) throws {
                var root = encoder.container(keyedBy: Key.self)
                var first = root.nestedContainer(keyedBy: Key.self, forKey: .a)
                var second = root.nestedUnkeyedContainer(forKey: .b)
                try second.encode(1)
                try first.encode("late", forKey: .a)
                try root.encode(true, forKey: .c)
                var inner = second.nestedContainer(keyedBy: Key.self)
                try first.encodeNil(forKey: .d)
                try second.encode(2)
                try inner.encode([2], forKey: .b)
                let count = second.count
                try first.encode(count, forKey: .c)
            }
        }
        struct InOrder: Encodable, Sendable {
            enum Key: CodingKey { case a, b, c }
            func encode(to encoder: any Encoder) throws {
                var root = encoder.container(keyedBy: Key.self)
                var first = root.nestedContainer(keyedBy: Key.self, forKey: .a)
                try first.encode("x", forKey: .a)
                var second = root.nestedUnkeyedContainer(forKey: .b)
                try second.encode(second.count)
                try second.encodeNil()
                var third = second.nestedUnkeyedContainer()
                try third.encode("y")
                _ = second.nestedContainer(keyedBy: Key.self)
                try second.encode(second.count)
                try root.encode(1.5, forKey: .c)
            }
        }
        try expectEqual(Late())
        try expectEqual(InOrder())
        try expectEqual([[Late()], []])
        #expect(
            try PushNotification(topic: "t").custom(InOrder()).text()
                == #"{"aps":{},"a":{"a":"x"},"b":[0,null,["y"],{},4],"c":1.5}"#
        )
    }

    @Test func unusualEncodablesEqualFoundations() throws {
        struct Path: Encodable, Sendable {
            func encode(to encoder: any Encoder) throws {
                var container = encoder.singleValueContainer()
                try container.encode(encoder.codingPath.map(\.stringValue))
            }
        }
        struct Swallows: Encodable, Sendable {
            enum Key: CodingKey { case a, b }
            struct Thrower: Encodable {
                func encode(to encoder: any Encoder) throws {
                    var container = encoder.unkeyedContainer()
                    try container.encode(1)
                    throw CancellationError()
                }
            }
            func encode(to encoder: any Encoder) throws {
                var container = encoder.container(keyedBy: Key.self)
                try? container.encode(Thrower(), forKey: .a)
                try? container.encode(Double.nan, forKey: .a)
                try container.encode(1, forKey: .b)
            }
        }
        struct Nothing: Encodable, Sendable {
            func encode(to encoder: any Encoder) throws {}
        }
        struct Forwards<Value: Encodable & Sendable>: Encodable, Sendable {
            var value: Value
            func encode(to encoder: any Encoder) throws {
                var container = encoder.singleValueContainer()
                try container.encode(value)
            }
        }
        struct Erased: Encodable, Sendable {
            var value: any Encodable & Sendable
            func encode(to encoder: any Encoder) throws {
                try value.encode(to: encoder)
            }
        }
        try expectEqual(Swallows())
        try expectEqual([Nothing()])
        try expectEqual(["k": Nothing()])
        try expectEqual(Forwards(value: Forwards(value: ["a": [1, 2]])))
        try expectEqual(Forwards(value: ["x", "y"]))
        try expectEqual(Forwards(value: Data([1, 2])))
        try expectEqual([Erased(value: Data([1, 2])), Erased(value: 1), Erased(value: ["k": "v"])])
        try expectEqual((0..<300).map { ["key\($0)": $0] })
        try expectEqual(Dictionary(uniqueKeysWithValues: (0..<1_000).map { ("key\($0)", $0) }))
        let paths = try PushNotification(topic: "t").custom(["outer": ["x": [Path()]]]).text()
        #expect(paths.contains(#""outer","x""#))
        #expect(try PushNotification(topic: "t").custom(Nothing()).text() == #"{"aps":{}}"#)
        #expect(try PushNotification(topic: "t").custom(Forwards(value: ["k": 1])).text() == #"{"aps":{},"k":1}"#)
        #expect(try PushNotification(topic: "t").custom(Erased(value: ["k": 1])).text() == #"{"aps":{},"k":1}"#)
        #expect(try PushNotification(topic: "t").custom(Swallows()).text() == #"{"aps":{},"b":1}"#)
    }

    /// If a value needs Foundation's encoder, it is encoded a second time. Plain values must not need that.
    @Test func plainValuesAreEncodedOnce() throws {
        final class Counted: Encodable, Sendable {
            enum Key: CodingKey { case texts, record, twice }
            let calls = Mutex(0)
            let repeatsKey: Bool

            init(repeatsKey: Bool) {
                self.repeatsKey = repeatsKey
            }

            func encode(to encoder: any Encoder) throws {
                calls.withLock { $0 += 1 }
                var container = encoder.container(keyedBy: Key.self)
                try container.encode(["a"], forKey: .texts)
                try container.encode(["k": [Date.now: Acme(acme2: [])]], forKey: .record)
                try container.encodeIfPresent(1, forKey: .twice)
                if repeatsKey { try container.encode(2, forKey: .twice) }
            }
        }
        for (repeatsKey, calls) in [(false, 1), (true, 2)] {
            let value = Counted(repeatsKey: repeatsKey)
            _ = try PushNotification(topic: "t").custom(value).prepared()
            #expect(value.calls.withLock { $0 } == calls)
        }
    }

    /// Deep values must fail at the limit and not overflow the small stack of a secondary thread.
    @Test func deepValuesDoNotOverflowASmallStack() throws {
        struct Level: Encodable, Sendable {
            var left: Int
            enum Key: CodingKey { case down }
            func encode(to encoder: any Encoder) throws {
                var container = encoder.container(keyedBy: Key.self)
                if left > 0 { try container.encode([Level(left: left - 1)], forKey: .down) }
            }
        }
        struct Results: Sendable {
            var fits: ValidationError.Code?
            var tooDeep: ValidationError.Code?
        }
        let results = Mutex(Results())
        let done = DispatchSemaphore(value: 0)
        let thread = Thread {
            let fits = code { _ = try PushNotification(topic: "t").custom(Level(left: 50)).prepared() }
            let tooDeep = code { _ = try PushNotification(topic: "t").custom(Level(left: 70)).prepared() }
            results.withLock { $0 = Results(fits: fits, tooDeep: tooDeep) }
            done.signal()
        }
        thread.stackSize = 512 * 1_024
        thread.start()
        done.wait()
        #expect(results.withLock { $0.fits } == nil)
        #expect(results.withLock { $0.tooDeep } == .notEncodable)
    }

    @Test func repeatedKeysKeepTheLastValue() throws {
        struct Twice: Encodable, Sendable {
            enum Key: CodingKey { case a, b }
            func encode(to encoder: any Encoder) throws {
                var container = encoder.container(keyedBy: Key.self)
                try container.encode(1, forKey: .a)
                try container.encode([2], forKey: .b)
                try container.encode(3, forKey: .a)
            }
        }
        let notification = PushNotification(topic: "t")
            .custom(key: "first", ["x"]).custom(Twice()).custom(key: "second", Twice()).custom(Acme(acme2: []))
        #expect(
            try notification.text()
                == #"{"aps":{},"first":["x"],"a":3,"b":[2],"second":{"a":3,"b":[2]},"acme2":[]}"#
        )
        #expect(code { _ = try notification.custom(Twice()).prepared() } == .customKeyDuplicate)
    }

    /// Payloads reuse an encoder, but not while a value still holds it.
    @Test func aRetainedEncoderDoesNotChangeOtherPayloads() throws {
        // Used only in the task of this test.
        final class Keeper: Encodable, @unchecked Sendable {
            enum Key: String, CodingKey {
                case early, late
            }

            var container: KeyedEncodingContainer<Key>?

            func encode(to encoder: any Encoder) throws {
                var container = encoder.container(keyedBy: Key.self)
                try container.encode(1, forKey: .early)
                self.container = container
            }
        }
        struct Meddler: Encodable, Sendable {
            var keeper: Keeper

            func encode(to encoder: any Encoder) throws {
                var container = encoder.container(keyedBy: Keeper.Key.self)
                try container.encode(2, forKey: .early)
                try? self.keeper.container?.encode(3, forKey: .late)
                try container.encode(4, forKey: .late)
            }
        }
        let acme = PushNotification(topic: "t").custom(Acme(acme2: ["bang"]))
        let expected = #"{"aps":{},"acme2":["bang"]}"#
        for _ in 0..<3 {
            let keeper = Keeper()
            #expect(try PushNotification(topic: "t").custom(keeper).text() == #"{"aps":{},"early":1}"#)
            try? keeper.container?.encode(2, forKey: .late)
            #expect(try acme.text() == expected)
            #expect(
                try PushNotification(topic: "t").custom(Meddler(keeper: keeper)).text()
                    == #"{"aps":{},"early":2,"late":4}"#
            )
            try? keeper.container?.encode(5, forKey: .late)
            #expect(try acme.text() == expected)
        }
    }

    /// An encoding that fails halfway leaves nothing in the next payload.
    @Test func aFailedEncodingLeavesNothingBehind() throws {
        struct Failing: Encodable, Sendable {
            func encode(to encoder: any Encoder) throws {
                var container = encoder.container(keyedBy: Keys.self)
                try container.encode("begun", forKey: .a)
                throw CancellationError()
            }
            enum Keys: CodingKey { case a }
        }
        for _ in 0..<3 {
            #expect(code { _ = try PushNotification(topic: "t").custom(Failing()).prepared() } == .notEncodable)
            #expect(
                try PushNotification(topic: "t").custom(Acme(acme2: ["whiz"])).text() == #"{"aps":{},"acme2":["whiz"]}"#
            )
        }
    }

    @Test func manyTasksEncodeConcurrently() async {
        await withTaskGroup(of: Bool.self) { group in
            for task in 0..<8 {
                group.addTask {
                    (0..<500).allSatisfy { number in
                        let word = "\(task)-\(number)"
                        return (try? PushNotification(topic: "t").custom(Acme(acme2: [word])).text())
                            == #"{"aps":{},"acme2":["\#(word)"]}"#
                    }
                }
            }
            for await isRight in group { #expect(isRight) }
        }
    }

    @Test("A value that Foundation encodes has sorted keys, at most 64 levels and only finite numbers")
    func slowWay() throws {
        struct Looks: Encodable, Sendable {
            var left: Int
            func encode(to encoder: any Encoder) throws {
                _ = encoder.codingPath
                var container = encoder.unkeyedContainer()
                if left > 0 { try container.encode(Looks(left: left - 1)) }
            }
        }
        struct Repeats<Value: Encodable & Sendable>: Encodable, Sendable {
            var value: Value
            enum Key: CodingKey { case a, b, c }
            func encode(to encoder: any Encoder) throws {
                var container = encoder.container(keyedBy: Key.self)
                try container.encode(1, forKey: .c)
                try container.encode("/", forKey: .b)
                try container.encode(2, forKey: .c)
                try container.encode(value, forKey: .a)
            }
        }
        let base = PushNotification(topic: "t")
        #expect(try base.custom(key: "k", Repeats(value: 0)).text() == #"{"aps":{},"k":{"a":0,"b":"/","c":2}}"#)
        #expect(try base.custom(Repeats(value: [0])).text() == #"{"aps":{},"a":[0],"b":"/","c":2}"#)
        #expect(throws: Never.self) { try base.custom(key: "k", Looks(left: 60)).prepared() }
        for value: any Encodable & Sendable in [Looks(left: 70), Repeats(value: Decimal.nan)] {
            #expect(code { _ = try base.custom(key: "k", value).prepared() } == .notEncodable)
        }
        #expect(
            throws: ValidationError(code: .notEncodable, field: "custom.a", value: "inf")
        ) { try base.custom(Repeats(value: Double.infinity)).prepared() }
    }

    @Test("A value that nests too deeply is refused before Foundation encodes it")
    func deepOnTheSlowWay() {
        struct Endless: Encodable, Sendable {
            var reason: Int
            enum Key: CodingKey { case a, b }
            func encode(to encoder: any Encoder) throws {
                if reason == 0 { _ = encoder.codingPath }
                var container = encoder.container(keyedBy: Key.self)
                if reason == 1 { try container.encode(1, forKey: .a) }
                if reason == 2 { try container.encode(Float.nan, forKey: .b) }
                try container.encode([Endless(reason: reason)], forKey: .a)
            }
        }
        struct ManyKeys: Encodable, Sendable {
            struct Key: CodingKey {
                var stringValue: String
                var intValue: Int? { nil }
                init(stringValue: String) { self.stringValue = stringValue }
                init?(intValue: Int) { nil }
            }
            func encode(to encoder: any Encoder) throws {
                var container = encoder.container(keyedBy: Key.self)
                for number in 0..<300 { try container.encode(number, forKey: Key(stringValue: "key\(number)")) }
                try container.encode([ManyKeys()], forKey: Key(stringValue: "deeper"))
            }
        }
        let values: [any Encodable & Sendable] = (0..<3).map(Endless.init) + [ManyKeys()]
        for value in values {
            #expect(code { _ = try PushNotification(topic: "t").custom(value).prepared() } == .notEncodable)
            #expect(code { _ = try PushNotification(topic: "t").custom(key: "k", value).prepared() } == .notEncodable)
        }
    }

    @Test func mixedContainersFail() {
        struct Mixed: Encodable, Sendable {
            enum Key: CodingKey { case a }
            func encode(to encoder: any Encoder) throws {
                var list = encoder.unkeyedContainer()
                try list.encode(1)
                var keyed = encoder.container(keyedBy: Key.self)
                try keyed.encode(2, forKey: .a)
            }
        }
        struct TwoScalars: Encodable, Sendable {
            func encode(to encoder: any Encoder) throws {
                var container = encoder.singleValueContainer()
                try container.encode(1)
                try container.encode("x")
            }
        }
        #expect(code { _ = try PushNotification(topic: "t").custom(key: "k", Mixed()).prepared() } == .notEncodable)
        #expect(code { _ = try PushNotification(topic: "t").custom(Mixed()).prepared() } == .customNotAnObject)
        #expect(
            code { _ = try PushNotification(topic: "t").custom(key: "k", TwoScalars()).prepared() } == .notEncodable
        )
    }
}
