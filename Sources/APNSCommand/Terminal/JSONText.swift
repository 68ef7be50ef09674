#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// Output for programs: JSON on one line, with keys in alphabetical order.
enum JSONText {
    static func encode(_ value: some Encodable) -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        // Encoding could fail only for infinity or NaN, which these values do not contain.
        guard let bytes = try? encoder.encode(value) else { return "{}" }
        return String(decoding: bytes, as: UTF8.self)
    }
}
