/// A value of CBOR (RFC 8949), as far as App Attest uses it.
///
/// The decoder accepts only the canonical form of CTAP2: definite lengths in their shortest form, and each key once. So an
/// object has one encoding. No input traps, and no count in the input reserves memory.
enum CBORValue: Sendable, Hashable {
    case bytes([UInt8])
    case text(String)
    case array([CBORValue])
    case map([String: CBORValue])

    /// The largest object that is decoded, in bytes. Apple's have about 6,000.
    static let maxBytes = 32_768
    /// The most arrays and maps inside each other. An attestation has three.
    private static let maxDepth = 4

    /// - Throws: `AppAttestError.Code.malformed`.
    init(_ bytes: [UInt8]) throws(AppAttestError) {
        guard bytes.count <= Self.maxBytes else { throw .malformed("it has more than \(Self.maxBytes) bytes") }
        var rest = bytes[...]
        self = try Self.value(&rest, depth: 0)
        guard rest.isEmpty else { throw .malformed("bytes follow the object") }
    }

    private static func value(_ rest: inout ArraySlice<UInt8>, depth: Int) throws(AppAttestError) -> CBORValue {
        let (kind, count) = try self.head(&rest)
        // Each element has at least one byte, so a larger count is false.
        guard count <= rest.count else { throw .malformed("it ends too early") }
        switch kind {
        case 2: return .bytes(Array(self.take(count, &rest)))
        case 3: return .text(try self.text(count, &rest))
        case 4, 5:
            guard depth < self.maxDepth else { throw .malformed("it has too many levels") }
            guard kind == 5 else {
                var elements: [CBORValue] = []
                for _ in 0..<count { elements.append(try self.value(&rest, depth: depth + 1)) }
                return .array(elements)
            }
            var members: [String: CBORValue] = [:]
            for _ in 0..<count {
                guard case .text(let key) = try self.value(&rest, depth: depth + 1), members[key] == nil else {
                    throw .malformed("each key must be a text that occurs once")
                }
                members[key] = try self.value(&rest, depth: depth + 1)
            }
            return .map(members)
        default: throw .malformed("it has a value of an unexpected kind")
        }
    }

    /// The major type and the number that follows it.
    private static func head(_ rest: inout ArraySlice<UInt8>) throws(AppAttestError) -> (kind: UInt8, count: Int) {
        guard let first = rest.popFirst() else { throw .malformed("it ends too early") }
        let (kind, short) = (first >> 5, Int(first & 0x1F))
        guard short >= 24 else { return (kind, short) }
        // Longer numbers and indefinite lengths cannot occur within the largest object.
        guard short <= 26 else { throw .malformed("it has an unexpected length") }
        let size = 1 << (short - 24)
        guard rest.count >= size else { throw .malformed("it ends too early") }
        let count = self.take(size, &rest).reduce(0) { $0 << 8 | Int($1) }
        guard count >= (size == 1 ? 24 : 1 << (4 * size)) else {
            throw .malformed("a length is not in its shortest form")
        }
        return (kind, count)
    }

    private static func text(_ count: Int, _ rest: inout ArraySlice<UInt8>) throws(AppAttestError) -> String {
        guard let text = String(validating: self.take(count, &rest), as: UTF8.self) else {
            throw .malformed("a text is not UTF-8")
        }
        return text
    }

    private static func take(_ count: Int, _ rest: inout ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        let taken = rest.prefix(count)
        rest = rest.dropFirst(count)
        return taken
    }

    // MARK: Parts

    subscript(key: String) -> CBORValue? {
        guard case .map(let members) = self else { return nil }
        return members[key]
    }

    var bytes: [UInt8]? {
        guard case .bytes(let bytes) = self else { return nil }
        return bytes
    }

    var text: String? {
        guard case .text(let text) = self else { return nil }
        return text
    }

    var elements: [CBORValue]? {
        guard case .array(let elements) = self else { return nil }
        return elements
    }
}
