/// Encodes the header blocks of a client's requests (HPACK, RFC 7541).
///
/// nghttp2's encoder would encode every field of every request, including a provider token of some 200 bytes. This one
/// encodes the fields that requests share once, and copies the result until the peer's table changes. It copies the
/// values that differ without compression: the Huffman code would save 30 bytes a push and cost more than the rest of
/// the block.
struct HeaderEncoder {
    private struct TableEntry {
        var name: [UInt8]
        var value: [UInt8]

        /// RFC 7541, section 4.1.
        var size: Int { self.name.count + self.value.count + 32 }
    }

    /// The first bits of a representation, and how many bits of the first byte are left for its number (section 6).
    private struct Form {
        var bits: UInt8
        var width: UInt8

        static let indexed = Form(bits: 0x80, width: 7)
        static let addedToTable = Form(bits: 0x40, width: 6)
        static let tableSize = Form(bits: 0x20, width: 5)
        static let neverIndexed = Form(bits: 0x10, width: 4)
        static let notIndexed = Form(bits: 0x00, width: 4)
        /// A string that is not compressed (section 5.2).
        static let string = Form(bits: 0x00, width: 7)
    }

    /// The fields that requests share, as they are encoded with one version of the table.
    private struct Encoded {
        var version: Int
        var bytes: [UInt8]

        static let none = Encoded(version: -1, bytes: [])
    }

    /// The names of the fields whose values differ between requests, at most eight, with their indices in the static
    /// table. The first is `:path`.
    private let names: [(name: [UInt8], staticIndex: Int)]
    /// The most bytes of the variable fields without their values, and of changes of the table's size.
    let namesLimit: Int
    /// The peer's table, the oldest entry first (section 2.3.2).
    private var table: [TableEntry] = []
    private var tableSize = 0
    private var sizeLimit = Self.largestTable
    /// The limit that the next block must announce to the peer, and the smallest limit since the last announcement
    /// (section 4.2); nil if the limit has not changed.
    private var newLimit: (final: Int, smallest: Int)?
    /// Increases with each change of the table.
    private var version = 0
    /// The indices of `names`, 0 for a name that is not in the table, and the version that they belong to.
    private var nameIndices: [Int] = []
    private var nameVersion = -1
    /// The encoded shared fields, by the number of their entry in the session's table of shared fields.
    private var shared: [Encoded] = []

    /// The protocol's initial size of the table (RFC 9113, section 6.5.2). We use no more, even if the peer allows it.
    private static let largestTable = 4096
    private static let pathIndex = StaticTable.index(name: ":path")

    init(names: [String]) {
        self.names = names.prefix(8).map { (Array($0.utf8), StaticTable.index(name: $0)) }
        self.namesLimit = self.names.reduce(2 * 6) { $0 + Self.byteLimit(name: $1.name.count, value: 0) }
    }

    /// The most bytes of an encoded field.
    static func byteLimit(name: Int, value: Int) -> Int { name + value + 3 * 6 }

    /// Takes note of the peer's SETTINGS_HEADER_TABLE_SIZE.
    mutating func setPeerLimit(_ bytes: Int) {
        let limit = min(bytes, Self.largestTable)
        guard limit != self.newLimit?.final ?? self.sizeLimit else { return }
        self.newLimit = (limit, min(limit, self.newLimit?.smallest ?? self.sizeLimit))
    }

    /// Whether `name` is the variable name with this index.
    func isName(_ index: Int, _ name: UnsafeBufferPointer<UInt8>) -> Bool {
        guard index < self.names.count, self.names[index].name.count == name.count, let base = name.baseAddress else {
            return false
        }
        return memcmp(self.names[index].name, base, name.count) == 0
    }

    // MARK: Blocks

    /// Forgets the encoded fields of an entry, because its number may be reused for other fields.
    mutating func forget(entry: Int32) {
        if self.shared.indices.contains(Int(entry)) { self.shared[Int(entry)] = .none }
    }

