import APNSModel
import GRDB
import GRDBSQLite

/// A cached prepared statement with positional parameters, without GRDB's conversion of each value.
///
/// Parameters are numbered from 1 and columns from 0, as in SQLite. Reading a column never fails, because SQLite
/// converts a value of another type.
struct PreparedSQL {
    // Keeps `handle` alive.
    private let statement: Statement
    private let handle: OpaquePointer
    private let connection: OpaquePointer

    fileprivate init(_ statement: Statement, _ connection: OpaquePointer) {
        self.statement = statement
        self.handle = statement.sqliteStatement
        self.connection = connection
    }

    // MARK: Parameters

    func bind(_ index: Int32, _ value: Int64) {
        sqlite3_bind_int64(self.handle, index, value)
    }

    func bind(_ index: Int32, _ value: Int) {
        sqlite3_bind_int64(self.handle, index, Int64(value))
    }

    func bind(_ index: Int32, _ value: Int64?) {
        if let value { self.bind(index, value) } else { self.bindNull(index) }
    }

    func bindNull(_ index: Int32) {
        sqlite3_bind_null(self.handle, index)
    }

    /// SQLite copies the bytes. Text may contain NUL, so its length is passed.
    func bind(_ index: Int32, _ value: String) {
        var value = value
        value.withUTF8 { text in
            text.withMemoryRebound(to: CChar.self) { text in
                // A null pointer would bind NULL.
                guard let base = text.baseAddress else {
                    sqlite3_bind_text(self.handle, index, "", 0, Self.transient)
                    return
                }
                sqlite3_bind_text(self.handle, index, base, Int32(clamping: text.count), Self.transient)
            }
        }
    }

    func bind(_ index: Int32, _ value: String?) {
        if let value { self.bind(index, value) } else { self.bindNull(index) }
    }

    func bind(_ index: Int32, _ value: [UInt8]) {
        value.withUnsafeBytes { self.bind(index, $0) }
    }

    func bind(_ index: Int32, _ bytes: UnsafeRawBufferPointer) {
        if let base = bytes.baseAddress, !bytes.isEmpty {
            sqlite3_bind_blob(self.handle, index, base, Int32(clamping: bytes.count), Self.transient)
        } else {
            sqlite3_bind_zeroblob(self.handle, index, 0)
        }
    }

    func bind(_ index: Int32, _ id: APNSID) {
        withUnsafeBytes(of: (id.high.bigEndian, id.low.bigEndian)) { self.bind(index, $0) }
    }

    // MARK: Running

    /// Runs a statement that returns no rows, and resets it.
    func run() throws {
        defer { sqlite3_reset(self.handle) }
        while try self.step() {}
    }

    /// Runs a statement, resets it, and returns whether it changed a row.
    func runAndCheckChange() throws -> Bool {
        try self.run()
        return sqlite3_changes(self.connection) > 0
    }

    /// Advances to the next row. Returns false at the end.
    func step() throws -> Bool {
        let code = sqlite3_step(self.handle)
        if code == SQLITE_ROW { return true }
        if code == SQLITE_DONE { return false }
        throw DatabaseError(
            resultCode: ResultCode(rawValue: code),
            message: String(cString: sqlite3_errmsg(self.connection)),
            sql: String(cString: sqlite3_sql(self.handle))
        )
    }

    /// Calls the closure for the first row, if there is one, and resets the statement.
    func first<Value>(_ read: (PreparedSQL) throws -> Value) throws -> Value? {
        defer { sqlite3_reset(self.handle) }
        return try self.step() ? try read(self) : nil
    }

    /// Calls the closure for each row until it returns false, and resets the statement.
    func forEach(_ read: (PreparedSQL) throws -> Bool) throws {
        defer { sqlite3_reset(self.handle) }
        while try self.step() {
            guard try read(self) else { return }
        }
    }

    // MARK: Columns

    func int64(_ column: Int32) -> Int64 { sqlite3_column_int64(self.handle, column) }

    func int(_ column: Int32) -> Int { Int(truncatingIfNeeded: self.int64(column)) }

    /// A counter. It is limited to 0…2³¹−1, so that adding to it cannot overflow even if the row is damaged.
    func count(_ column: Int32) -> Int { Int(min(max(self.int64(column), 0), Int64(Int32.max))) }

    func isNull(_ column: Int32) -> Bool { sqlite3_column_type(self.handle, column) == SQLITE_NULL }

    func optionalInt64(_ column: Int32) -> Int64? { self.isNull(column) ? nil : self.int64(column) }

    func text(_ column: Int32) -> String {
        guard let base = sqlite3_column_text(self.handle, column) else { return "" }
        let count = Int(sqlite3_column_bytes(self.handle, column))
        return String(decoding: UnsafeBufferPointer(start: base, count: count), as: UTF8.self)
    }

    func optionalText(_ column: Int32) -> String? { self.isNull(column) ? nil : self.text(column) }

    func bytes(_ column: Int32) -> [UInt8] { self.withBytes(column) { [UInt8]($0) } }

    func withBytes<Value>(_ column: Int32, _ body: (UnsafeRawBufferPointer) throws -> Value) rethrows -> Value {
        let base = sqlite3_column_blob(self.handle, column)
        let count = Int(sqlite3_column_bytes(self.handle, column))
        return try body(UnsafeRawBufferPointer(start: base, count: base == nil ? 0 : count))
    }

    /// Nil if the column does not hold 16 bytes.
    func id(_ column: Int32) -> APNSID? {
        self.withBytes(column) { bytes in
            guard bytes.count == 16 else { return nil }
            return APNSID(
                high: UInt64(bigEndian: bytes.loadUnaligned(as: UInt64.self)),
                low: UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
            )
        }
    }

    /// SQLITE_TRANSIENT: SQLite copies the value before the call returns.
    private static var transient: sqlite3_destructor_type { unsafeBitCast(-1, to: sqlite3_destructor_type.self) }
}

/// A constant SQL text, for statements that run for each push. A transaction finds its prepared statement by the identity of
/// the text, because a hash of the text takes as long as a small statement.
final class SQLText: Sendable {
    let text: String

    init(_ text: String) {
        self.text = text
    }
}

extension Database {
    /// This connection's prepared statement for the SQL. Do not use it again while its rows are being read.
    func prepared(_ sql: String) throws -> PreparedSQL {
        guard let connection = self.sqliteConnection else {
            throw DatabaseError(resultCode: .SQLITE_MISUSE, message: "the connection is closed")
        }
        return PreparedSQL(try self.cachedStatement(sql: sql), connection)
    }
}
