import APNSModel
import Foundation
import TestSupport

/// A random value of any shape.
indirect enum Sample: Encodable, Sendable {
    case null
    case bool(Bool)
    case int(Int)
    case small(Int16)
    case unsigned(UInt64)
    case double(Double)
    case float(Float)
    case text(String)
    case date(Date)
    case data(Data)
    case url(URL)
    case uuid(UUID)
    case decimal(Decimal)
    case texts([String])
    case list([Sample])
    case optionals([Sample?])
    case dictionary([String: Sample])
    case numbered([Int: Sample])
    case record(Record)
    case byHand([Sample])

    struct Record: Encodable, Sendable {
        var first: String
        var second: Sample?
        var third: [Sample]
        var fourth: Double?
        var fifth: [String: [Int]]
    }

    private enum Key: CodingKey { case a, b, c }

    func encode(to encoder: any Encoder) throws {
        if case .byHand(let samples) = self {
            var root = encoder.container(keyedBy: Key.self)
            var list = root.nestedUnkeyedContainer(forKey: .a)
            for sample in samples {
                try list.encode(sample)
                var inner = list.nestedContainer(keyedBy: Key.self)
                try inner.encode(sample, forKey: .b)
            }
            try root.encode(samples.count, forKey: .c)
            return
        }
        var container = encoder.singleValueContainer()
        switch self {
        case .null, .byHand: try container.encodeNil()
        case .bool(let value): try container.encode(value)
        case .int(let value): try container.encode(value)
        case .small(let value): try container.encode(value)
        case .unsigned(let value): try container.encode(value)
        case .double(let value): try container.encode(value)
        case .float(let value): try container.encode(value)
        case .text(let value): try container.encode(value)
        case .date(let value): try container.encode(value)
        case .data(let value): try container.encode(value)
        case .url(let value): try container.encode(value)
        case .uuid(let value): try container.encode(value)
        case .decimal(let value): try container.encode(value)
        case .texts(let value): try container.encode(value)
        case .list(let value): try container.encode(value)
        case .optionals(let value): try container.encode(value)
        case .dictionary(let value): try container.encode(value)
        case .numbered(let value): try container.encode(value)
        case .record(let value): try container.encode(value)
        }
    }

    static func text(using generator: inout SeededRandom) -> String {
        var text = ""
        for _ in 0..<Int.random(in: 0..<24, using: &generator) {
            switch generator.next() % 8 {
            case 0: text.unicodeScalars.append(UnicodeScalar(UInt8(generator.next() % 0x20)))
            case 1: text += ["\"", "\\", "/", "\u{7F}", "\u{2028}"].randomElement(using: &generator) ?? ""
            case 2: text += ["é", "ß", "漢", "🎉", "👩‍👧"].randomElement(using: &generator) ?? ""
            default: text.unicodeScalars.append(UnicodeScalar(UInt8(0x20 + generator.next() % 0x5F)))
            }
        }
        return text
    }

    static func random(depth: Int, using generator: inout SeededRandom) -> Sample {
        func children(_ generator: inout SeededRandom) -> [Sample] {
            (0..<Int.random(in: 0..<5, using: &generator)).map { _ in random(depth: depth - 1, using: &generator) }
        }
        switch generator.next() % (depth > 0 ? 20 : 14) {
        case 0: return .null
        case 1: return .bool(generator.chance(2))
        case 2: return .int(Int(truncatingIfNeeded: generator.next()))
        case 3: return .small(Int16(truncatingIfNeeded: generator.next()))
        case 4: return .unsigned(generator.next())
        case 5: return .double(Double.random(in: -1e6...1e6, using: &generator))
        case 6: return .float(Float.random(in: -10...10, using: &generator))
        case 7: return .text(text(using: &generator))
        case 8: return .date(Date(timeIntervalSinceReferenceDate: Double(generator.next() % 1_000_000_000) / 8))
        case 9: return .data(Data((0..<(generator.next() % 20)).map { UInt8($0) }))
        case 10: return .url(URL(string: "https://example.com/\(generator.next() % 100)/x?y=z") ?? URL(filePath: "/"))
        case 11: return .uuid(APNSID.random(using: &generator).uuid)
        case 12: return .decimal(Decimal(Int64(bitPattern: generator.next())) / 100)
        case 13: return .texts((0..<(generator.next() % 4)).map { _ in text(using: &generator) })
        case 14: return .list(children(&generator))
        case 15: return .optionals(children(&generator).map { generator.chance(3) ? nil : $0 })
        case 16:
            return .dictionary(
                Dictionary(children(&generator).map { (text(using: &generator), $0) }, uniquingKeysWith: { $1 })
            )
        case 17:
            return .numbered(
                Dictionary(children(&generator).map { (Int(generator.next() % 50), $0) }, uniquingKeysWith: { $1 })
            )
        case 18:
            return .record(
                Record(
                    first: text(using: &generator),
                    second: generator.chance(2) ? nil : random(depth: depth - 1, using: &generator),
                    third: children(&generator),
                    fourth: generator.chance(2) ? nil : 0.5,
                    fifth: [text(using: &generator): [1, 2]]
                )
            )
        default: return .byHand(children(&generator))
        }
    }
}

/// A random value whose keys are encoded in the order of their bytes.
indirect enum OrderedValue: Encodable, Sendable {
    case scalar(Sample)
    case list([OrderedValue])
    case object([(String, OrderedValue)])

    private struct Key: CodingKey {
        var stringValue: String
        var intValue: Int? { nil }

        init(stringValue: String) {
            self.stringValue = stringValue
        }

        init?(intValue: Int) {
            nil
        }
    }

    func encode(to encoder: any Encoder) throws {
        switch self {
        case .scalar(let sample):
            try sample.encode(to: encoder)
        case .list(let values):
            var container = encoder.unkeyedContainer()
            for value in values { try container.encode(value) }
        case .object(let members):
            var container = encoder.container(keyedBy: Key.self)
            for (key, value) in members { try container.encode(value, forKey: Key(stringValue: key)) }
        }
    }

    static func random(depth: Int, using generator: inout SeededRandom) -> OrderedValue {
        func child(_ generator: inout SeededRandom) -> OrderedValue { random(depth: depth - 1, using: &generator) }
        switch depth > 0 ? generator.next() % 4 : 0 {
        case 1: return .list((0..<generator.next() % 5).map { _ in child(&generator) })
        case 2, 3:
            // Only letters, since JSONEncoder does not sort other characters by their bytes.
            let keys = Set((0..<generator.next() % 6).map { _ in String(generator.next() % 1_000_000, radix: 36) })
                .map { $0.filter(\.isLetter) + "x" }
            return .object(Set(keys).sorted().map { ($0, child(&generator)) })
        default: return .scalar(.random(depth: 0, using: &generator))
        }
    }
}
