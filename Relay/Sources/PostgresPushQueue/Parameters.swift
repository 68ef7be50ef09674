import APNSModel
import CLibpq

/// The parameters of a statement, in PostgreSQL's binary format.
struct Parameters {
    /// The type of a parameter or of the elements of an array, by its fixed OID.
    enum Kind: Oid {
        case bool = 16
        case bytes = 17
        case int64 = 20
        case int16 = 21
        case int32 = 23
        case text = 25
        case uuid = 2950
        case json = 3802

        var array: Oid {
            switch self {
            case .bool: 1000
            case .bytes: 1001
            case .int64: 1016
            case .int16: 1005
            case .int32: 1007
            case .text: 1009
            case .uuid: 2951
            case .json: 3807
            }
        }
    }

    private(set) var types: [Oid] = []
    /// The bytes of each parameter in `buffer`; nil for NULL.
    private(set) var ranges: [Range<Int>?] = []
    private(set) var buffer: [UInt8] = []
    /// The number of fields of the record that is being added; nil outside of records.
    private var fields: Int32?

    // MARK: Values

    mutating func add(_ value: Int64?) { self.add(.int64, value) { $0.append($1) } }

    mutating func add(_ value: Int32?) { self.add(.int32, value) { $0.append($1) } }

    mutating func add(_ value: Int16?) { self.add(.int16, value) { $0.append($1) } }

    mutating func add(_ value: Bool?) { self.add(.bool, value) { $0.buffer.append($1 ? 1 : 0) } }

    mutating func add(_ value: String?) { self.add(.text, value) { $0.buffer.append(contentsOf: $1.utf8) } }

    mutating func add(_ value: [UInt8]?) { self.add(.bytes, value) { $0.buffer.append(contentsOf: $1) } }

    mutating func add(_ value: APNSID?) { self.add(.uuid, value) { $0.append($1) } }

    /// A JSON text.
    mutating func addJSON(_ value: [UInt8]?) {
        self.add(.json, value) { parameters, text in
            parameters.buffer.append(1)  // The version of the format.
            parameters.buffer.append(contentsOf: text)
        }
    }

    private mutating func add<Value>(_ kind: Kind, _ value: Value?, _ write: (inout Parameters, Value) -> Void) {
        guard self.fields == nil else { return self.addField(kind, value, write) }
        self.types.append(kind.rawValue)
        let start = self.buffer.count
        if let value { write(&self, value) }
        self.ranges.append(value == nil ? nil : start..<self.buffer.count)
    }

    // MARK: Records

    /// Adds an array of records of a composite type.
    ///
    /// - Parameters:
    ///   - values: what the records are made from.
    ///   - type: the number of the type, which differs from database to database.
    ///   - write: adds the fields of a record as single values, in the order of the type.
    mutating func add<Values: Collection>(
        _ values: Values,
        of type: Oid,
        _ write: (inout Parameters, Values.Element) -> Void
    ) {
        // The server finds the type of the parameter itself.
        self.array(0, of: type, values) { parameters, value in
            let start = parameters.buffer.count
            // The length and the number of fields.
            parameters.append(Int64(0))
            parameters.fields = 0
            write(&parameters, value)
            parameters.set(Int32(clamping: parameters.buffer.count - start - 4), at: start)
            parameters.set(parameters.fields ?? 0, at: start + 4)
            parameters.fields = nil
        }
    }

    /// A field has its type and its length before it; NULL has the length -1.
    private mutating func addField<Value>(_ kind: Kind, _ value: Value?, _ write: (inout Parameters, Value) -> Void) {
        self.fields? += 1
        self.append(Int32(bitPattern: kind.rawValue))
        let start = self.buffer.count
        self.append(Int32(-1))
        guard let value else { return }
        write(&self, value)
        self.set(Int32(clamping: self.buffer.count - start - 4), at: start)
    }

    private mutating func set(_ number: Int32, at start: Int) {
        withUnsafeBytes(of: number.bigEndian) { bytes in
            for offset in bytes.indices { self.buffer[start + offset] = bytes[offset] }
        }
    }

    // MARK: Arrays

    mutating func add(_ values: some Collection<Int64>) { self.array(.int64, values) { $0.element($1) } }

    mutating func add(_ values: some Collection<Int64?>) {
        self.array(.int64, values) { $0.appendOptional($1) { $0.element($1) } }
    }

    mutating func add(_ values: some Collection<Int32>) { self.array(.int32, values) { $0.element($1) } }

    mutating func add(_ values: some Collection<String>) { self.array(.text, values) { $0.bytes($1.utf8) } }

    /// A nil array is NULL.
    mutating func add(_ values: [String]?) {
        if let values { return self.array(.text, values) { $0.bytes($1.utf8) } }
        self.types.append(Kind.text.array)
        self.ranges.append(nil)
    }

    mutating func add(_ values: some Collection<String?>) {
        self.array(.text, values) { $0.appendOptional($1) { $0.bytes($1.utf8) } }
    }

    mutating func add(_ values: some Collection<APNSID>) {
        self.array(.uuid, values) { parameters, id in
            parameters.append(Int32(16))
            parameters.append(id)
        }
    }

    /// One dimension that begins at 1. An element has its length before it; NULL has the length -1.
    private mutating func array<Values: Collection>(
        _ kind: Kind,
        _ values: Values,
        _ write: (inout Parameters, Values.Element) -> Void
    ) {
        self.array(kind.array, of: kind.rawValue, values, write)
    }

    private mutating func array<Values: Collection>(
        _ type: Oid,
        of element: Oid,
        _ values: Values,
        _ write: (inout Parameters, Values.Element) -> Void
    ) {
        self.types.append(type)
        let start = self.buffer.count
        self.append(Int32(values.isEmpty ? 0 : 1))
        self.append(Int32(1))  // May have NULLs.
        self.append(Int32(bitPattern: element))
        if !values.isEmpty {
            self.append(Int32(clamping: values.count))
            self.append(Int32(1))
            for value in values { write(&self, value) }
        }
        self.ranges.append(start..<self.buffer.count)
    }

    private mutating func appendOptional<Value>(_ value: Value?, _ write: (inout Parameters, Value) -> Void) {
        if let value { write(&self, value) } else { self.append(Int32(-1)) }
    }

    private mutating func bytes(_ bytes: some Collection<UInt8>) {
        self.append(Int32(clamping: bytes.count))
        self.buffer.append(contentsOf: bytes)
    }

    private mutating func element(_ number: some FixedWidthInteger) {
        self.append(Int32(number.bitWidth / 8))
        self.append(number)
    }

    private mutating func append(_ id: APNSID) {
        self.append(id.high)
        self.append(id.low)
    }

    private mutating func append(_ number: some FixedWidthInteger) {
        withUnsafeBytes(of: number.bigEndian) { self.buffer.append(contentsOf: $0) }
    }
}
