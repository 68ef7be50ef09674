/// Encodes a value through a tree of nodes: slower than `JSONBytesEncoder`, but containers may be written to in any
/// order and at any time. It tracks the coding path, so the errors come from here.
struct JSONTreeEncoder: Encoder {
    /// What all encoders of one value share.
    final class Context {
        /// A fault in a call that cannot throw, such as an array begun where an object stands.
        fileprivate(set) var failure: EncodingError?

        fileprivate func conflict(_ path: [any CodingKey]) -> EncodingError {
            let error = EncodingError.invalidValue(
                "container",
                EncodingError.Context(codingPath: path, debugDescription: "two kinds of value in one place")
            )
            failure = failure ?? error
            return error
        }
    }

    fileprivate let node: JSONNode
    fileprivate let context: Context
    let codingPath: [any CodingKey]
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    /// An encoder whose output nobody reads.
    static var unheard: JSONTreeEncoder {
        JSONTreeEncoder(node: JSONNode(), context: Context(), codingPath: [])
    }

    /// The tree of a value. `field` names the value in errors.
    static func node(_ value: some Encodable, field: String) throws(ValidationError) -> JSONNode {
        let context = Context()
        let node = JSONNode()
        do {
            try JSONTreeEncoder(node: node, context: context, codingPath: []).place(value)
            if let failure = context.failure { throw failure }
            return node
        } catch let error as EncodingError {
            throw validationError(error, field)
        } catch let error as ValidationError {
            throw error
        } catch {
            throw ValidationError(code: .notEncodable, field: field, value: ValidationError.shortened("\(error)"))
        }
    }

    private static func validationError(_ error: EncodingError, _ field: String) -> ValidationError {
        guard case .invalidValue(let value, let context) = error else {
            return ValidationError(code: .notEncodable, field: field)
        }
        let path = ([field] + context.codingPath.map(\.stringValue)).joined(separator: ".")
        return ValidationError(code: .notEncodable, field: path, value: ValidationError.shortened("\(value)"))
    }

    /// Puts a value into this encoder's node.
    fileprivate func place<T: Encodable>(_ value: T) throws {
        var writer = JSONByteWriter()
        do {
            if try JSONScalars.write(value, to: &writer) {
                return try scalar(writer.bytes())
            }
        } catch is EncodingError {
            throw JSONScalars.notFinite(value, codingPath)
        }
        guard codingPath.count < JSONBytesEncoder.maximumDepth, node.enter() else {
            throw EncodingError.invalidValue(
                T.self,
                EncodingError.Context(codingPath: Array(codingPath.prefix(4)), debugDescription: "nested too deeply")
            )
        }
        defer { node.exit() }
        try value.encode(to: self)
    }

    fileprivate func scalar(_ bytes: [UInt8]) throws {
        guard node.become(.scalar(bytes)) else { throw context.conflict(codingPath) }
    }

    fileprivate func child(_ node: JSONNode, _ key: any CodingKey) -> JSONTreeEncoder {
        JSONTreeEncoder(node: node, context: context, codingPath: codingPath + [key])
    }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        KeyedEncodingContainer(JSONTreeKeyedContainer<Key>(encoder: object()))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer {
        JSONTreeUnkeyedContainer(encoder: array())
    }

    func singleValueContainer() -> any SingleValueEncodingContainer {
        JSONTreeSingleContainer(encoder: self)
    }

    /// Self, its node made an object. If it is something else already, an encoder that nobody reads.
    fileprivate func object() -> JSONTreeEncoder {
        if node.isObject || node.become(.object([:], [])) { return self }
        _ = context.conflict(codingPath)
        return JSONTreeEncoder(node: JSONNode(.object([:], [])), context: context, codingPath: codingPath)
    }

    fileprivate func array() -> JSONTreeEncoder {
        if node.isArray || node.become(.array([])) { return self }
        _ = context.conflict(codingPath)
        return JSONTreeEncoder(node: JSONNode(.array([])), context: context, codingPath: codingPath)
    }
}

/// One place in the tree. A class, since several containers may refer to the same place.
final class JSONNode {
    fileprivate enum Content {
        case empty
        case scalar([UInt8])
        case array([JSONNode])
        /// Where each key stands, and the members in order of their first appearance.
        case object([String: Int], [(String, JSONNode)])
    }

    private var content: Content
    private var nesting = 0

    fileprivate init(_ content: Content = .empty) {
        self.content = content
    }

    /// The members if this is an object; a value that encoded nothing counts as `{}`, as in JSONEncoder.
    var members: [(String, JSONNode)]? {
        switch content {
        case .object(_, let members): members
        case .empty: []
        case .scalar, .array: nil
        }
    }

    fileprivate var isObject: Bool {
        if case .object = content { true } else { false }
    }

    fileprivate var isArray: Bool {
        if case .array = content { true } else { false }
    }

    /// Counts values that put others in their own place, which the coding path does not show.
    fileprivate func enter() -> Bool {
        nesting += 1
        return nesting < JSONBytesEncoder.maximumDepth
    }