    /// The length of the entry's encoded fields; nil if they may have to be encoded again.
    func sharedCount(of entry: Int32) -> Int? {
        self.isEncoded(entry) && self.newLimit == nil ? self.shared[Int(entry)].bytes.count : nil
    }

    private func isEncoded(_ entry: Int32) -> Bool {
        self.shared.indices.contains(Int(entry)) && self.shared[Int(entry)].version == self.version
    }

    /// Encodes the header block of the next request. Blocks must be sent in the order in which they were encoded.
    ///
    /// - Parameters:
    ///   - values: The values of the variable fields, one after the other.
    ///   - lengths: The length of each value; 0 if the field is absent.
    ///   - entry: Identifies `blocks` until `forget(entry:)`.
    ///   - blocks: Returns the fields that the request shares with others. Called if they must be encoded.
    ///   - start: Where to write. There must be room for `namesLimit` bytes, the values, and the shared fields:
    ///     `sharedCount(of:)`, or the limits of the blocks if that is nil.
    /// - Returns: The number of bytes.
    mutating func encode(
        _ values: UnsafePointer<UInt8>,
        _ lengths: SIMD8<UInt16>,
        entry: Int32,
        _ blocks: () -> [HeaderBlock],
        to start: UnsafeMutablePointer<UInt8>
    ) -> Int {
        var end = start
        if self.newLimit != nil { self.resize(&end) }
        var value = values
        // `:path` comes first. It contains a device token, so it rarely repeats and is not added to the table.
        self.write(.notIndexed, Self.pathIndex, &end)
        self.write(&value, Int(lengths[0]), &end)
        if self.isEncoded(entry) {
            end = Self.copy(self.shared[Int(entry)].bytes, to: end)
        } else {
            self.encodeShared(blocks(), entry, &end)
        }
        for index in 1..<max(self.names.count, 1) where lengths[index] > 0 {
            self.write(nameAt: index, &value, Int(lengths[index]), &end)
        }
        return end - start
    }

    private mutating func encodeShared(
        _ blocks: [HeaderBlock],
        _ entry: Int32,
        _ end: inout UnsafeMutablePointer<UInt8>
    ) {
        let start = end
        let version = self.version
        for block in blocks { for line in block.lines { self.write(line, &end) } }
        // If fields were added to the table, the next request refers to them, so these bytes cannot be used again.
        guard version == self.version, entry >= 0 else { return }
        while self.shared.count <= Int(entry) { self.shared.append(.none) }
        self.shared[Int(entry)] = Encoded(
            version: version,
            bytes: Array(UnsafeBufferPointer(start: start, count: end - start))
        )
    }

    private mutating func write(_ line: HeaderBlock.Line, _ end: inout UnsafeMutablePointer<UInt8>) {
        if line.staticIndex > 0 { return self.write(.indexed, line.staticIndex, &end) }
        if let literal = line.literal {
            end = Self.copy(literal, to: end)
            return
        }
        if let position = self.table.lastIndex(where: { $0.value == line.value && $0.name == line.name }) {
            return self.write(.indexed, self.index(at: position), &end)
        }
        let nameIndex = line.nameIndex > 0 ? line.nameIndex : self.index(of: line.name)
        let isAdded = self.add(TableEntry(name: line.name, value: line.value))
        self.write(isAdded ? .addedToTable : .notIndexed, nameIndex, &end)
        if nameIndex == 0 { self.write(line.name, &end) }
        self.write(line.value, &end)
    }

    /// Writes a variable field. The first time, adds it to the table, so that later fields can refer to its name.
    private mutating func write(
        nameAt index: Int,
        _ value: inout UnsafePointer<UInt8>,
        _ count: Int,
        _ end: inout UnsafeMutablePointer<UInt8>
    ) {
        if self.nameVersion != self.version {
            self.nameIndices = self.names.map { $0.staticIndex > 0 ? $0.staticIndex : self.index(of: $0.name) }
            self.nameVersion = self.version
        }
        let nameIndex = self.nameIndices[index]
        if nameIndex > 0 {
            self.write(.neverIndexed, nameIndex, &end)
        } else {
            let name = self.names[index].name
            let entry = TableEntry(name: name, value: Array(UnsafeBufferPointer(start: value, count: count)))
            self.write(self.add(entry) ? .addedToTable : .neverIndexed, 0, &end)
            self.write(name, &end)
        }
        self.write(&value, count, &end)
    }

