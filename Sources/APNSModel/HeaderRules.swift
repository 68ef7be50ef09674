/// Checks which characters a header value may contain.
///
/// Every value from a caller is checked here, so that no value can end a header and start another (RFC 9113 §8.2.1, RFC
/// 9110 §5.5). These checks are never skipped.
package enum HeaderRules {
    /// The longest topic in bytes: far longer than any bundle ID, far below APNs' limit of 8,000 bytes for the header
    /// list.
    static let longestTopic = 1_000
    static let longestPushType = 64

    package static func checkTopic(_ topic: String) throws(ValidationError) {
        guard !topic.isEmpty else {
            throw ValidationError(code: .topicMissing, field: "apns-topic")
        }
        let size = topic.utf8.count
        guard size <= self.longestTopic else {
            throw ValidationError(code: .topicInvalid, field: "apns-topic", limit: self.longestTopic, actual: size)
        }
        guard self.isVisibleASCII(topic) else {
            throw ValidationError(
                code: .topicInvalid,
                field: "apns-topic",
                value: ValidationError.shortened(topic)
            )
        }
    }

    static func checkPushType(_ pushType: PushType) throws(ValidationError) {
        let raw = pushType.rawValue
        guard !raw.isEmpty, raw.utf8.count <= self.longestPushType, self.isVisibleASCII(raw) else {
            throw ValidationError(
                code: .pushTypeInvalid,
                field: "apns-push-type",
                value: ValidationError.shortened(raw)
            )
        }
    }

    static func isVisibleASCII(_ text: String) -> Bool {
        self.all(text, above: 0x20)
    }

    /// Visible ASCII, with blanks only between other characters: recipients strip blanks at the ends (RFC 9110 §5.5).
    static func isHeaderText(_ text: String) -> Bool {
        guard let first = text.utf8.first, let last = text.utf8.last, first != 0x20, last != 0x20 else {
            return false
        }
        return self.all(text, above: 0x1F)
    }

    /// Whether each byte is above the bound and below DEL. Reads the string's storage directly, eight bytes at a time:
    /// through `utf8` each byte costs thirty instructions, and every push's topic is checked.
    ///
    /// - Parameter bound: below 0x80.
    private static func all(_ text: String, above bound: UInt8) -> Bool {
        func check(_ units: UnsafeBufferPointer<UInt8>) -> Bool {
            let ones: UInt64 = 0x0101_0101_0101_0101
            let high: UInt64 = 0x8080_8080_8080_8080
            var position = 0
            while position &+ 8 <= units.count {
                let word = UnsafeRawBufferPointer(units).loadUnaligned(fromByteOffset: position, as: UInt64.self)
                let isTooLow = (word &- ones &* UInt64(bound &+ 1)) & ~word
                let isTooHigh = (word &+ ones) | word
                if (isTooLow | isTooHigh) & high != 0 { return false }
                position &+= 8
            }
            return units[position...].allSatisfy { $0 > bound && $0 < 0x7F }
        }
        return text.utf8.withContiguousStorageIfAvailable(check) ?? Array(text.utf8).withUnsafeBufferPointer(check)
    }
}
