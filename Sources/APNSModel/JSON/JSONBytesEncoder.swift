import Synchronization

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// Writes any `Encodable` straight to JSON bytes, with the results of Foundation's `JSONEncoder` (default strategies,
/// without escaped slashes) at a fraction of its cost. Keys come in the order in which they were encoded.
///
/// Values are appended while they are being encoded, so the order of calls must be the order of the text. Nearly every
/// `encode(to:)` does it that way. What does not (a container written to after its sibling was begun, `superEncoder()`,
/// a key set twice, a swallowed error, a look at `codingPath`) is noticed; that one value is then taken back and
/// encoded anew by Foundation's `JSONEncoder`, with its keys sorted.
final class JSONBytesEncoder {
    /// Nesting of values beyond which encoding fails, before the stack does.
    static let maximumDepth = 128
    /// Keys of one object beyond which the search for repeated ones is left to Foundation and its dictionary.
    static let maximumScannedKeys = 256

    /// Thrown to leave a value that needs Foundation's encoder. `detour` is what counts, since the value may swallow this.
    struct Detour: Error {}

    /// Why a value cannot be encoded at all. Foundation's encoder would end the process over it.
    private struct Refusal {
        var code: ValidationError.Code
        var problem: String
    }

    /// A container that is open in the text. Frames nest; only the last one can be written to.
    private struct Frame {
        var serial: Int
        var isKeyed: Bool
        var count = 0
        /// Where its keys begin in `keys`.
        var firstKey: Int
    }

    /// A value being encoded; what its `Encoder` refers to. They nest as the calls of `encode(to:)` do.
    private struct OpenValue {
        enum State {
            case empty
            case scalar
            case container
            /// Its members go into the root object.
            case merged
        }

        var serial: Int
        /// The number of frames when it began. Its own container, if any, is the frame at this depth.
        var base: Int
        var state: State
    }

    /// Names a container; stale once its frame has been closed.
    struct Place {
        var depth: Int
        var serial: Int
    }

    private struct KeyRange {
        var start: Int
        var count: Int
    }

    // Never open for writing while code that could come back here runs, so the run-time check proves nothing.
    @exclusivity(unchecked) var writer: JSONByteWriter
    @exclusivity(unchecked) private(set) var detour = false
    /// The value must be encoded anew, but goes on to its end first. That shows whether it nests too deeply, which
    /// Foundation's encoder does not notice before the stack ends.
    @exclusivity(unchecked) private var isVoid = false
    @exclusivity(unchecked) private var refusal: Refusal?
    @exclusivity(unchecked) private var frames: [Frame] = []
    @exclusivity(unchecked) private var openValues: [OpenValue] = []
    @exclusivity(unchecked) private var keys: [KeyRange] = []
    @exclusivity(unchecked) private var serials = 0
    @exclusivity(unchecked) private var nesting = 0

    init(writer: consuming JSONByteWriter) {
        self.writer = writer
    }

    // MARK: - One after another

    /// An encoder that has done its work, if there is one.
    ///
    /// Unchecked: it holds the only reference to its encoder (`reuse` sees to that), and whoever takes it out has it alone.
    private struct Spare: @unchecked Sendable {
        var encoder: JSONBytesEncoder?
    }

    private static let spare = Mutex(Spare())
    /// One that has grown by a large payload is not kept.
    private static let largestSpare = 16 * 1024

    /// An encoder for what the writer holds. It and its arrays are half of what encoding a small payload allocates: one
    /// goes from payload to payload.
    static func reused(writer: consuming JSONByteWriter) -> JSONBytesEncoder {
        guard
            let encoder = Self.spare.withLock({ spare in
                defer { spare.encoder = nil }
                return Spare(encoder: spare.encoder)
            }).encoder
        else { return JSONBytesEncoder(writer: writer) }
        encoder.writer = writer
        return encoder
    }

    /// The work is done. An encoder that a value has kept, or that could not end its work, is left to it.
    static func reuse(_ encoder: consuming JSONBytesEncoder) {
        guard encoder.isClean, encoder.writer.count <= Self.largestSpare, isKnownUniquelyReferenced(&encoder) else {
            return
        }
        let spare = Spare(encoder: encoder)
        Self.spare.withLock { $0 = spare }
    }

    private var isClean: Bool {
        self.frames.isEmpty && self.openValues.isEmpty && self.keys.isEmpty && self.nesting == 0 && !self.detour
            && !self.isVoid
    }

    /// Appends one value to what the writer holds, outside of any object of this encoder's.
    func lone(_ value: some Encodable, field: String) throws(ValidationError) {
        try self.value(value, field: field)
    }

