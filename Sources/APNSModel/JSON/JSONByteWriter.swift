import APNSBasics

/// Writes JSON text (RFC 8259) into its own buffer.
///
/// It escapes only the characters that §7 requires (quote, backslash, control characters), because escaping `/` or
/// non-ASCII would waste part of the few kilobytes that a payload may have. Callers write the commas.
///
/// The buffer is plain memory instead of an array. A push needs some thirty appends; for each of them an array checks
/// whether it is uniquely referenced, and it calls `memcpy` even for five bytes. The result is an array without spare
/// capacity.
package struct JSONByteWriter: ~Copyable {
    /// Empty until the first write.
    private var memory = UnsafeMutableBufferPointer<UInt8>(start: nil, count: 0)
    package private(set) var count = 0

    /// The size of the buffer in bytes.
    var capacity: Int { self.memory.count }

    package init() {}

    deinit {
        self.memory.deallocate()
    }

    // MARK: - Memory

    /// Enough for most payloads.
    private static let leastCapacity = 256

    /// The start of the memory, which must be allocated already.
    @inline(__always)
    private var base: UnsafeMutablePointer<UInt8> { self.memory.baseAddress.unsafelyUnwrapped }

    /// Returns where to write the next bytes, with room for at least this many. Valid until the next call.
    @inline(__always)
    private mutating func room(_ bytes: Int) -> UnsafeMutablePointer<UInt8> {
        // At least one byte, so that there is memory even if nothing is written.
        if self.memory.count &- self.count < max(bytes, 1) { self.grow(by: bytes) }
        return self.base + self.count
    }

    @inline(never)
    private mutating func grow(by bytes: Int) {
        let capacity = max(Self.leastCapacity, self.memory.count * 2, self.count + bytes)
        let larger = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: capacity)
        _ = larger.moveInitialize(fromContentsOf: self.memory.prefix(self.count))
        self.memory.deallocate()
        self.memory = larger
    }

    /// The bytes written from `start` on, as an array of exactly that size.
    package func bytes(from start: Int = 0) -> [UInt8] {
        Array(UnsafeBufferPointer(rebasing: self.memory[start..<self.count]))
    }

    /// The byte at a position below `count`.
    subscript(position: Int) -> UInt8 {
        self.base[position]
    }

    /// Removes all bytes from a position on.
    package mutating func truncate(to length: Int) {
        self.count = min(self.count, length)
    }

    /// Whether the bytes at both positions are equal.
    @inline(__always)
    func isRepeated(_ position: Int, at other: Int, count length: Int) -> Bool {
        var index = 0
        while index < length {
            if self.base[position &+ index] != self.base[other &+ index] { return false }
            index &+= 1
        }
        return true
    }

    // MARK: - Values

    @inline(__always)
    mutating func byte(_ value: UInt8) {
        self.room(1).initialize(to: value)
        self.count &+= 1
    }

    /// Appends text that is already JSON. Inlined, because copying a known length takes only a few instructions.
    @inline(__always)
    package mutating func literal(_ text: StaticString) {
        let length = text.utf8CodeUnitCount
        self.room(length).initialize(from: text.utf8Start, count: length)
        self.count &+= length
    }

    /// Appends bytes that are already JSON.
    package mutating func append(_ bytes: some Collection<UInt8>) {
        let length = bytes.count
        _ = UnsafeMutableBufferPointer(start: self.room(length), count: length).initialize(fromContentsOf: bytes)
        self.count += length
    }

    /// Writes the opening brace of an object whose members each start with a comma: over the first comma, or at the end
    /// if the object has no member.
    @inline(__always)
    mutating func open(at start: Int) {
        if start == self.count {
            self.byte(JSONByte.openObject)
        } else {
            self.base[start] = JSONByte.openObject
        }
    }

    package mutating func string(_ value: String) {
        let done: Void? = value.utf8.withContiguousStorageIfAvailable { self.quoted($0) }
        if done == nil {
            // Only strings bridged from Objective-C have no contiguous storage.
            var copy = value
            copy.withUTF8 { self.quoted($0) }
        }
    }

    mutating func bool(_ value: Bool) {
        if value {
            self.literal("true")
        } else {
            self.literal("false")
        }
    }

    package mutating func null() {
        self.literal("null")
    }

    package mutating func integer(_ value: Int64) {
        if value < 0 {
            self.byte(0x2D)
        }
        self.unsigned(value.magnitude)
    }

    mutating func unsigned(_ value: UInt64) {
        var length = 1
        var bound: UInt64 = 10
        while length < 20, value >= bound {
            length &+= 1
            // The largest number has 20 digits. 10^20 does not fit into 64 bits and is never compared.
            bound = bound &* 10
        }
        let digits = self.room(length)
        var rest = value
        var position = length
        while position > 0 {
            let (quotient, remainder) = rest.quotientAndRemainder(dividingBy: 10)
            position &-= 1
            (digits + position).initialize(to: 0x30 &+ UInt8(truncatingIfNeeded: remainder))
            rest = quotient
        }
        self.count &+= length
    }

    /// Writes the shortest text that parses to an equal number, without `.0`, as Foundation's `JSONEncoder` does.
    /// Returns false and writes nothing for infinity and NaN, which JSON cannot represent (§6).
    mutating func double(_ value: Double) -> Bool {
        guard value.isFinite else { return false }
        self.number(value.description)
        return true
    }

    /// Like `double(_:)`. The shortest text of a `Float` is shorter than that of the equal `Double`.
    mutating func float(_ value: Float) -> Bool {
        guard value.isFinite else { return false }
        self.number(value.description)
        return true
    }

    /// Writes a number's text without a trailing `.0`.
    mutating func number(_ text: String) {
        self.append(text.utf8)
        if self.count >= 2, self.base[self.count - 1] == 0x30, self.base[self.count - 2] == 0x2E {
            self.count -= 2
        }
    }

    // MARK: - Strings

    private mutating func quoted(_ units: UnsafeBufferPointer<UInt8>) {
        let target = self.room(units.count &+ 2)
        guard Self.copy(UnsafeRawBufferPointer(units), to: UnsafeMutableRawPointer(target + 1)) else {
            return self.escaped(units)
        }
        target.initialize(to: JSONByte.quote)
        (target + units.count + 1).initialize(to: JSONByte.quote)
        self.count &+= units.count &+ 2
    }

    /// Copies a string's bytes, eight at a time; the last eight may overlap the ones before them.
    ///
    /// - Returns: false if a byte may need an escape; the bytes at `target` are then undefined.
    @inline(__always)
    private static func copy(_ source: UnsafeRawBufferPointer, to target: UnsafeMutableRawPointer) -> Bool {
        let length = source.count
        if length >= 8 {
            var index = 0
            while index < length {
                let place = min(index, length &- 8)
                let word = source.loadUnaligned(fromByteOffset: place, as: UInt64.self)
                if Self.mayNeedEscape(word) { return false }
                target.storeBytes(of: word, toByteOffset: place, as: UInt64.self)
                index &+= 8
            }
        } else if length >= 4 {
            let first = source.loadUnaligned(as: UInt32.self)
            let last = source.loadUnaligned(fromByteOffset: length &- 4, as: UInt32.self)
            if Self.mayNeedEscape(UInt64(first) | UInt64(last) << 32) { return false }
            target.storeBytes(of: first, as: UInt32.self)
            target.storeBytes(of: last, toByteOffset: length &- 4, as: UInt32.self)
        } else {
            for index in 0..<length {
                if Self.needsEscape(source[index]) { return false }
                target.storeBytes(of: source[index], toByteOffset: index, as: UInt8.self)
            }
        }
        return true
    }

    @inline(never)
    private mutating func escaped(_ units: UnsafeBufferPointer<UInt8>) {
        self.byte(JSONByte.quote)
        var rest = units[...]
        while let place = rest.firstIndex(where: Self.needsEscape) {
            self.append(rest[..<place])
            self.escape(rest[place])
            rest = rest[(place + 1)...]
        }
        self.append(rest)
        self.byte(JSONByte.quote)
    }

    private static func needsEscape(_ unit: UInt8) -> Bool {
        unit < 0x20 || unit == JSONByte.quote || unit == JSONByte.backslash
    }

    /// Whether any of eight bytes is a quote, a backslash or below 0x20. It may return true without need, but never
    /// false by mistake.
    @inline(__always)
    private static func mayNeedEscape(_ word: UInt64) -> Bool {
        let ones: UInt64 = 0x0101_0101_0101_0101
        let highs: UInt64 = 0x8080_8080_8080_8080
        let quotes = word ^ (ones &* UInt64(JSONByte.quote))
        let backslashes = word ^ (ones &* UInt64(JSONByte.backslash))
        let control = (word &- (ones &* 0x20)) & ~word
        let matches = ((quotes &- ones) & ~quotes) | ((backslashes &- ones) & ~backslashes)
        return (control | matches) & highs != 0
    }

    private mutating func escape(_ unit: UInt8) {
        self.byte(JSONByte.backslash)
        switch unit {
        case JSONByte.quote, JSONByte.backslash: self.byte(unit)
        case 0x08: self.byte(0x62)
        case 0x09: self.byte(0x74)
        case 0x0A: self.byte(0x6E)
        case 0x0C: self.byte(0x66)
        case 0x0D: self.byte(0x72)
        default:
            self.literal("u00")
            self.byte(Hexadecimal.digit(unit >> 4))
            self.byte(Hexadecimal.digit(unit & 0xF))
        }
    }
}

/// The bytes with a meaning in JSON.
enum JSONByte {
    static let quote: UInt8 = 0x22
    static let backslash: UInt8 = 0x5C
    static let comma: UInt8 = 0x2C
    static let colon: UInt8 = 0x3A
    static let openObject: UInt8 = 0x7B
    static let closeObject: UInt8 = 0x7D
    static let openArray: UInt8 = 0x5B
    static let closeArray: UInt8 = 0x5D
}