    fileprivate func exit() {
        nesting -= 1
    }

    fileprivate func become(_ new: Content) -> Bool {
        guard case .empty = content else { return false }
        content = new
        return true
    }

    fileprivate var elementCount: Int {
        if case .array(let nodes) = content { nodes.count } else { 0 }
    }

    fileprivate func append(_ node: JSONNode) {
        guard case .array(var nodes) = content else { return }
        content = .empty
        nodes.append(node)
        content = .array(nodes)
    }

    fileprivate subscript(key: String) -> JSONNode? {
        if case .object(let index, let members) = content, let position = index[key] {
            members[position].1
        } else {
            nil
        }
    }

    fileprivate func set(_ key: String, _ node: JSONNode) {
        guard case .object(var index, var members) = content else { return }
        content = .empty
        if let position = index[key] {
            members[position].1 = node
        } else {
            index[key] = members.count
            members.append((key, node))
        }
        content = .object(index, members)
    }

    func write(to writer: inout JSONByteWriter) {
        switch content {
        case .empty: writer.literal("{}")
        case .scalar(let bytes): writer.append(bytes)
        case .array(let nodes):
            writer.byte(JSONByte.openArray)
            for (index, node) in nodes.enumerated() {
                if index > 0 { writer.byte(JSONByte.comma) }
                node.write(to: &writer)
            }
            writer.byte(JSONByte.closeArray)
        case .object(_, let members):
            writer.byte(JSONByte.openObject)
            for (index, member) in members.enumerated() {
                if index > 0 { writer.byte(JSONByte.comma) }
                writer.string(member.0)
                writer.byte(JSONByte.colon)
                member.1.write(to: &writer)
            }
            writer.byte(JSONByte.closeObject)
        }
    }
}

/// A key for places that have none of their own.
private struct PlainKey: CodingKey {
    let stringValue: String
    let intValue: Int?

    init(stringValue: String) {
        self.stringValue = stringValue
        intValue = nil
    }

    init(intValue: Int) {
        stringValue = "\(intValue)"
        self.intValue = intValue
    }
}

/// The numbers, texts and nothing that all three containers take. Each goes through one function of bytes.
private protocol ScalarSink {
    associatedtype Position
    var path: [any CodingKey] { get }
    func put(_ position: Position, _ write: (inout JSONByteWriter) -> Bool) throws
}

extension ScalarSink {
    func null(_ p: Position) throws {
        try put(p) {
            $0.null()
            return true
        }
    }

    func bool(_ p: Position, _ value: Bool) throws {
        try put(p) {
            $0.bool(value)
            return true
        }
    }

    func text(_ p: Position, _ value: String) throws {
        try put(p) {
            $0.string(value)
            return true
        }
    }

    func signed(_ p: Position, _ value: some SignedInteger) throws {
        try put(p) {
            $0.integer(Int64(value))
            return true
        }
    }

    func unsigned(_ p: Position, _ value: some UnsignedInteger) throws {
        try put(p) {
            $0.unsigned(UInt64(value))
            return true
        }
    }

    func double(_ p: Position, _ value: Double) throws {
        try put(p) { $0.double(value) }
    }

    func float(_ p: Position, _ value: Float) throws {
        try put(p) { $0.float(value) }
    }

    func bytes(_ write: (inout JSONByteWriter) -> Bool) throws -> [UInt8] {
        var writer = JSONByteWriter()
        guard write(&writer) else { throw JSONScalars.notFinite("a number that is not finite", path) }
        return writer.bytes()
    }
}

private struct JSONTreeKeyedContainer<Key: CodingKey>: KeyedEncodingContainerProtocol, ScalarSink {
    let encoder: JSONTreeEncoder
    var codingPath: [any CodingKey] { encoder.codingPath }
    var path: [any CodingKey] { encoder.codingPath }

    func put(_ key: Key, _ write: (inout JSONByteWriter) -> Bool) throws {
        var writer = JSONByteWriter()
        guard write(&writer) else { throw JSONScalars.notFinite("not a finite number", path + [key]) }
        encoder.node.set(key.stringValue, JSONNode(.scalar(writer.bytes())))
    }

    func encodeNil(forKey key: Key) throws { try null(key) }
    func encode(_ value: Bool, forKey key: Key) throws { try bool(key, value) }
    func encode(_ value: String, forKey key: Key) throws { try text(key, value) }
    func encode(_ value: Double, forKey key: Key) throws { try double(key, value) }
    func encode(_ value: Float, forKey key: Key) throws { try float(key, value) }
    func encode(_ value: Int, forKey key: Key) throws { try signed(key, value) }
    func encode(_ value: Int8, forKey key: Key) throws { try signed(key, value) }
    func encode(_ value: Int16, forKey key: Key) throws { try signed(key, value) }
    func encode(_ value: Int32, forKey key: Key) throws { try signed(key, value) }
    func encode(_ value: Int64, forKey key: Key) throws { try signed(key, value) }
    func encode(_ value: UInt, forKey key: Key) throws { try unsigned(key, value) }
    func encode(_ value: UInt8, forKey key: Key) throws { try unsigned(key, value) }
    func encode(_ value: UInt16, forKey key: Key) throws { try unsigned(key, value) }
    func encode(_ value: UInt32, forKey key: Key) throws { try unsigned(key, value) }
    func encode(_ value: UInt64, forKey key: Key) throws { try unsigned(key, value) }

