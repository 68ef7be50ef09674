import APNSModel
import CLibpq

/// The owner of a `PGresult`, in the binary format.
final class Rows {
    private let pointer: OpaquePointer
    let count: Int
    /// For each column, the address of the name by which it was read. Not an array, because each access to one in a class
    /// is checked for others at the same time, which costs more than the search.
    private let names: UnsafeMutablePointer<UnsafePointer<UInt8>?>
    private let columns: Int

    init(_ pointer: OpaquePointer) {
        self.pointer = pointer
        self.count = Int(PQntuples(pointer))
        self.columns = Int(PQnfields(pointer))
        self.names = .allocate(capacity: self.columns)
        self.names.initialize(repeating: nil, count: self.columns)
    }

    deinit {
        self.names.deallocate()
        PQclear(self.pointer)
    }

    subscript(row: Int) -> Row { Row(rows: self, index: Int32(clamping: row)) }

    /// The number of a column. A name is looked up once, because names are literals.
    fileprivate func number(of name: StaticString?) -> Int32 {
        guard let name = name?.utf8Start else { return 0 }
        for column in 0..<self.columns where self.names[column] == name { return Int32(truncatingIfNeeded: column) }
        let number = name.withMemoryRebound(to: CChar.self, capacity: 1) { PQfnumber(self.pointer, $0) }
        if number >= 0 { self.names[Int(number)] = name }
        return number
    }

    fileprivate func isNull(_ row: Int32, _ column: Int32) -> Bool { PQgetisnull(self.pointer, row, column) != 0 }

    fileprivate func bytes(_ row: Int32, _ column: Int32) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(
            start: PQgetvalue(self.pointer, row, column),
            count: Int(PQgetlength(self.pointer, row, column))
        )
    }
}

/// A row. Its columns are read by name; without a name, it is the first one, for statements that return one value.
///
/// A value of an unexpected length, which no column has, reads as zero or nil. So does a column that is not there.
struct Row {
    fileprivate let rows: Rows
    fileprivate let index: Int32

    /// The bytes of a column; nil for NULL.
    private func value(_ column: StaticString?) -> UnsafeRawBufferPointer? {
        let number = self.rows.number(of: column)
        return self.rows.isNull(self.index, number) ? nil : self.rows.bytes(self.index, number)
    }

    func isNull(_ column: StaticString? = nil) -> Bool { self.value(column) == nil }

    func withBytes<Value>(_ column: StaticString, _ body: (UnsafeRawBufferPointer) -> Value) -> Value {
        body(self.value(column) ?? UnsafeRawBufferPointer(start: nil, count: 0))
    }

    func int64(_ column: StaticString? = nil) -> Int64 { self.optionalInt64(column) ?? 0 }

    /// A `smallint`, `int` or `bigint`.
    func optionalInt64(_ column: StaticString? = nil) -> Int64? {
        guard let bytes = self.value(column) else { return nil }
        switch bytes.count {
        case 2: return Int64(Int16(bigEndian: bytes.loadUnaligned(as: Int16.self)))
        case 4: return Int64(Int32(bigEndian: bytes.loadUnaligned(as: Int32.self)))
        case 8: return Int64(bigEndian: bytes.loadUnaligned(as: Int64.self))
        default: return nil
        }
    }

    func int(_ column: StaticString? = nil) -> Int { Int(clamping: self.int64(column)) }

    func bool(_ column: StaticString? = nil) -> Bool { self.value(column)?.first == 1 }

    func text(_ column: StaticString? = nil) -> String { self.optionalText(column) ?? "" }

    func optionalText(_ column: StaticString? = nil) -> String? {
        self.value(column).map { String(decoding: $0, as: UTF8.self) }
    }

    func bytes(_ column: StaticString? = nil) -> [UInt8] { self.value(column).map { Array($0) } ?? [] }

    func id(_ column: StaticString? = nil) -> APNSID? { self.value(column).flatMap(Self.id) }

    private static func id(_ bytes: UnsafeRawBufferPointer) -> APNSID? {
        guard bytes.count == 16 else { return nil }
        return APNSID(
            high: UInt64(bigEndian: bytes.loadUnaligned(as: UInt64.self)),
            low: UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
        )
    }

    /// The text of a `jsonb`.
    func json(_ column: StaticString? = nil) -> [UInt8]? { self.value(column).map { Array($0.dropFirst()) } }

    // MARK: Arrays

    func int64s(_ column: StaticString? = nil) -> [Int64] {
        self.elements(column) { bytes in
            switch bytes.count {
            case 1: Int64(bytes[0])
            case 2: Int64(Int16(bigEndian: bytes.loadUnaligned(as: Int16.self)))
            case 8: Int64(bigEndian: bytes.loadUnaligned(as: Int64.self))
            default: 0
            }
        }
    }

    func ids(_ column: StaticString? = nil) -> [APNSID?] { self.elements(column, Self.id) }

    /// Reads the elements of an array; NULL as no bytes.
    private func elements<Value>(_ column: StaticString?, _ read: (UnsafeRawBufferPointer) -> Value) -> [Value] {
        // Dimensions, whether there are NULLs, the type, the length and the first index.
        guard let bytes = self.value(column), bytes.count >= 20 else { return [] }
        let count = Int32(bigEndian: bytes.loadUnaligned(fromByteOffset: 12, as: Int32.self))
        var values: [Value] = []
        var offset = 20
        for _ in 0..<max(count, 0) {
            guard offset + 4 <= bytes.count else { break }
            let length = Int(Int32(bigEndian: bytes.loadUnaligned(fromByteOffset: offset, as: Int32.self)))
            offset += 4
            let end = offset + max(length, 0)
            guard end <= bytes.count else { break }
            values.append(read(UnsafeRawBufferPointer(rebasing: bytes[offset..<end])))
            offset = end
        }
        return values
    }
}
