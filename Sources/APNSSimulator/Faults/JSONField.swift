internal import APNSModel

/// The form of a value in JSON: how it is read and how it is written.
package struct JSONField<Value> {
    /// Gets the value and its location.
    let read: (JSONValue, String) throws(JSONFieldError) -> Value
    let write: (Value) -> JSONValue

    init(
        read: @escaping (JSONValue, String) throws(JSONFieldError) -> Value,
        write: @escaping (Value) -> JSONValue
    ) {
        self.read = read
        self.write = write
    }

    /// - Parameters:
    ///   - expectation: the problem with a value of another form.
    ///   - read: returns nil for a value of another form.
    init(_ expectation: String, read: @escaping (JSONValue) -> Value?, write: @escaping (Value) -> JSONValue) {
        self.read = { value, keyPath throws(JSONFieldError) in
            guard let result = read(value) else {
                throw JSONFieldError(keyPath: keyPath, value: value, problem: expectation)
            }
            return result
        }
        self.write = write
    }

    /// The same form for another type.
    func map<Other>(
        _ from: @escaping (Value) -> Other,
        _ to: @escaping (Other) -> Value
    ) -> JSONField<Other> {
        JSONField<Other>(
            read: { value, keyPath throws(JSONFieldError) in from(try self.read(value, keyPath)) },
            write: { self.write(to($0)) }
        )
    }
}

extension JSONField<Bool> {
    package static var bool: Self {
        Self(
            "expected true or false",
            read: { if case .bool(let flag) = $0 { flag } else { nil } },
            write: { .bool($0) }
        )
    }
}

extension JSONField<String> {
    package static var text: Self {
        Self("expected a text", read: { if case .string(let text) = $0 { text } else { nil } }, write: { .string($0) })
    }
}

extension JSONField where Value: FixedWidthInteger {
    package static func integer(in range: ClosedRange<Value>) -> Self {
        Self(
            "expected a whole number from \(range.lowerBound) to \(range.upperBound)",
            read: { value in
                guard let number = value.wholeNumber.flatMap({ Value(exactly: $0) }), range.contains(number) else {
                    return nil
                }
                return number
            },
            write: { .integer(Int64(clamping: $0)) }
        )
    }
}

extension JSONField<UInt32> {
    /// An error code of HTTP/2 (RFC 9113, section 7).
    static var code: Self { .integer(in: 0...UInt32.max) }
}

extension JSONField<Double> {
    static func number(in range: ClosedRange<Double>) -> Self {
        Self(
            "expected a number from \(range.lowerBound) to \(range.upperBound)",
            read: { value in
                let number: Double? =
                    switch value {
                    case .integer(let number): Double(number)
                    case .double(let number): number
                    default: nil
                    }
                return number.flatMap { range.contains($0) ? $0 : nil }
            },
            write: { .double($0) }
        )
    }
}

extension JSONField<Duration> {
    /// Milliseconds, at most 30 days.
    static var milliseconds: Self {
        JSONField<Double>.number(in: 0...2_592_000_000).map({ .milliseconds(1) * $0 }, { $0.inMilliseconds })
    }
}

extension JSONField where Value: RawRepresentable<String> & CaseIterable {
    /// A text that must be a case of the enumeration.
    package static var choice: Self {
        let choices = Value.allCases.map(\.rawValue).joined(separator: ", ")
        return Self(
            "unknown value; the values are \(choices)",
            read: { if case .string(let text) = $0 { Value(rawValue: text) } else { nil } },
            write: { .string($0.rawValue) }
        )
    }
}

extension JSONField where Value: ScriptObject {
    static var object: Self {
        Self(
            read: { value, keyPath throws(JSONFieldError) in try Value(JSONReader(value, path: keyPath)) },
            write: { $0.json }
        )
    }
}

extension JSONField<JSONReader> {
    /// An object whose keys are read later.
    package static var reader: Self {
        Self(
            read: { value, keyPath throws(JSONFieldError) in try JSONReader(value, path: keyPath) },
            write: { .object($0.object) }
        )
    }
}

extension JSONField {
    package static func list<Element>(of element: JSONField<Element>) -> Self where Value == [Element] {
        Self(
            read: { value, keyPath throws(JSONFieldError) in
                guard case .array(let values) = value else {
                    throw JSONFieldError(keyPath: keyPath, value: value, problem: "expected a list")
                }
                var elements: [Element] = []
                for (index, value) in values.enumerated() {
                    elements.append(try element.read(value, "\(keyPath)[\(index)]"))
                }
                return elements
            },
            write: { .array($0.map(element.write)) }
        )
    }
}
