#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// A value as JSON from Foundation's encoder, or the error that prevents it. A class, so that a `Custom` holds only one
/// reference.
final class EncodedCustom: Sendable {
    let json: Result<[UInt8], ValidationError>

    /// - Parameter field: the field that an error names, followed by the path to the invalid value.
    init(_ value: some Encodable, field: String, _ encoder: JSONEncoder) {
        do {
            self.json = .success(Array(try encoder.encode(value)))
        } catch let error as ValidationError {
            self.json = .failure(error)
        } catch EncodingError.invalidValue(let value, let context) {
            let path = context.codingPath.map { $0.intValue.map(String.init) ?? $0.stringValue }
            self.json = .failure(
                ValidationError(
                    code: .notEncodable,
                    field: ([field] + path).joined(separator: "."),
                    value: ValidationError.shortened("\(value)")
                )
            )
        } catch {
            let text = ValidationError.shortened("\(error)")
            self.json = .failure(ValidationError(code: .notEncodable, field: field, value: text))
        }
    }

    /// Writes the value as the member `key`. Without a key, writes the members of the value.
    func write(as key: String?, to encoder: JSONBytesEncoder) throws(ValidationError) {
        let json = try self.json.get()
        if let key { try encoder.member(key, encoded: json) } else { try encoder.merge(encoded: json) }
    }
}