    // MARK: - The root object

    /// Goes on with an object whose opening brace and first members stand in the writer. `firstKey` is the key of a
    /// member there, without characters that need an escape; it counts as taken.
    func continueRoot(after firstKey: StaticString?) {
        self.frames.append(Frame(serial: 0, isKeyed: true, firstKey: 0))
        if let firstKey {
            self.frames[0].count = 1
            // The opening brace, then the key in quotes.
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

    /// Adds the members of an object that is JSON already to the root object.
    func merge(encoded json: [UInt8]) throws(ValidationError) {
        guard let members = JSONParser.members(json) else {
            throw ValidationError(code: .customNotAnObject, field: "custom")
        }
        for member in members { try self.member(member.key, encoded: json[member.value]) }
    }

    /// Adds one member to the root object, its value as JSON.
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

    /// Takes back what was written of a value, and encodes it by Foundation's encoder.
    private func slowly(_ value: some Encodable, field: String, from mark: Mark) throws(ValidationError) -> [UInt8] {
        let refusal = self.refusal
        self.reset(to: mark)
        if let refusal { throw ValidationError(code: refusal.code, field: field, value: refusal.problem) }
        let encoder = JSONEncoder()
        // Without an order of its own it has another one in each process.
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        let json = try EncodedCustom(value, field: field, encoder).json.get()
        // It writes a `Decimal` that is no number as `NaN`.
        guard JSONParser.isDocument(json) else {
            throw ValidationError(code: .notEncodable, field: field, value: "nested too deeply, or not JSON")
        }
        return json
    }

    // MARK: - Taking back

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

    /// Leaves the direct way. Everything written for this value since its mark is void.
    func leave() -> Detour {
        self.detour = true
        return Detour()
    }

    /// Has the value encoded anew after it has come to its end on the direct way.
    func makeVoid() {
        self.isVoid = true
    }

    /// Leaves the direct way for an error.
    private func refuse(_ code: ValidationError.Code, _ problem: String) -> Detour {
        if !self.detour { self.refusal = Refusal(code: code, problem: problem) }
        return self.leave()
    }

    /// A value that puts a second container or scalar in its place, or no object where the root object is.
    private func refuseSecondKind(_ state: OpenValue.State) -> Detour {
        if state == .merged { return self.refuse(.customNotAnObject, "not an object") }
        return self.refuse(.notEncodable, "two kinds of value in one place")
    }

    private func serial() -> Int {
        self.serials &+= 1
        return self.serials
    }

    /// Writes a value where the text now ends, behind its key or comma.
    func write<T: Encodable>(_ value: T) throws {
        if try self.scalar(value) { return }
        let openValue = OpenValue(serial: self.serial(), base: self.frames.count, state: .empty)
        self.openValues.append(openValue)
        try self.forward(value)
        guard !self.detour, let last = self.openValues.last, last.serial == openValue.serial else { throw self.leave() }
        if last.state == .empty {
            // As JSONEncoder does for a nested value that encodes nothing.
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

    /// Lets a value encode itself into the last open value.
    private func forward(_ value: some Encodable) throws {
        guard let openValue = self.openValues.last else { throw self.leave() }
        guard self.nesting < Self.maximumDepth else { throw self.refuse(.notEncodable, "nested too deeply") }
        self.nesting &+= 1
        do {
            try value.encode(to: JSONValueEncoder(storage: self, serial: openValue.serial))
        } catch {
            // The value around it may swallow the error, and its key is in the text already.
            throw self.leave()
        }
        self.nesting &-= 1
    }

    /// A value that an open value's value puts in its own place.
    func replace<T: Encodable>(of serial: Int, with value: T) throws {
        guard self.isLast(of: serial) else { throw self.leave() }
        if JSONScalars.covers(T.self) {
            try self.scalar(of: serial)
            guard try self.scalar(value) else { throw self.leave() }
        } else {
            try self.forward(value)
        }
    }

    /// The open value's value is a scalar, which the caller writes next.
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

    /// The container of an open value's value; asked for twice, it is the same one.
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

    /// Makes a container the last one by closing those begun inside it; false if it is closed itself.
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

    /// How many elements a container has; it may have been closed in between.
    func count(_ place: Place) -> Int {
        guard place.depth < self.frames.count, self.frames[place.depth].serial == place.serial else {
            self.detour = true
            return 0
        }
        return self.frames[place.depth].count
    }

    /// Writes comma, key and colon in the last frame; false if the key is there already.
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
