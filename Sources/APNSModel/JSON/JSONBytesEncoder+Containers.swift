/// The `Encoder` of one value: three words, so that it needs no box of its own.
struct JSONSlotEncoder: Encoder {
    let storage: JSONBytesEncoder
    let serial: Int

    var codingPath: [any CodingKey] { storage.untrackedPath }
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        KeyedEncodingContainer(
            JSONKeyedContainer(storage: storage, place: storage.container(slot: serial, isKeyed: true))
        )
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer {
        JSONUnkeyedContainer(storage: storage, place: storage.container(slot: serial, isKeyed: false))
    }

    func singleValueContainer() -> any SingleValueEncodingContainer {
        JSONSingleContainer(storage: storage, serial: serial)
    }
}

extension JSONBytesEncoder {
    /// The path is not tracked on the direct way; whoever asks gets it from Foundation's encoder.
    var untrackedPath: [any CodingKey] {
        makeVoid()
        return []
    }

    /// An encoder that may be written to at any later time, which only Foundation can serve. Nobody reads this one.
    func superEncoder() -> any Encoder {
        _ = leave()
        return JSONSlotEncoder(storage: self, serial: -1)
    }

    fileprivate func double(_ value: Double) {
        if !writer.double(value) { notFinite() }
    }

    fileprivate func float(_ value: Float) {
        if !writer.float(value) { notFinite() }
    }

    /// Foundation's encoder throws the error, which names the path.
    private func notFinite() {
        makeVoid()
        writer.null()
    }
}

private struct JSONKeyedContainer<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let storage: JSONBytesEncoder
    let place: JSONBytesEncoder.Place

    var codingPath: [any CodingKey] { storage.untrackedPath }

    @inline(__always)
    private func begin(_ key: Key) throws -> JSONBytesEncoder {
        guard storage.beginMember(place, key.stringValue) else { throw JSONBytesEncoder.Detour() }
        return storage
    }

    func encodeNil(forKey key: Key) throws { try begin(key).writer.null() }
    func encode(_ value: Bool, forKey key: Key) throws { try begin(key).writer.bool(value) }
    func encode(_ value: String, forKey key: Key) throws { try begin(key).writer.string(value) }
    func encode(_ value: Double, forKey key: Key) throws { try begin(key).double(value) }
    func encode(_ value: Float, forKey key: Key) throws { try begin(key).float(value) }
    func encode(_ value: Int, forKey key: Key) throws { try begin(key).writer.integer(Int64(value)) }
    func encode(_ value: Int8, forKey key: Key) throws { try begin(key).writer.integer(Int64(value)) }
    func encode(_ value: Int16, forKey key: Key) throws { try begin(key).writer.integer(Int64(value)) }
    func encode(_ value: Int32, forKey key: Key) throws { try begin(key).writer.integer(Int64(value)) }
    func encode(_ value: Int64, forKey key: Key) throws { try begin(key).writer.integer(value) }
    func encode(_ value: UInt, forKey key: Key) throws { try begin(key).writer.unsigned(UInt64(value)) }
    func encode(_ value: UInt8, forKey key: Key) throws { try begin(key).writer.unsigned(UInt64(value)) }
    func encode(_ value: UInt16, forKey key: Key) throws { try begin(key).writer.unsigned(UInt64(value)) }
    func encode(_ value: UInt32, forKey key: Key) throws { try begin(key).writer.unsigned(UInt64(value)) }
    func encode(_ value: UInt64, forKey key: Key) throws { try begin(key).writer.unsigned(value) }
    func encode<T: Encodable>(_ value: T, forKey key: Key) throws { try begin(key).write(value) }

    func nestedContainer<Nested: CodingKey>(
        keyedBy keyType: Nested.Type,
        forKey key: Key
    ) -> KeyedEncodingContainer<Nested> {
        KeyedEncodingContainer(JSONKeyedContainer<Nested>(storage: storage, place: nested(key, isKeyed: true)))
    }

    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
        JSONUnkeyedContainer(storage: storage, place: nested(key, isKeyed: false))
    }

    private func nested(_ key: Key, isKeyed: Bool) -> JSONBytesEncoder.Place {
        storage.beginMember(place, key.stringValue) ? storage.open(isKeyed: isKeyed) : place
    }

    func superEncoder() -> any Encoder { storage.superEncoder() }
    func superEncoder(forKey key: Key) -> any Encoder { storage.superEncoder() }
}

