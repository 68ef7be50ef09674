/// The `Encoder` of one value. It is three words long, so that it needs no allocation as an existential.
struct JSONValueEncoder: Encoder {
    let storage: JSONBytesEncoder
    let serial: Int

    var codingPath: [any CodingKey] { self.storage.untrackedPath }
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        KeyedEncodingContainer(
            JSONKeyedContainer(storage: self.storage, place: self.storage.container(of: self.serial, isKeyed: true))
        )
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer {
        JSONUnkeyedContainer(storage: self.storage, place: self.storage.container(of: self.serial, isKeyed: false))
    }

    func singleValueContainer() -> any SingleValueEncodingContainer {
        JSONSingleContainer(storage: self.storage, serial: self.serial)
    }
}

extension JSONBytesEncoder {
    /// The fast path does not track the coding path. A value that reads it is encoded by Foundation's encoder.
    var untrackedPath: [any CodingKey] {
        self.makeVoid()
        return []
    }

    /// An encoder that may be written to at any later time, which only Foundation's encoder supports. Its output is not
    /// used.
    func superEncoder() -> any Encoder {
        _ = self.leave()
        return JSONValueEncoder(storage: self, serial: -1)
    }

    fileprivate func double(_ value: Double) {
        if !self.writer.double(value) { self.notFinite() }
    }

    fileprivate func float(_ value: Float) {
        if !self.writer.float(value) { self.notFinite() }
    }

    /// The value is encoded again by Foundation's encoder, which throws the error with the coding path.
    private func notFinite() {
        self.makeVoid()
        self.writer.null()
    }
}

private struct JSONKeyedContainer<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let storage: JSONBytesEncoder
    let place: JSONBytesEncoder.Place

    var codingPath: [any CodingKey] { self.storage.untrackedPath }

    @inline(__always)
    private func begin(_ key: Key) throws -> JSONBytesEncoder {
        guard self.storage.beginMember(self.place, key.stringValue) else { throw JSONBytesEncoder.Detour() }
        return self.storage
    }

    func encodeNil(forKey key: Key) throws { try self.begin(key).writer.null() }
    func encode(_ value: Bool, forKey key: Key) throws { try self.begin(key).writer.bool(value) }
    func encode(_ value: String, forKey key: Key) throws { try self.begin(key).writer.string(value) }
    func encode(_ value: Double, forKey key: Key) throws { try self.begin(key).double(value) }
    func encode(_ value: Float, forKey key: Key) throws { try self.begin(key).float(value) }
    func encode(_ value: Int, forKey key: Key) throws { try self.begin(key).writer.integer(Int64(value)) }
    func encode(_ value: Int8, forKey key: Key) throws { try self.begin(key).writer.integer(Int64(value)) }
    func encode(_ value: Int16, forKey key: Key) throws { try self.begin(key).writer.integer(Int64(value)) }
    func encode(_ value: Int32, forKey key: Key) throws { try self.begin(key).writer.integer(Int64(value)) }
    func encode(_ value: Int64, forKey key: Key) throws { try self.begin(key).writer.integer(value) }
    func encode(_ value: UInt, forKey key: Key) throws { try self.begin(key).writer.unsigned(UInt64(value)) }
    func encode(_ value: UInt8, forKey key: Key) throws { try self.begin(key).writer.unsigned(UInt64(value)) }
    func encode(_ value: UInt16, forKey key: Key) throws { try self.begin(key).writer.unsigned(UInt64(value)) }
    func encode(_ value: UInt32, forKey key: Key) throws { try self.begin(key).writer.unsigned(UInt64(value)) }
    func encode(_ value: UInt64, forKey key: Key) throws { try self.begin(key).writer.unsigned(value) }
    func encode<T: Encodable>(_ value: T, forKey key: Key) throws { try self.begin(key).write(value) }

    func nestedContainer<Nested: CodingKey>(
        keyedBy keyType: Nested.Type,
        forKey key: Key
    ) -> KeyedEncodingContainer<Nested> {
        KeyedEncodingContainer(
            JSONKeyedContainer<Nested>(storage: self.storage, place: self.nested(key, isKeyed: true))
        )
    }

    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
        JSONUnkeyedContainer(storage: self.storage, place: self.nested(key, isKeyed: false))
    }

    private func nested(_ key: Key, isKeyed: Bool) -> JSONBytesEncoder.Place {
        self.storage.beginMember(self.place, key.stringValue) ? self.storage.open(isKeyed: isKeyed) : self.place
    }

    func superEncoder() -> any Encoder { self.storage.superEncoder() }
    func superEncoder(forKey key: Key) -> any Encoder { self.storage.superEncoder() }
}

