import APNSModel
import CLibpq

/// The owner of a `PGresult`, in the binary format.
final class Rows {
    private let pointer: OpaquePointer
    let count: Int
    /// The numbers of the columns that were read, by the addresses of their names.
    private var columns: [(name: UnsafePointer<UInt8>, number: Int32)] = []

    init(_ pointer: OpaquePointer) {
        self.pointer = pointer
        self.count = Int(PQntuples(pointer))
    }

    deinit { PQclear(self.pointer) }

    subscript(row: Int) -> Row { Row(rows: self, index: Int32(clamping: row)) }

    /// The number of a column. A name is looked up once: the list is short, and names are literals.
    private func number(of name: StaticString?) -> Int32 {
        guard let name = name?.utf8Start else { return 0 }
        for column in self.columns where column.name == name { return column.number }
        let number = name.withMemoryRebound(to: CChar.self, capacity: 1) { PQfnumber(self.pointer, $0) }
        self.columns.append((name, number))
        return number
    }

    fileprivate func isNull(_ row: Int32, _ column: StaticString?) -> Bool {
        PQgetisnull(self.pointer, row, self.number(of: column)) != 0
    }

    fileprivate func bytes(_ row: Int32, _ column: StaticString?) -> UnsafeRawBufferPointer {
        let column = self.number(of: column)
        return UnsafeRawBufferPointer(
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

    func isNull(_ column: StaticString? = nil) -> Bool { self.rows.isNull(self.index, column) }

    func withBytes<Value>(_ column: StaticString, _ body: (UnsafeRawBufferPointer) -> Value) -> Value {
        body(self.rows.bytes(self.index, column))
    }

    func int64(_ column: StaticString? = nil) -> Int64 { self.optionalInt64(column) ?? 0 }

    /// A `smallint`, `int` or `bigint`.
    func optionalInt64(_ column: StaticString? = nil) -> Int64? {
        guard !self.isNull(column) else { return nil }
        let bytes = self.rows.bytes(self.index, column)
        switch bytes.count {
        case 2: return Int64(Int16(bigEndian: bytes.loadUnaligned(as: Int16.self)))
        case 4: return Int64(Int32(bigEndian: bytes.loadUnaligned(as: Int32.self)))
        case 8: return Int64(bigEndian: bytes.loadUnaligned(as: Int64.self))
        default: return nil
        }
    }

    func int(_ column: StaticString? = nil) -> Int { Int(clamping: self.int64(column)) }

    func bool(_ column: StaticString? = nil) -> Bool {
        self.isNull(column) ? false : self.rows.bytes(self.index, column).first == 1
    }

    func text(_ column: StaticString? = nil) -> String {
        String(decoding: self.rows.bytes(self.index, column), as: UTF8.self)
    }

    func optionalText(_ column: StaticString? = nil) -> String? { self.isNull(column) ? nil : self.text(column) }

    func bytes(_ column: StaticString? = nil) -> [UInt8] { Array(self.rows.bytes(self.index, column)) }

    func optionalBytes(_ column: StaticString? = nil) -> [UInt8]? { self.isNull(column) ? nil : self.bytes(column) }

    func id(_ column: StaticString? = nil) -> APNSID? {
        self.isNull(column) ? nil : Self.id(self.rows.bytes(self.index, column))
    }

    private static func id(_ bytes: UnsafeRawBufferPointer) -> APNSID? {
        guard bytes.count == 16 else { return nil }
        return APNSID(
            high: UInt64(bigEndian: bytes.loadUnaligned(as: UInt64.self)),
            low: UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
        )
    }

    /// The text of a `jsonb`.
    func json(_ column: StaticString? = nil) -> [UInt8]? {
        self.isNull(column) ? nil : Array(self.bytes(column).dropFirst())
    }

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
        guard !self.isNull(column) else { return [] }
        let bytes = self.rows.bytes(self.index, column)
        // Dimensions, whether there are NULLs, the type, the length and the first index.
        guard bytes.count >= 20 else { return [] }
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
