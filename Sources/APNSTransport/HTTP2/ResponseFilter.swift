/// Selects the fields that are kept of a client's ordinary responses (status 200), so that a response without new
/// information uses no memory. Responses with another status are kept in full.
package struct ResponseFilter: Sendable {
    /// The variable field that the peer repeats in its response, as an index of the session's variable names. An equal
    /// value (ignoring ASCII case) is not kept.
    package var echoed: Int
    /// The names, in lower case, of the fields that are kept.
    package var kept: [StaticString]

    package init(echoed: Int, kept: [StaticString]) {
        self.echoed = echoed
        self.kept = kept
    }

    func keeps(_ name: UnsafeBufferPointer<UInt8>) -> Bool {
        guard let start = name.baseAddress else { return false }
        for kept in self.kept where kept.utf8CodeUnitCount == name.count {
            if memcmp(kept.utf8Start, start, name.count) == 0 { return true }
        }
        return false
    }
}

/// A value that a request has sent and the response may repeat. Values longer than ``capacity`` bytes are not stored.
struct EchoedValue {
    static let capacity = 40
    private typealias Words = (UInt64, UInt64, UInt64, UInt64, UInt64)
    private var words: Words = (0, 0, 0, 0, 0)
    private var count: UInt8 = 0

    mutating func set(_ value: UnsafeBufferPointer<UInt8>) {
        self.count = value.count <= Self.capacity ? UInt8(value.count) : 0
        if self.count > 0 { self.words = Self.words(value) }
    }

    /// Whether the texts are equal, ignoring ASCII case. Some pairs of other characters compare equal too, such as a
    /// digit and a control character. The values are ids, and no id contains both characters of such a pair.
    func matches(_ value: UnsafeBufferPointer<UInt8>) -> Bool {
        guard self.count > 0, value.count == Int(self.count) else { return false }
        let other = Self.words(value)
        let difference =
            (self.words.0 ^ other.0) | (self.words.1 ^ other.1) | (self.words.2 ^ other.2) | (self.words.3 ^ other.3)
            | (self.words.4 ^ other.4)
        return difference & ~0x2020_2020_2020_2020 == 0
    }

    private static func words(_ value: UnsafeBufferPointer<UInt8>) -> Words {
        var words: Words = (0, 0, 0, 0, 0)
        withUnsafeMutableBytes(of: &words) { words in
            if let base = value.baseAddress { words.baseAddress?.copyMemory(from: base, byteCount: value.count) }
        }
        return words
    }
}