private struct JSONUnkeyedContainer: UnkeyedEncodingContainer {
    let storage: JSONBytesEncoder
    let place: JSONBytesEncoder.Place

    var codingPath: [any CodingKey] { self.storage.untrackedPath }
    var count: Int { self.storage.count(self.place) }

    @inline(__always)
    private func begin() throws -> JSONBytesEncoder {
        guard self.storage.beginElement(self.place) else { throw JSONBytesEncoder.Detour() }
        return self.storage
    }

    func encodeNil() throws { try self.begin().writer.null() }
    func encode(_ value: Bool) throws { try self.begin().writer.bool(value) }
    func encode(_ value: String) throws { try self.begin().writer.string(value) }
    func encode(_ value: Double) throws { try self.begin().double(value) }
    func encode(_ value: Float) throws { try self.begin().float(value) }
    func encode(_ value: Int) throws { try self.begin().writer.integer(Int64(value)) }
    func encode(_ value: Int8) throws { try self.begin().writer.integer(Int64(value)) }
    func encode(_ value: Int16) throws { try self.begin().writer.integer(Int64(value)) }
    func encode(_ value: Int32) throws { try self.begin().writer.integer(Int64(value)) }
    func encode(_ value: Int64) throws { try self.begin().writer.integer(value) }
    func encode(_ value: UInt) throws { try self.begin().writer.unsigned(UInt64(value)) }
    func encode(_ value: UInt8) throws { try self.begin().writer.unsigned(UInt64(value)) }
    func encode(_ value: UInt16) throws { try self.begin().writer.unsigned(UInt64(value)) }
    func encode(_ value: UInt32) throws { try self.begin().writer.unsigned(UInt64(value)) }
    func encode(_ value: UInt64) throws { try self.begin().writer.unsigned(value) }
    func encode<T: Encodable>(_ value: T) throws { try self.begin().write(value) }

    func nestedContainer<Nested: CodingKey>(keyedBy keyType: Nested.Type) -> KeyedEncodingContainer<Nested> {
        KeyedEncodingContainer(JSONKeyedContainer<Nested>(storage: self.storage, place: self.nested(isKeyed: true)))
    }

    func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer {
        JSONUnkeyedContainer(storage: self.storage, place: self.nested(isKeyed: false))
    }

    private func nested(isKeyed: Bool) -> JSONBytesEncoder.Place {
        self.storage.beginElement(self.place) ? self.storage.open(isKeyed: isKeyed) : self.place
    }

    func superEncoder() -> any Encoder { self.storage.superEncoder() }
}

private struct JSONSingleContainer: SingleValueEncodingContainer {
    let storage: JSONBytesEncoder
    let serial: Int

    var codingPath: [any CodingKey] { self.storage.untrackedPath }

    @inline(__always)
    private func begin() throws -> JSONBytesEncoder {
        try self.storage.scalar(of: self.serial)
        return self.storage
    }

    func encodeNil() throws { try self.begin().writer.null() }
    func encode(_ value: Bool) throws { try self.begin().writer.bool(value) }
    func encode(_ value: String) throws { try self.begin().writer.string(value) }
    func encode(_ value: Double) throws { try self.begin().double(value) }
    func encode(_ value: Float) throws { try self.begin().float(value) }
    func encode(_ value: Int) throws { try self.begin().writer.integer(Int64(value)) }
    func encode(_ value: Int8) throws { try self.begin().writer.integer(Int64(value)) }
    func encode(_ value: Int16) throws { try self.begin().writer.integer(Int64(value)) }
    func encode(_ value: Int32) throws { try self.begin().writer.integer(Int64(value)) }
    func encode(_ value: Int64) throws { try self.begin().writer.integer(value) }
    func encode(_ value: UInt) throws { try self.begin().writer.unsigned(UInt64(value)) }
    func encode(_ value: UInt8) throws { try self.begin().writer.unsigned(UInt64(value)) }
    func encode(_ value: UInt16) throws { try self.begin().writer.unsigned(UInt64(value)) }
    func encode(_ value: UInt32) throws { try self.begin().writer.unsigned(UInt64(value)) }
    func encode(_ value: UInt64) throws { try self.begin().writer.unsigned(value) }
    func encode<T: Encodable>(_ value: T) throws { try self.storage.replace(of: self.serial, with: value) }
}
