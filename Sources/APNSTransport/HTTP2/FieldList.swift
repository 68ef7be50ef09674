/// The header fields of one message, in one flat array. Each field has a name length and a value length (16 bits each,
/// little endian), followed by the two byte strings.
package struct FieldList: Sendable, Hashable {
    private var storage: [UInt8] = []

    package init() {}

    package var isEmpty: Bool { self.storage.isEmpty }

    /// The number of bytes of all names and values, plus 4 for each field.
    package var byteCount: Int { self.storage.count }

    package mutating func append(name: UnsafeBufferPointer<UInt8>, value: UnsafeBufferPointer<UInt8>) {
        guard name.count <= Int(UInt16.max), value.count <= Int(UInt16.max) else { return }
        // One allocation is enough for the fields of an ordinary response.
        if self.storage.isEmpty { self.storage.reserveCapacity(112) }
        self.storage.append(UInt8(truncatingIfNeeded: name.count))
        self.storage.append(UInt8(truncatingIfNeeded: name.count >> 8))
        self.storage.append(UInt8(truncatingIfNeeded: value.count))
        self.storage.append(UInt8(truncatingIfNeeded: value.count >> 8))
        self.storage.append(contentsOf: name)
        self.storage.append(contentsOf: value)
    }

    package mutating func append(name: String, value: String) {
        var name = name
        var value = value
        name.withUTF8 { name in value.withUTF8 { value in self.append(name: name, value: value) } }
    }

    package mutating func append(contentsOf other: FieldList) {
        self.storage.append(contentsOf: other.storage)
    }

    package mutating func removeAll() { self.storage.removeAll(keepingCapacity: true) }

    /// Passes the value of the first field called `name` (lower case) to `body`. Without such a field, `body` is not
    /// called. Not generic, because it is called for each push from another module, which could not specialise it.
    package func withFirst(_ name: StaticString, _ body: (UnsafeBufferPointer<UInt8>) -> Void) {
        self.storage.withUnsafeBufferPointer { bytes in
            var position = 0
            while let field = Self.field(in: bytes, at: &position) {
                if field.name.count == name.utf8CodeUnitCount, let start = field.name.baseAddress,
                    memcmp(start, name.utf8Start, field.name.count) == 0
                {
                    body(field.value)
                    return
                }
            }
        }
    }

    package func first(_ name: StaticString) -> String? {
        var text: String?
        self.withFirst(name) { text = String(decoding: $0, as: UTF8.self) }
        return text
    }

    /// Calls `body` with the bytes of each field, in wire order.
    package func forEach(_ body: (_ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>) -> Void) {
        self.storage.withUnsafeBufferPointer { bytes in
            var position = 0
            while let field = Self.field(in: bytes, at: &position) { body(field.name, field.value) }
        }
    }

    /// All fields as text, in wire order.
    package var all: [(name: String, value: String)] {
        self.storage.withUnsafeBufferPointer { bytes in
            var position = 0
            var fields: [(name: String, value: String)] = []
            while let field = Self.field(in: bytes, at: &position) {
                fields.append(
                    (String(decoding: field.name, as: UTF8.self), String(decoding: field.value, as: UTF8.self))
                )
            }
            return fields
        }
    }

    /// Passes each field to `each` in wire order, then runs `body`. The bytes stay valid until `body` returns.
    package func withFields<Result>(each: (_ name: Bytes, _ value: Bytes) -> Void, then body: () -> Result) -> Result {
        self.storage.withUnsafeBufferPointer { bytes in
            var position = 0
            while let field = Self.field(in: bytes, at: &position) { each(field.name, field.value) }
            return body()
        }
    }

    package typealias Bytes = UnsafeBufferPointer<UInt8>

    private static func field(in bytes: Bytes, at position: inout Int) -> (name: Bytes, value: Bytes)? {
        guard position + 4 <= bytes.count else { return nil }
        let nameCount = Int(bytes[position]) | Int(bytes[position + 1]) << 8
        let valueCount = Int(bytes[position + 2]) | Int(bytes[position + 3]) << 8
        let nameStart = position + 4
        position = nameStart + nameCount + valueCount
        guard position <= bytes.count else { return nil }
        return (
            Bytes(rebasing: bytes[nameStart..<nameStart + nameCount]),
            Bytes(rebasing: bytes[nameStart + nameCount..<position])
        )
    }
}
