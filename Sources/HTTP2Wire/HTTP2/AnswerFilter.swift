/// Which fields of a client's ordinary answers (status 200) are worth keeping: an answer that tells nothing new costs no
/// memory. Answers with another status are kept whole.
package struct AnswerFilter: Sendable {
    /// The variable name (by its place among the session's) whose value the peer repeats. An equal one, ASCII case
    /// aside, is not kept.
    package var echoed: Int
    /// The names, in lower case, of the fields that are kept.
    package var kept: [StaticString]

    package init(echoed: Int, kept: [StaticString]) {
        self.echoed = echoed
        self.kept = kept
    }

    func keeps(_ name: UnsafeBufferPointer<UInt8>) -> Bool {
        for kept in self.kept
        where name.elementsEqual(UnsafeBufferPointer(start: kept.utf8Start, count: kept.utf8CodeUnitCount)) {
            return true
        }
        return false
    }
}

/// The value that a request has sent and the answer may repeat; longer ones are not remembered.
struct EchoedValue {
    static let capacity = 40
    private var bytes: (UInt64, UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0, 0)
    private(set) var count = 0

    mutating func set(_ value: UnsafeBufferPointer<UInt8>) {
        self.count = value.count <= Self.capacity ? value.count : 0
        guard self.count > 0, let base = value.baseAddress else { return }
        withUnsafeMutableBytes(of: &self.bytes) { $0.baseAddress?.copyMemory(from: base, byteCount: value.count) }
    }

    /// Whether it is the same text, ASCII case aside.
    func matches(_ value: UnsafeBufferPointer<UInt8>) -> Bool {
        guard self.count > 0, value.count == self.count else { return false }
        return withUnsafeBytes(of: self.bytes) { own in
            for (mine, theirs) in zip(own, value) where mine != theirs {
                let folded = mine | 0x20
                guard folded == theirs | 0x20, folded >= 0x61, folded <= 0x7A else { return false }
            }
            return true
        }
    }
}
