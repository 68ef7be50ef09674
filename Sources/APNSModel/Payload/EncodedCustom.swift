#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// A custom value as JSON by the user's own encoder, or why it has none.
struct EncodedCustom: Sendable {
    let json: Result<[UInt8], ValidationError>

    /// - Parameter field: what the error names.
    init(_ value: some Encodable, field: String, _ encoder: JSONEncoder) {
        do {
            json = .success(Array(try encoder.encode(value)))
        } catch {
            let text = ValidationError.shortened("\(error)")
            json = .failure(ValidationError(code: .notEncodable, field: field, value: text))
        }
    }
}