    func encode<T: Encodable>(_ value: T, forKey key: Key) throws {
        // In place only once it is complete: a value that throws leaves no key behind.
        let node = JSONNode()
        try encoder.child(node, key).place(value)
        encoder.node.set(key.stringValue, node)
    }

    func nestedContainer<Nested: CodingKey>(
        keyedBy keyType: Nested.Type,
        forKey key: Key
    ) -> KeyedEncodingContainer<Nested> {
        nested(key).container(keyedBy: keyType)
    }

    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
        nested(key).unkeyedContainer()
    }

    func superEncoder() -> any Encoder { nested(PlainKey(stringValue: "super")) }
    func superEncoder(forKey key: Key) -> any Encoder { nested(key) }

    /// The place of a key; asked for twice, it is the same one.
    private func nested(_ key: any CodingKey) -> JSONTreeEncoder {
        let node = encoder.node[key.stringValue] ?? JSONNode()
        encoder.node.set(key.stringValue, node)
        return encoder.child(node, key)
    }
}

private struct JSONTreeUnkeyedContainer: UnkeyedEncodingContainer, ScalarSink {
    let encoder: JSONTreeEncoder
    var codingPath: [any CodingKey] { encoder.codingPath }
    var path: [any CodingKey] { encoder.codingPath + [PlainKey(intValue: count)] }
    var count: Int { encoder.node.elementCount }

    func put(_: Void, _ write: (inout JSONByteWriter) -> Bool) throws {
        encoder.node.append(JSONNode(.scalar(try bytes(write))))
    }

    func encodeNil() throws { try null(()) }
    func encode(_ value: Bool) throws { try bool((), value) }
    func encode(_ value: String) throws { try text((), value) }
    func encode(_ value: Double) throws { try double((), value) }
    func encode(_ value: Float) throws { try float((), value) }
    func encode(_ value: Int) throws { try signed((), value) }
    func encode(_ value: Int8) throws { try signed((), value) }
    func encode(_ value: Int16) throws { try signed((), value) }
    func encode(_ value: Int32) throws { try signed((), value) }
    func encode(_ value: Int64) throws { try signed((), value) }
    func encode(_ value: UInt) throws { try unsigned((), value) }
    func encode(_ value: UInt8) throws { try unsigned((), value) }
    func encode(_ value: UInt16) throws { try unsigned((), value) }
    func encode(_ value: UInt32) throws { try unsigned((), value) }
    func encode(_ value: UInt64) throws { try unsigned((), value) }

    func encode<T: Encodable>(_ value: T) throws {
        let node = JSONNode()
        try encoder.child(node, PlainKey(intValue: count)).place(value)
        encoder.node.append(node)
    }

    func nestedContainer<Nested: CodingKey>(keyedBy keyType: Nested.Type) -> KeyedEncodingContainer<Nested> {
        nested().container(keyedBy: keyType)
    }

    func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { nested().unkeyedContainer() }
    func superEncoder() -> any Encoder { nested() }

    private func nested() -> JSONTreeEncoder {
        let node = JSONNode()
        let child = encoder.child(node, PlainKey(intValue: count))
        encoder.node.append(node)
        return child
    }
}

private struct JSONTreeSingleContainer: SingleValueEncodingContainer, ScalarSink {
    let encoder: JSONTreeEncoder
    var codingPath: [any CodingKey] { encoder.codingPath }
    var path: [any CodingKey] { encoder.codingPath }

    func put(_: Void, _ write: (inout JSONByteWriter) -> Bool) throws {
        try encoder.scalar(try bytes(write))
    }

    func encodeNil() throws { try null(()) }
    func encode(_ value: Bool) throws { try bool((), value) }
    func encode(_ value: String) throws { try text((), value) }
    func encode(_ value: Double) throws { try double((), value) }
    func encode(_ value: Float) throws { try float((), value) }
    func encode(_ value: Int) throws { try signed((), value) }
    func encode(_ value: Int8) throws { try signed((), value) }
    func encode(_ value: Int16) throws { try signed((), value) }
    func encode(_ value: Int32) throws { try signed((), value) }
    func encode(_ value: Int64) throws { try signed((), value) }
    func encode(_ value: UInt) throws { try unsigned((), value) }
    func encode(_ value: UInt8) throws { try unsigned((), value) }
    func encode(_ value: UInt16) throws { try unsigned((), value) }
    func encode(_ value: UInt32) throws { try unsigned((), value) }
    func encode(_ value: UInt64) throws { try unsigned((), value) }
    func encode<T: Encodable>(_ value: T) throws { try encoder.place(value) }
}
