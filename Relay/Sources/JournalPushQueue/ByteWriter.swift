/// Writes values as bytes, numbers little-endian. ``ByteReader`` reads them.
package struct ByteWriter {
    package private(set) var bytes: [UInt8] = []

    package init() {}

    package mutating func write(_ value: some FixedWidthInteger) {
        withUnsafeBytes(of: value.littleEndian) { self.bytes.append(contentsOf: $0) }
    }

    package mutating func write(_ value: Bool) { self.bytes.append(value ? 1 : 0) }

    package mutating func write(_ value: [UInt8]) {
        self.write(UInt32(clamping: value.count))
        self.bytes.append(contentsOf: value)
    }

    package mutating func write(_ value: String) {
        var value = value
        value.withUTF8 { utf8 in
            self.write(UInt32(clamping: utf8.count))
            self.bytes.append(contentsOf: utf8)
        }
    }

    mutating func write<Value>(_ value: Value?, _ body: (inout ByteWriter, Value) -> Void) {
        self.write(value != nil)
        if let value { body(&self, value) }
    }

    mutating func write<Element>(_ values: [Element], _ body: (inout ByteWriter, Element) -> Void) {
        self.write(UInt32(clamping: values.count))
        for value in values { body(&self, value) }
    }
}
