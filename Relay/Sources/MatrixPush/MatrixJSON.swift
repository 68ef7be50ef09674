@_spi(Relay) import APNSModel

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// A JSON value that passes through: the content of an event, and the payload that an app has registered.
enum MatrixJSON: Sendable, Hashable {
    case null
    case bool(Bool)
    case integer(Int64)
    case double(Double)
    case text(String)
    case array([MatrixJSON])
    case object([String: MatrixJSON])

    /// The most arrays and objects inside each other. The content of an event comes from other users.
    private static let limits = JSONScanner.Limits(depth: 256)

    /// - Returns: nil unless the bytes are one JSON value.
    init?(_ bytes: [UInt8]) {
        let value = bytes.withUnsafeBufferPointer { buffer -> MatrixJSON? in
            var scanner = JSONScanner(buffer, limits: Self.limits)
            guard let slice = try? scanner.document() else { return nil }
            return Self.value(slice, scanner)
        }
        guard let value else { return nil }
        self = value
    }

    /// Decodes a value that a scanner has checked.
    private static func value(_ slice: JSONScanner.Slice, _ scanner: JSONScanner) -> MatrixJSON {
        var inner = JSONScanner(scanner.bytes, in: slice.range, limits: self.limits)
        switch slice.kind {
        case .null: return .null
        case .bool: return .bool(scanner.bytes[slice.range.lowerBound] == UInt8(ascii: "t"))
        case .string: return .text(scanner.text(slice))
        case .number:
            let text = scanner.text(slice)
            if let integer = Int64(text) { return .integer(integer) }
            // A number that is too large for a Double cannot be encoded again.
            return Double(text).flatMap { $0.isFinite ? .double($0) : nil } ?? .null
        case .array:
            var elements: [JSONScanner.Slice] = []
            _ = try? inner.array(into: &elements, limit: .max)
            return .array(elements.map { self.value($0, inner) })
        case .object:
            var members: [JSONScanner.Member] = []
            try? inner.object(into: &members)
            return .object(
                Dictionary(members.map { (inner.text($0.key), self.value($0.value, inner)) }) { $1 }
            )
        }
    }

    /// The text, with sorted keys.
    var bytes: [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        // All numbers are finite, so this cannot fail.
        return (try? encoder.encode(self)).map { Array($0) } ?? []
    }

    // MARK: Parts

    var text: String? {
        guard case .text(let text) = self else { return nil }
        return text
    }

    var bool: Bool? {
        guard case .bool(let bool) = self else { return nil }
        return bool
    }

    /// A whole number; one that is too large counts as the largest one.
    var integer: Int64? {
        switch self {
        case .integer(let number): number
        case .double(let number) where number == number.rounded(): Int64(exactly: number) ?? (number > 0 ? .max : .min)
        default: nil
        }
    }

    var elements: [MatrixJSON]? {
        guard case .array(let elements) = self else { return nil }
        return elements
    }

    var members: [String: MatrixJSON]? {
        guard case .object(let members) = self else { return nil }
        return members
    }

    /// The value itself if it is an object.
    var object: MatrixJSON? { self.members == nil ? nil : self }

    subscript(key: String) -> MatrixJSON? { self.members?[key] }

    /// A member that may be missing or null.
    ///
    /// - Throws: `MatrixPushError.Code.malformed` if it has another type.
    func optional<Value>(_ key: String, _ read: (MatrixJSON) -> Value?) throws(MatrixPushError) -> Value? {
        guard let member = self[key], member != .null else { return nil }
        guard let value = read(member) else {
            throw MatrixPushError(.malformed, "The member \(key) has another type than in Matrix' Push Gateway API.")
        }
        return value
    }

    /// A member that must be there.
    ///
    /// - Throws: `MatrixPushError.Code.malformed` if it is missing or has another type.
    func required<Value>(_ key: String, _ read: (MatrixJSON) -> Value?) throws(MatrixPushError) -> Value {
        guard let value = try self.optional(key, read) else {
            throw MatrixPushError(.malformed, "The member \(key) of Matrix' Push Gateway API is missing.")
        }
        return value
    }
}

extension MatrixJSON: Encodable {
    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .null: try container.encodeNil()
        case .bool(let value): try container.encode(value)
        case .integer(let value): try container.encode(value)
        case .double(let value): try container.encode(value)
        case .text(let value): try container.encode(value)
        case .array(let value): try container.encode(value)
        case .object(let value): try container.encode(value)
        }
    }
}