private struct JSONUnkeyedContainer: UnkeyedEncodingContainer {
    let storage: JSONBytesEncoder
    let place: JSONBytesEncoder.Place

    var codingPath: [any CodingKey] { storage.untrackedPath }
    var count: Int { storage.count(place) }

    @inline(__always)
    private func begin() throws -> JSONBytesEncoder {
        guard storage.beginElement(place) else { throw JSONBytesEncoder.Detour() }
        return storage
    }

    func encodeNil() throws { try begin().writer.null() }
    func encode(_ value: Bool) throws { try begin().writer.bool(value) }
    func encode(_ value: String) throws { try begin().writer.string(value) }
    func encode(_ value: Double) throws { try begin().double(value) }
    func encode(_ value: Float) throws { try begin().float(value) }
    func encode(_ value: Int) throws { try begin().writer.integer(Int64(value)) }
    func encode(_ value: Int8) throws { try begin().writer.integer(Int64(value)) }
    func encode(_ value: Int16) throws { try begin().writer.integer(Int64(value)) }
    func encode(_ value: Int32) throws { try begin().writer.integer(Int64(value)) }
    func encode(_ value: Int64) throws { try begin().writer.integer(value) }
    func encode(_ value: UInt) throws { try begin().writer.unsigned(UInt64(value)) }
    func encode(_ value: UInt8) throws { try begin().writer.unsigned(UInt64(value)) }
    func encode(_ value: UInt16) throws { try begin().writer.unsigned(UInt64(value)) }
    func encode(_ value: UInt32) throws { try begin().writer.unsigned(UInt64(value)) }
    func encode(_ value: UInt64) throws { try begin().writer.unsigned(value) }
    func encode<T: Encodable>(_ value: T) throws { try begin().write(value) }

    func nestedContainer<Nested: CodingKey>(keyedBy keyType: Nested.Type) -> KeyedEncodingContainer<Nested> {
        KeyedEncodingContainer(JSONKeyedContainer<Nested>(storage: storage, place: nested(isKeyed: true)))
    }

    func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer {
        JSONUnkeyedContainer(storage: storage, place: nested(isKeyed: false))
    }

    private func nested(isKeyed: Bool) -> JSONBytesEncoder.Place {
        storage.beginElement(place) ? storage.open(isKeyed: isKeyed) : place
    }

    func superEncoder() -> any Encoder { storage.superEncoder() }
}

private struct JSONSingleContainer: SingleValueEncodingContainer {
    let storage: JSONBytesEncoder
    let serial: Int

    var codingPath: [any CodingKey] { storage.untrackedPath }

    @inline(__always)
    private func begin() throws -> JSONBytesEncoder {
        try storage.scalar(slot: serial)
        return storage
    }

    func encodeNil() throws { try begin().writer.null() }
    func encode(_ value: Bool) throws { try begin().writer.bool(value) }
    func encode(_ value: String) throws { try begin().writer.string(value) }
    func encode(_ value: Double) throws { try begin().double(value) }
    func encode(_ value: Float) throws { try begin().float(value) }
    func encode(_ value: Int) throws { try begin().writer.integer(Int64(value)) }
    func encode(_ value: Int8) throws { try begin().writer.integer(Int64(value)) }
    func encode(_ value: Int16) throws { try begin().writer.integer(Int64(value)) }
    func encode(_ value: Int32) throws { try begin().writer.integer(Int64(value)) }
    func encode(_ value: Int64) throws { try begin().writer.integer(value) }
    func encode(_ value: UInt) throws { try begin().writer.unsigned(UInt64(value)) }
    func encode(_ value: UInt8) throws { try begin().writer.unsigned(UInt64(value)) }
    func encode(_ value: UInt16) throws { try begin().writer.unsigned(UInt64(value)) }
    func encode(_ value: UInt32) throws { try begin().writer.unsigned(UInt64(value)) }
    func encode(_ value: UInt64) throws { try begin().writer.unsigned(value) }
    func encode<T: Encodable>(_ value: T) throws { try storage.replace(slot: serial, with: value) }
}
