#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// A value as JSON by Foundation's encoder, or why it has none.
struct EncodedCustom: Sendable {
    let json: Result<[UInt8], ValidationError>

    /// - Parameter field: what the error names; the path to the faulty value follows it.
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
}
