#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// Writes the types that do not encode themselves: types that `JSONEncoder` treats specially (with its default
/// strategies), and the most common types, for speed.
enum JSONScalars {
    /// Whether `write` supports values of this type.
    static func covers<T>(_ type: T.Type) -> Bool {
        T.self == String.self || T.self == [String].self || T.self == Data.self || T.self == URL.self
            || T.self == Decimal.self
    }

    /// Writes the value if its type is supported. Otherwise returns false and writes nothing.
    @inline(__always)
    static func write<T: Encodable>(_ value: T, to writer: inout JSONByteWriter) throws -> Bool {
        // Comparing types costs a nanosecond, a failing cast a hundred.
        if T.self == String.self, let text = value as? String {
            writer.string(text)
            return true
        }
        if T.self == [String].self, let texts = value as? [String] {
            self.strings(texts, to: &writer)
            return true
        }
        if T.self == Data.self || T.self == URL.self || T.self == Decimal.self {
            return try self.foundation(value, to: &writer)
        }
        return false
    }

    static func strings(_ texts: [String], to writer: inout JSONByteWriter) {
        writer.byte(JSONByte.openArray)
        var isFirst = true
        for text in texts {
            if !isFirst { writer.byte(JSONByte.comma) }
            isFirst = false
            writer.string(text)
        }
        writer.byte(JSONByte.closeArray)
    }

    @inline(never)
    private static func foundation<T: Encodable>(_ value: T, to writer: inout JSONByteWriter) throws -> Bool {
        if let data = value as? Data {
            writer.string(data.base64EncodedString())
        } else if let url = value as? URL {
            writer.string(url.absoluteString)
        } else if let decimal = value as? Decimal {
            guard decimal.isFinite else { throw NotFinite() }
            writer.number(decimal.description)
        } else {
            return false
        }
        return true
    }

    /// JSON cannot represent infinity or NaN.
    struct NotFinite: Error {}
}
