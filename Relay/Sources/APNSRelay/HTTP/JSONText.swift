#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// A JSON text that becomes a part of a larger one.
struct JSONText: Encodable, Sendable {
    private let value: Value

    /// - Parameter text: valid JSON. Any other text is encoded as a string.
    init(_ text: String) {
        self.value = (try? JSONDecoder().decode(Value.self, from: Data(text.utf8))) ?? .string(text)
    }

    func encode(to encoder: any Encoder) throws { try self.value.encode(to: encoder) }

    private enum Value: Codable, Sendable {
        case object([String: Value])
        case array([Value])
        case string(String)
        case number(Decimal)
        case bool(Bool)
        case null

        init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            if container.decodeNil() {
                self = .null
            } else if let bool = try? container.decode(Bool.self) {
                self = .bool(bool)
            } else if let number = try? container.decode(Decimal.self) {
                self = .number(number)
            } else if let string = try? container.decode(String.self) {
                self = .string(string)
            } else if let array = try? container.decode([Value].self) {
                self = .array(array)
            } else {
                self = .object(try container.decode([String: Value].self))
            }
        }

        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            switch self {
            case .object(let members): try container.encode(members)
            case .array(let elements): try container.encode(elements)
            case .string(let text): try container.encode(text)
            case .number(let number): try container.encode(number)
            case .bool(let bool): try container.encode(bool)
            case .null: try container.encodeNil()
            }
        }
    }
}
