/// JSON as editors save it to files.
@_spi(Relay) public enum JSONFileText {
    /// Returns the text without a byte order mark (RFC 8259, section 8.1, allows to skip it).
    ///
    /// - Throws: `utf8InsteadOfUTF16` for text in UTF-16, which has a mark of its own, or a zero byte beside its first
    ///   character.
    @_spi(Relay) public static func utf8(_ bytes: [UInt8]) throws(JSONScanner.Failure) -> [UInt8] {
        if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { return Array(bytes.dropFirst(3)) }
        let isUTF16 =
            bytes.starts(with: [0xFE, 0xFF]) || bytes.starts(with: [0xFF, 0xFE])
            || (bytes.count >= 2 && (bytes[0] == 0) != (bytes[1] == 0))
        if isUTF16 { throw JSONScanner.Failure(expectation: .utf8InsteadOfUTF16, offset: 0) }
        return bytes
    }
}
