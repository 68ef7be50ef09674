@_spi(Relay) import APNSModel
import PushQueue

/// The values that replace the placeholders of a payload: a JSON object of strings, numbers and booleans.
struct PlaceholderValues: Sendable {
    struct Value: Sendable {
        /// The value as JSON text; a string with its quotation marks and escape sequences.
        var text: [UInt8]
        var isString: Bool

        /// The form inside a string of the payload.
        var inString: ArraySlice<UInt8> { self.isString ? self.text.dropFirst().dropLast() : self.text[...] }
    }

    static let none = PlaceholderValues()

    private var values: [String: Value] = [:]

    subscript(name: String) -> Value? { self.values[name] }

    private init() {}

    /// - Throws: `PushFault` if the text is not such an object. Its field is `values`.
    init(_ text: UnsafeBufferPointer<UInt8>, in range: Range<Int>? = nil) throws(PushFault) {
        var scanner = JSONScanner(text, in: range)
        var members: [JSONScanner.Member] = []
        do {
            try scanner.object(into: &members)
        } catch {
            throw .invalid("values", "expected a JSON object: \(error)")
        }
        for member in members {
            let name = scanner.text(member.key)
            switch member.value.kind {
            case .string, .number, .bool: break
            case .object, .array, .null:
                throw .invalid("values.\(printable(name))", "expected a string, a number, true or false")
            }
            let value = Value(text: Array(text[member.value.range]), isString: member.value.kind == .string)
            guard self.values.updateValue(value, forKey: name) == nil else {
                throw .invalid("values.\(printable(name))", "this name must occur only once")
            }
        }
    }

    init(_ text: [UInt8]) throws(PushFault) {
        self = try text.withUnsafeBufferPointer { (text) throws(PushFault) in try PlaceholderValues(text) }
    }
}