    // MARK: The peer's table

    private func index(at position: Int) -> Int { StaticTable.count + self.table.count - position }

    /// The index of the newest entry with a name; 0 if there is none.
    private func index(of name: [UInt8]) -> Int {
        self.table.lastIndex { $0.name == name }.map { self.index(at: $0) } ?? 0
    }

    /// - Returns: Whether the entry fits into the table.
    private mutating func add(_ entry: TableEntry) -> Bool {
        guard entry.size <= self.sizeLimit else { return false }
        self.evict(until: self.sizeLimit - entry.size)
        self.table.append(entry)
        self.tableSize += entry.size
        self.version &+= 1
        return true
    }

    private mutating func evict(until size: Int) {
        var count = 0
        while self.tableSize > size, count < self.table.count {
            self.tableSize -= self.table[count].size
            count += 1
        }
        guard count > 0 else { return }
        self.table.removeFirst(count)
        self.version &+= 1
    }

    /// Announces the new limit of the table to the peer, and evicts entries that do not fit.
    private mutating func resize(_ end: inout UnsafeMutablePointer<UInt8>) {
        guard let (final, smallest) = self.newLimit else { return }
        self.newLimit = nil
        for limit in smallest < final ? [smallest, final] : [final] {
            self.write(.tableSize, limit, &end)
            self.evict(until: limit)
        }
        self.sizeLimit = final
    }

    // MARK: Primitives

    /// Writes a number with the first bits of a representation before it (section 5.1).
    private func write(_ form: Form, _ number: Int, _ end: inout UnsafeMutablePointer<UInt8>) {
        let most = (1 << Int(form.width)) - 1
        guard number >= most else {
            end.pointee = form.bits | UInt8(truncatingIfNeeded: number)
            end += 1
            return
        }
        end.pointee = form.bits | UInt8(truncatingIfNeeded: most)
        end += 1
        var rest = number - most
        while rest > 0x7F {
            end.pointee = UInt8(truncatingIfNeeded: rest) | 0x80
            end += 1
            rest >>= 7
        }
        end.pointee = UInt8(truncatingIfNeeded: rest)
        end += 1
    }

    private func write(_ string: [UInt8], _ end: inout UnsafeMutablePointer<UInt8>) {
        self.write(.string, string.count, &end)
        end = Self.copy(string, to: end)
    }

    private func write(
        _ string: inout UnsafePointer<UInt8>,
        _ count: Int,
        _ end: inout UnsafeMutablePointer<UInt8>
    ) {
        self.write(.string, count, &end)
        end.update(from: string, count: count)
        end += count
        string += count
    }

    private static func copy(
        _ bytes: [UInt8],
        to end: UnsafeMutablePointer<UInt8>
    ) -> UnsafeMutablePointer<UInt8> {
        bytes.withUnsafeBufferPointer { bytes in
            if let base = bytes.baseAddress { end.update(from: base, count: bytes.count) }
        }
        return end + bytes.count
    }
}

extension HeaderEncoder {
    /// Encodes a field that is never indexed, with a literal name and without compression.
    static func neverIndexed(_ name: [UInt8], _ value: [UInt8]) -> [UInt8] {
        let encoder = HeaderEncoder(names: [])
        return Array(unsafeUninitializedCapacity: self.byteLimit(name: name.count, value: value.count)) {
            buffer,
            count in
            guard var end = buffer.baseAddress else { return }
            let start = end
            encoder.write(.neverIndexed, 0, &end)
            encoder.write(name, &end)
            encoder.write(value, &end)
            count = end - start
        }
    }
}
