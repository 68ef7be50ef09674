package import APNSModel

/// An invalid value in JSON, with its location.
package struct JSONFieldError: Error, Sendable, Hashable {
    /// The location, for example `faults[2].effect.status`; empty for the whole text.
    package let keyPath: String
    /// The value as JSON, truncated to 80 characters; nil if there is none.
    package let value: String?
    /// What is wrong, and which values are allowed.
    package let problem: String

    package init(keyPath: String, value: JSONValue?, problem: String) {
        self.keyPath = keyPath
        self.value = value.map { String(String(decoding: $0.bytes, as: UTF8.self).prefix(80)) }
        self.problem = problem
    }

    /// - Parameter whole: the name of the whole text.
    package func text(_ whole: String) -> String {
        let place = self.keyPath.isEmpty ? whole : self.keyPath
        return place + (self.value.map { " = \($0)" } ?? "") + ": " + self.problem
    }
}

/// An object of a script or of a request to the control API, with its location there. Reports unknown keys as errors.
package struct JSONReader {
    package let path: String
    package let object: [String: JSONValue]

    package init(_ value: JSONValue, path: String) throws(JSONFieldError) {
        guard let object = value.members else {
            throw JSONFieldError(keyPath: path, value: value, problem: "expected an object")
        }
        self.path = path
        self.object = object
    }

    package func keyPath(_ key: String) -> String { self.path.isEmpty ? key : "\(self.path).\(key)" }

    package func error(_ key: String, _ problem: String) -> JSONFieldError {
        JSONFieldError(keyPath: self.keyPath(key), value: self.object[key], problem: problem)
    }

    /// Throws if there is a key that is not in the list.
    package func allow(_ keys: [String]) throws(JSONFieldError) {
        for key in self.object.keys.sorted() where !keys.contains(key) {
            throw self.error(key, "unknown key; the keys here are \(keys.joined(separator: ", "))")
        }
    }

    /// Returns nil if the key is absent or null.
    package func read<Value>(_ key: String, _ field: JSONField<Value>) throws(JSONFieldError) -> Value? {
        guard let value = self.object[key], value != .null else { return nil }
        return try field.read(value, self.keyPath(key))
    }
}
