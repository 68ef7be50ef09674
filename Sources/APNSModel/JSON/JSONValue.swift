#if canImport(FoundationEssentials)
    package import FoundationEssentials
#else
    package import Foundation
#endif

/// A JSON value as a tree: used for payloads that pass through another coder, and for a simulator's scripts.
///
/// Integers are exact. The parser preserves the order of keys. Decoders of other formats have no order, so it is lost
/// there.
package enum JSONValue: Sendable, Hashable {
    case null
    case bool(Bool)
    case integer(Int64)
    case unsigned(UInt64)
    /// Used only for whole numbers beyond 64 bits.
    case decimal(Decimal)
    case double(Double)
    case string(String)
    case array([JSONValue])
    case object([Member])

    package struct Member: Sendable, Hashable {
        package var key: String
        package var value: JSONValue

        package init(key: String, value: JSONValue) {
            self.key = key
            self.value = value
        }
    }

    func write(to writer: inout JSONByteWriter) {
        switch self {
        case .null: writer.null()
        case .bool(let value): writer.bool(value)
        case .integer(let value): writer.integer(value)
        case .unsigned(let value): writer.unsigned(value)
        case .decimal(let value): writer.number(value.description)
        case .double(let value):
            // The parser and decoders produce finite numbers only.
            if !writer.double(value) { writer.null() }
        case .string(let value): writer.string(value)
        case .array(let values):
            writer.byte(JSONByte.openArray)
            for (index, value) in values.enumerated() {
                if index > 0 { writer.byte(JSONByte.comma) }
                value.write(to: &writer)
            }
            writer.byte(JSONByte.closeArray)
        case .object(let members):
            writer.byte(JSONByte.openObject)
            for (index, member) in members.enumerated() {
                if index > 0 { writer.byte(JSONByte.comma) }
                writer.string(member.key)
                writer.byte(JSONByte.colon)
                member.value.write(to: &writer)
            }
            writer.byte(JSONByte.closeObject)
        }
    }

    package var bytes: [UInt8] {
        var writer = JSONByteWriter()
        self.write(to: &writer)
        return writer.bytes()
    }
}

extension JSONValue: Codable {
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

    package init(from decoder: any Decoder) throws {
        if let container = try? decoder.container(keyedBy: Key.self) {
            // Decoders have no order of keys. Sorting at least makes the bytes reproducible.
            let keys = container.allKeys.sorted { $0.stringValue < $1.stringValue }
            self = .object(
                try keys.map { Member(key: $0.stringValue, value: try container.decode(JSONValue.self, forKey: $0)) }
            )
        } else if var container = try? decoder.unkeyedContainer() {
            var values: [JSONValue] = []
            while !container.isAtEnd {
                values.append(try container.decode(JSONValue.self))
            }
            self = .array(values)
        } else {
            self = try Self.scalar(in: try decoder.singleValueContainer())
        }
    }

    private static func scalar(in container: any SingleValueDecodingContainer) throws -> JSONValue {
        if container.decodeNil() {
            return .null
        }
        if let value = try? container.decode(Bool.self) {
            return .bool(value)
        }
        if let value = try? container.decode(Int64.self) {
            return .integer(value)
        }
        if let value = try? container.decode(UInt64.self) {
            return .unsigned(value)
        }
        if let value = try? container.decode(Double.self) {
            // Beyond 2^53 a whole number may need more digits than a Double has.
            if value.magnitude >= 0x1p53, value.magnitude < 1e38, value == value.rounded(),
                let decimal = try? container.decode(Decimal.self)
            {
                return .decimal(decimal)
            }
            return .double(value)
        }
        return .string(try container.decode(String.self))
    }

    package func encode(to encoder: any Encoder) throws {
        switch self {
        case .object(let members):
            var container = encoder.container(keyedBy: Key.self)
            for member in members {
                try container.encode(member.value, forKey: Key(stringValue: member.key))
            }
        case .array(let values):
            var container = encoder.unkeyedContainer()
            for value in values {
                try container.encode(value)
            }
        default:
            var container = encoder.singleValueContainer()
            switch self {
            case .bool(let value): try container.encode(value)
            case .integer(let value): try container.encode(value)
            case .unsigned(let value): try container.encode(value)
            case .decimal(let value): try container.encode(value)
            case .double(let value): try container.encode(value)
            case .string(let value): try container.encode(value)
            default: try container.encodeNil()
            }
        }
    }
}

extension JSONValue {
    /// An object with its keys sorted.
    package static func object(_ members: [String: JSONValue]) -> JSONValue {
        .object(members.sorted { $0.key < $1.key }.map { Member(key: $0.key, value: $0.value) })
    }

    /// The value as an integer; nil for other values. A number with a zero fraction, such as 5.0, is an integer, too
    /// (JSON Schema 2020-12, section 4.2.3).
    package var wholeNumber: Int64? {
        switch self {
        case .integer(let number): number
        case .double(let number): Int64(exactly: number)
        default: nil
        }
    }

    /// The members of an object; nil for other values.
    package var members: [String: JSONValue]? {
        guard case .object(let members) = self else { return nil }
        return Dictionary(members.map { ($0.key, $0.value) }, uniquingKeysWith: { first, _ in first })
    }
}
