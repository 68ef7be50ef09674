/// The bytes are not what ``ByteWriter`` writes.
package struct MalformedBytes: Error {}

/// Reads what ``ByteWriter`` wrote. Every byte may be wrong: a reader throws and never traps.
package struct ByteReader {
    private let bytes: [UInt8]
    private var position: Int

    package init(_ bytes: [UInt8], from position: Int = 0) {
        self.bytes = bytes
        self.position = min(max(position, 0), bytes.count)
    }

    var remaining: Int { self.bytes.count - self.position }

    private mutating func take(_ count: Int) throws(MalformedBytes) -> Range<Int> {
        guard count >= 0, count <= self.remaining else { throw MalformedBytes() }
        defer { self.position += count }
        return self.position..<self.position + count
    }

    package mutating func integer<Value: FixedWidthInteger>(
        _ type: Value.Type = Value.self
    ) throws(MalformedBytes) -> Value {
        let range = try self.take(MemoryLayout<Value>.size)
        return self.bytes.withUnsafeBytes {
            Value(littleEndian: $0.loadUnaligned(fromByteOffset: range.lowerBound, as: Value.self))
        }
    }

    package mutating func bool() throws(MalformedBytes) -> Bool { try self.integer(UInt8.self) != 0 }

    package mutating func array() throws(MalformedBytes) -> [UInt8] {
        let count = try self.integer(UInt32.self)
        return Array(self.bytes[try self.take(Int(clamping: count))])
    }

    package mutating func string() throws(MalformedBytes) -> String {
        let count = try self.integer(UInt32.self)
        let range = try self.take(Int(clamping: count))
        return String(decoding: self.bytes[range], as: UTF8.self)
    }

    package mutating func rest() -> [UInt8] {
        defer { self.position = self.bytes.count }
        return Array(self.bytes[self.position...])
    }

    mutating func optional<Value>(
        _ body: (inout ByteReader) throws(MalformedBytes) -> Value
    ) throws(MalformedBytes) -> Value? {
        try self.bool() ? try body(&self) : nil
    }

    mutating func list<Element>(
        _ body: (inout ByteReader) throws(MalformedBytes) -> Element
    ) throws(MalformedBytes) -> [Element] {
        let count = Int(clamping: try self.integer(UInt32.self))
        // Each element takes a byte or more, so a wrong count reserves no memory.
        guard count <= self.remaining else { throw MalformedBytes() }
        var list: [Element] = []
        list.reserveCapacity(count)
        for _ in 0..<count { list.append(try body(&self)) }
        return list
    }
}
