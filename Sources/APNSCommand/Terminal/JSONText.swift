#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// Values for programs to read: one line, keys in alphabetical order.
enum JSONText {
    static func encode(_ value: some Encodable) -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        // Only a number that is no number could fail, and there is none.
        guard let bytes = try? encoder.encode(value) else { return "{}" }
        return String(decoding: bytes, as: UTF8.self)
    }
}
