package import APNSModel

/// An object of a script or of a request to the control API, with its location there. Reports unknown keys as errors.
package struct JSONReader {
    package let path: String
    package let object: [String: JSONValue]

    package init(_ value: JSONValue, path: String) throws(FaultScriptError) {
        guard let object = value.members else {
            throw FaultScriptError(keyPath: path, value: value, problem: "expected an object")
        }
        self.path = path
        self.object = object
    }

    package func keyPath(_ key: String) -> String { self.path.isEmpty ? key : "\(self.path).\(key)" }

    package func error(_ key: String, _ problem: String) -> FaultScriptError {
        FaultScriptError(keyPath: self.keyPath(key), value: self.object[key], problem: problem)
    }

    /// Throws if there is a key that is not in the list.
    package func allow(_ keys: [String]) throws(FaultScriptError) {
        for key in self.object.keys.sorted() where !keys.contains(key) {
            throw self.error(key, "unknown key; the keys here are \(keys.joined(separator: ", "))")
        }
    }

    package func integer(_ key: String, in range: ClosedRange<Int64>) throws(FaultScriptError) -> Int64? {
        guard let value = self.object[key], value != .null else { return nil }
        guard let number = value.wholeNumber, range.contains(number) else {
            throw self.error(key, "expected a whole number from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    package func int(_ key: String, in range: ClosedRange<Int>) throws(FaultScriptError) -> Int? {
        try self.integer(key, in: Int64(range.lowerBound)...Int64(range.upperBound)).map { Int($0) }
    }

    func unsigned(_ key: String) throws(FaultScriptError) -> UInt32? {
        try self.integer(key, in: 0...Int64(UInt32.max)).map { UInt32($0) }
    }

    package func number(_ key: String, in range: ClosedRange<Double>) throws(FaultScriptError) -> Double? {
        guard let value = self.object[key], value != .null else { return nil }
        let number: Double? =
            switch value {
            case .integer(let number): Double(number)
            case .double(let number): number
            default: nil
            }
        guard let number, range.contains(number) else {
            throw self.error(key, "expected a number from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    /// A duration in milliseconds, at most 30 days.
    package func duration(_ key: String) throws(FaultScriptError) -> Duration? {
        try self.number(key, in: 0...2_592_000_000).map { .milliseconds(1) * $0 }
    }

    package func bool(_ key: String) throws(FaultScriptError) -> Bool? {
        guard let value = self.object[key], value != .null else { return nil }
        guard case .bool(let flag) = value else { throw self.error(key, "expected true or false") }
        return flag
    }

    package func string(_ key: String) throws(FaultScriptError) -> String? {
        guard let value = self.object[key], value != .null else { return nil }
        guard case .string(let text) = value else { throw self.error(key, "expected a text") }
        return text
    }

    /// A text that must be a case of the enumeration.
    package func choice<Choice: RawRepresentable<String> & CaseIterable>(
        _ key: String,
        of type: Choice.Type
    ) throws(FaultScriptError) -> Choice? {
        guard let text = try self.string(key) else { return nil }
        guard let choice = Choice(rawValue: text) else {
            let choices = Choice.allCases.map(\.rawValue).joined(separator: ", ")
            throw self.error(key, "unknown value; the values are \(choices)")
        }
        return choice
    }

    package func array(_ key: String) throws(FaultScriptError) -> [JSONValue]? {
        guard let value = self.object[key], value != .null else { return nil }
        guard case .array(let values) = value else { throw self.error(key, "expected a list") }
        return values
    }

    package func strings(_ key: String) throws(FaultScriptError) -> [String]? {
        guard let values = try self.array(key) else { return nil }
        var texts: [String] = []
        for value in values {
            guard case .string(let text) = value else { throw self.error(key, "expected a list of texts") }
            texts.append(text)
        }
        return texts
    }

    /// An object whose values are texts.
    func fields(_ key: String) throws(FaultScriptError) -> [String: String] {
        guard let value = self.object[key], value != .null else { return [:] }
        let reader = try JSONReader(value, path: self.keyPath(key))
        var fields: [String: String] = [:]
        for name in reader.object.keys {
            guard let text = try reader.string(name) else { throw reader.error(name, "expected a text") }
            guard !name.isEmpty, name.utf8.count + text.utf8.count <= 16_384 else {
                throw reader.error(name, "a field needs a name, and has at most 16384 bytes")
            }
            fields[name] = text
        }
        return fields
    }
}
