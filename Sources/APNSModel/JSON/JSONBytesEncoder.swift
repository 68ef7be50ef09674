import Synchronization

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// Encodes any `Encodable` directly to JSON bytes.
///
/// The results equal those of Foundation's `JSONEncoder` (default strategies, slashes not escaped) at a fraction of its
/// cost. Keys keep the order in which they are encoded.
///
/// Values are appended while they are being encoded, so the order of calls must be the order of the text. Nearly every
/// `encode(to:)` works that way. The exceptions are detected: a container written to after its sibling was started,
/// `superEncoder()`, a key set twice, a swallowed error, a read of `codingPath`. The output of such a value is then
/// discarded, and Foundation's `JSONEncoder` encodes the value again with sorted keys.
package final class JSONBytesEncoder {
    /// The deepest nesting that is encoded. Deeper values fail before the stack overflows.
    static let maximumDepth = 128
    /// The most keys of an object that are scanned for duplicates. Foundation encodes larger objects, with a
    /// dictionary.
    static let maximumScannedKeys = 256

    /// Thrown to leave a value that needs Foundation's encoder. The value may swallow this error, so `detour` is what
    /// decides.
    struct Detour: Error {}

    /// Why a value cannot be encoded at all. Foundation's encoder would crash the process.
    private struct Refusal {
        var code: ValidationError.Code
        var problem: String
    }

    /// A container that is open in the text. Frames nest; only the last one can be written to.
    private struct Frame {
        var serial: Int
        var isKeyed: Bool
        var count = 0
        /// The index of its first key in `keys`.
        var firstKey: Int
    }

    /// A value being encoded, to which its `Encoder` refers. These nest like the calls of `encode(to:)`.
    private struct OpenValue {
        enum State {
            case empty
            case scalar
            case container
            /// Its members become members of the root object.
            case merged
        }

        var serial: Int
        /// The number of frames when it started. Its own container, if any, is the frame at this index.
        var base: Int
        var state: State
    }

    /// Identifies a container; invalid once its frame has been closed.
    struct Place {
        var depth: Int
        var serial: Int
    }

    private struct KeyRange {
        var start: Int
        var count: Int
    }

    // Unchecked: no write access is open while foreign code runs that could re-enter, so the run-time check is
    // unnecessary.
    @exclusivity(unchecked) var writer = JSONByteWriter()
    @exclusivity(unchecked) private(set) var detour = false
    /// Whether the value must be encoded again. It is first encoded to its end, to detect nesting that is too deep:
    /// Foundation's encoder does not detect it before the stack overflows.
    @exclusivity(unchecked) private var isVoid = false
    @exclusivity(unchecked) private var refusal: Refusal?
    @exclusivity(unchecked) private var frames: [Frame] = []
    @exclusivity(unchecked) private var openValues: [OpenValue] = []
    @exclusivity(unchecked) private var keys: [KeyRange] = []
    @exclusivity(unchecked) private var serials = 0
    @exclusivity(unchecked) private var nesting = 0

    // MARK: - Reuse

    /// A finished encoder for reuse, if there is one.
    ///
    /// Unchecked: it holds the only reference to its encoder, which `reuse` ensures, and taking it out transfers that
    /// reference.
    private struct Spare: @unchecked Sendable {
        var encoder: JSONBytesEncoder?
    }

    private static let spare = Mutex(Spare())
    /// The largest buffer that is kept, in bytes. An encoder whose buffer has grown beyond it is discarded.
    private static let largestSpare = 16 * 1024

    /// Returns an empty encoder. Payloads share one, because allocating it with its buffer and arrays would be half of the
    /// allocations for a small payload.
    static func reused() -> JSONBytesEncoder {
        Self.spare.withLock { spare in
            defer { spare.encoder = nil }
            return Spare(encoder: spare.encoder)
        }.encoder ?? JSONBytesEncoder()
    }

    /// Keeps a finished encoder for reuse. An encoder that a value has retained, or that did not finish, is not kept.
    static func reuse(_ encoder: consuming JSONBytesEncoder) {
        guard encoder.isClean, encoder.writer.capacity <= Self.largestSpare, isKnownUniquelyReferenced(&encoder) else {
            return
        }
        encoder.writer.truncate(to: 0)
        // Swapped, so that the previous spare is released outside the lock.
        var spare = Spare(encoder: encoder)
        Self.spare.withLock { swap(&$0, &spare) }
    }

    private var isClean: Bool {
        self.frames.isEmpty && self.openValues.isEmpty && self.keys.isEmpty && self.nesting == 0 && !self.detour
            && !self.isVoid
    }

    /// Encodes one value.
    package static func encode(_ value: some Encodable) throws(ValidationError) -> [UInt8] {
        let encoder = JSONBytesEncoder()
        try encoder.lone(value, field: "value")
        return encoder.writer.bytes()
    }

    /// Appends one value to the writer's text, outside any object of this encoder.
    func lone(_ value: some Encodable, field: String) throws(ValidationError) {
        try self.value(value, field: field)
    }

    // MARK: - The root object

    /// Continues an object whose opening brace and first members are already in the writer. `firstKey` is the key of a
    /// member among them, without characters that need an escape; it counts as used.
    func continueRoot(after firstKey: StaticString?) {
        self.frames.append(Frame(serial: 0, isKeyed: true, firstKey: 0))
        if let firstKey {
            self.frames[0].count = 1
            // Skip the opening brace. The key is in quotes.
            self.keys.append(KeyRange(start: 1, count: firstKey.utf8CodeUnitCount + 2))
        }
    }

    func closeRoot() {
        while !self.frames.isEmpty { self.closeLast() }
    }

    /// Adds the members of a value that encodes as an object to the root object.
    func merge(_ value: some Encodable) throws(ValidationError) {
        let mark = self.mark()
        self.openValues.append(OpenValue(serial: self.serial(), base: 0, state: .merged))
        do {
            try self.forward(value)
            if !self.detour, !self.isVoid {
                self.openValues.removeLast()
                while self.frames.count > 1 { self.closeLast() }
                return
            }
        } catch {}
        try self.merge(encoded: self.slowly(value, field: "custom", from: mark))
    }

    /// Adds one member to the root object.
    func member(_ key: String, _ value: some Encodable) throws(ValidationError) {
        try self.rootKey(key)
        try self.value(value, field: key)
    }

    /// Adds the members of an object in JSON form to the root object.
    func merge(encoded json: [UInt8]) throws(ValidationError) {
        guard let members = JSONParser.members(json) else {
            throw ValidationError(code: .customNotAnObject, field: "custom")
        }
        for member in members { try self.member(member.key, encoded: json[member.value]) }
    }

    /// Adds one member with a value in JSON form to the root object.
    func member(_ key: String, encoded json: some Collection<UInt8>) throws(ValidationError) {
        try self.rootKey(key)
        self.writer.append(json)
    }

    private func rootKey(_ key: String) throws(ValidationError) {
        let start = self.writer.count
        guard self.beginKey(key, scanLimit: .max) else {
            self.writer.truncate(to: start)
            throw ValidationError(
                code: key == "aps" ? .customKeyReserved : .customKeyDuplicate,
                field: ValidationError.shortened(key)
            )
        }
    }

    private func value(_ value: some Encodable, field: String) throws(ValidationError) {
        let mark = self.mark()
        do {
            try self.write(value)
            if !self.detour, !self.isVoid { return }
        } catch {}
        self.writer.append(try self.slowly(value, field: field, from: mark))
    }

    /// Discards the output of a value and encodes it with Foundation's encoder.
    private func slowly(_ value: some Encodable, field: String, from mark: Mark) throws(ValidationError) -> [UInt8] {
        let refusal = self.refusal
        self.reset(to: mark)
        if let refusal { throw ValidationError(code: refusal.code, field: field, value: refusal.problem) }
        let encoder = JSONEncoder()
        // Without sorting, the order of keys would differ between processes.
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        let json = try EncodedCustom(value, field: field, encoder).json.get()
        // Foundation's encoder writes a `Decimal` that is not a number as `NaN`.
        guard JSONParser.isDocument(json) else {
            throw ValidationError(code: .notEncodable, field: field, value: "nested too deeply, or not JSON")
        }
        return json
    }

    // MARK: - Discarding output

    private struct Mark {
        var bytes: Int
        var keys: Int
        var frames: Int
        var openValues: Int
        var count: Int
    }

    private func mark() -> Mark {
        Mark(
            bytes: self.writer.count,
            keys: self.keys.count,
            frames: self.frames.count,
            openValues: self.openValues.count,
            count: self.frames.last?.count ?? 0
        )
    }

    private func reset(to mark: Mark) {
        self.writer.truncate(to: mark.bytes)
        self.keys.removeSubrange(mark.keys...)
        self.frames.removeSubrange(mark.frames...)
        self.openValues.removeSubrange(mark.openValues...)
        if !self.frames.isEmpty {
            self.frames[self.frames.count - 1].count = mark.count
        }
        self.nesting = 0
        self.detour = false
        self.isVoid = false
        self.refusal = nil
    }

    // MARK: - Values

    /// Leaves the fast path. All output of this value since its mark is discarded.
    func leave() -> Detour {
        self.detour = true
        return Detour()
    }

    /// Encodes the value again once the fast path has finished with it.
    func makeVoid() {
        self.isVoid = true
    }

    /// Leaves the fast path with an error.
    private func refuse(_ code: ValidationError.Code, _ problem: String) -> Detour {
        if !self.detour { self.refusal = Refusal(code: code, problem: problem) }
        return self.leave()
    }

    /// Reports a value that encodes a second container or scalar in its place, or no object where the root object is
    /// required.
    private func refuseSecondKind(_ state: OpenValue.State) -> Detour {
        if state == .merged { return self.refuse(.customNotAnObject, "not an object") }
        return self.refuse(.notEncodable, "two kinds of value in one place")
    }

    private func serial() -> Int {
        self.serials &+= 1
        return self.serials
    }

    /// Writes a value at the end of the text, after its key or comma.
    func write<T: Encodable>(_ value: T) throws {
        if try self.scalar(value) { return }
        let openValue = OpenValue(serial: self.serial(), base: self.frames.count, state: .empty)
        self.openValues.append(openValue)
        try self.forward(value)
        guard !self.detour, let last = self.openValues.last, last.serial == openValue.serial else { throw self.leave() }
        if last.state == .empty {
            // `JSONEncoder` does this for a nested value that encodes nothing.
            self.writer.literal("{}")
        }
        while self.frames.count > openValue.base { self.closeLast() }
        self.openValues.removeLast()
    }

    @inline(__always)
    private func scalar<T: Encodable>(_ value: T) throws -> Bool {
        do {
            return try JSONScalars.write(value, to: &self.writer)
        } catch {
            throw self.refuse(.notEncodable, "not a finite number")
        }
    }

    /// Calls the `encode(to:)` of a value, which writes into the last open value.
    private func forward(_ value: some Encodable) throws {
        guard let openValue = self.openValues.last else { throw self.leave() }
        guard self.nesting < Self.maximumDepth else { throw self.refuse(.notEncodable, "nested too deeply") }
        self.nesting &+= 1
        do {
            try value.encode(to: JSONValueEncoder(storage: self, serial: openValue.serial))
        } catch {
            // The enclosing value may swallow the error, and its key is in the text already.
            throw self.leave()
        }
        self.nesting &-= 1
    }

    /// Encodes a value in place of the open value that contains it.
    func replace<T: Encodable>(of serial: Int, with value: T) throws {
        guard self.isLast(of: serial) else { throw self.leave() }
        if JSONScalars.covers(T.self) {
            try self.scalar(of: serial)
            guard try self.scalar(value) else { throw self.leave() }
        } else {
            try self.forward(value)
        }
    }

    /// Marks the open value as a scalar, which the caller writes next.
    func scalar(of serial: Int) throws {
        guard self.isLast(of: serial) else { throw self.leave() }
        let state = self.openValues[self.openValues.count - 1].state
        guard state == .empty else { throw self.refuseSecondKind(state) }
        self.openValues[self.openValues.count - 1].state = .scalar
    }

    private func isLast(of serial: Int) -> Bool {
        !self.detour && self.openValues.last?.serial == serial
    }

    // MARK: - Containers

    /// The container of an open value. A second request returns the first container again.
    func container(of serial: Int, isKeyed: Bool) -> Place {
        guard self.isLast(of: serial) else { return self.nowhere() }
        let openValue = self.openValues[self.openValues.count - 1]
        switch openValue.state {
        case .empty:
            self.openValues[self.openValues.count - 1].state = .container
            return self.open(isKeyed: isKeyed)
        case .container, .merged:
            guard openValue.base < self.frames.count else { return self.nowhere() }
            guard self.frames[openValue.base].isKeyed == isKeyed else {
                _ = self.refuseSecondKind(openValue.state)
                return self.nowhere()
            }
            return Place(depth: openValue.base, serial: self.frames[openValue.base].serial)
        case .scalar:
            _ = self.refuseSecondKind(openValue.state)
            return self.nowhere()
        }
    }

    private func nowhere() -> Place {
        self.detour = true
        return Place(depth: .max, serial: -1)
    }

    func open(isKeyed: Bool) -> Place {
        guard self.frames.count < Self.maximumDepth else {
            _ = self.refuse(.notEncodable, "nested too deeply")
            return self.nowhere()
        }
        self.writer.byte(isKeyed ? JSONByte.openObject : JSONByte.openArray)
        let frame = Frame(serial: self.serial(), isKeyed: isKeyed, firstKey: self.keys.count)
        self.frames.append(frame)
        return Place(depth: self.frames.count &- 1, serial: frame.serial)
    }

    private func closeLast() {
        guard let frame = self.frames.popLast() else { return }
        self.writer.byte(frame.isKeyed ? JSONByte.closeObject : JSONByte.closeArray)
        if self.keys.count > frame.firstKey {
            self.keys.removeSubrange(frame.firstKey...)
        }
    }

    /// Makes a container the last one by closing the containers started inside it. Returns false if it is itself
    /// closed.
    private func reach(_ place: Place) -> Bool {
        guard !self.detour, place.depth < self.frames.count, self.frames[place.depth].serial == place.serial,
            let openValue = self.openValues.last, place.depth >= openValue.base
        else {
            self.detour = true
            return false
        }
        while self.frames.count > place.depth &+ 1 { self.closeLast() }
        return true
    }

    func beginMember(_ place: Place, _ key: String) -> Bool {
        guard self.reach(place) else { return false }
        if !self.beginKey(key, scanLimit: Self.maximumScannedKeys) {
            self.makeVoid()
            self.frames[self.frames.count &- 1].count &+= 1
            self.writer.byte(JSONByte.colon)
        }
        return true
    }

    func beginElement(_ place: Place) -> Bool {
        guard self.reach(place) else { return false }
        let last = self.frames.count &- 1
        if self.frames[last].count > 0 {
            self.writer.byte(JSONByte.comma)
        }
        self.frames[last].count &+= 1
        return true
    }

    /// The number of elements in a container, which may have been closed since.
    func count(_ place: Place) -> Int {
        guard place.depth < self.frames.count, self.frames[place.depth].serial == place.serial else {
            self.detour = true
            return 0
        }
        return self.frames[place.depth].count
    }

    /// Writes comma, key and colon in the last frame. Returns false if the key exists already.
    private func beginKey(_ key: String, scanLimit: Int) -> Bool {
        let last = self.frames.count &- 1
        let firstKey = self.frames[last].firstKey
        if self.frames[last].count > 0 {
            self.writer.byte(JSONByte.comma)
        }
        let start = self.writer.count
        self.writer.string(key)
        let range = KeyRange(start: start, count: self.writer.count &- start)
        guard self.keys.count &- firstKey < scanLimit, !self.isKnown(range, from: firstKey) else { return false }
        self.keys.append(range)
        self.frames[last].count &+= 1
        self.writer.byte(JSONByte.colon)
        return true
    }

    private func isKnown(_ range: KeyRange, from firstKey: Int) -> Bool {
        var index = firstKey
        while index < self.keys.count {
            let other = self.keys[index]
            if other.count == range.count {
                if self.writer.isRepeated(other.start, at: range.start, count: range.count) { return true }
            }
            index &+= 1
        }
        return false
    }
}
