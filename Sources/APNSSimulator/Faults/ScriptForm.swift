package import APNSModel

/// A part of a script. One function names each of its keys once, and both reads and writes it.
package protocol ScriptObject {
    /// - Throws: for unknown keys and invalid values.
    init(_ object: JSONReader) throws(JSONFieldError)

    /// Passes each key to the form, together with the variable that has its value.
    mutating func describe(in form: inout ScriptForm)
}

extension ScriptObject {
    package var json: JSONValue {
        var form = ScriptForm(reading: nil)
        var copy = self
        copy.describe(in: &form)
        return .object(form.members)
    }

    /// Replaces the values that the object has. The others keep their defaults.
    mutating func read(_ object: JSONReader) throws(JSONFieldError) {
        var form = ScriptForm(reading: object)
        self.describe(in: &form)
        try form.check()
    }
}

/// The keys of one object of a script, either read or written.
///
/// No function throws, so that a description names all of its keys. `check` reports an unknown key first, and otherwise
/// the first invalid value.
package struct ScriptForm {
    /// The object that is read; nil while one is written.
    private let object: JSONReader?
    /// The members that were written.
    private(set) var members: [JSONValue.Member] = []
    private var keys: [String] = []
    private var failure: JSONFieldError?

    init(reading object: JSONReader?) { self.object = object }

    var isReading: Bool { self.object != nil }

    /// A value with a default.
    ///
    /// - Parameters:
    ///   - value: the default before it is read. An absent key does not change it.
    ///   - omitted: the value that is not written.
    mutating func value<Value: Equatable>(
        _ key: String,
        _ value: inout Value,
        _ kind: JSONField<Value>,
        omitting omitted: Value? = nil
    ) {
        if let given = self.field(key, value == omitted ? nil : value, kind) { value = given }
    }

    /// A value that becomes nil if its key is absent, and is not written if it is nil.
    mutating func optional<Value>(_ key: String, _ value: inout Value?, _ kind: JSONField<Value>) {
        value = self.field(key, value, kind)
    }

    /// A value without a default.
    ///
    /// - Parameter problem: the error if the key is absent.
    mutating func required<Value>(
        _ key: String,
        _ value: inout Value,
        _ kind: JSONField<Value>,
        else problem: String
    ) {
        guard let given = self.field(key, value, kind) else { return self.fail(key, problem) }
        value = given
    }

    /// Reports an invalid value. While an object is written, this has no effect.
    mutating func fail(_ key: String, _ problem: String) {
        if self.failure == nil { self.failure = self.object?.error(key, problem) }
    }

    private mutating func field<Value>(_ key: String, _ value: Value?, _ kind: JSONField<Value>) -> Value? {
        self.keys.append(key)
        guard let object else {
            if let value { self.members.append(JSONValue.Member(key: key, value: kind.write(value))) }
            return value
        }
        do throws(JSONFieldError) {
            return try object.read(key, kind)
        } catch {
            if self.failure == nil { self.failure = error }
            return nil
        }
    }

    func check() throws(JSONFieldError) {
        try self.object?.allow(self.keys)
        if let failure { throw failure }
    }
}
