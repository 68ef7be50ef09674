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

    /// Whether each byte is above the bound and below DEL. Reads the string's storage directly: through `utf8` each
    /// byte costs thirty instructions, and every push's topic is checked.
    private static func all(_ text: String, above bound: UInt8) -> Bool {
        func check(_ units: UnsafeBufferPointer<UInt8>) -> Bool {
            var isGood = true
            for unit in units where unit <= bound || unit >= 0x7F {
                isGood = false
            }
            return isGood
        }
        return text.utf8.withContiguousStorageIfAvailable(check) ?? Array(text.utf8).withUnsafeBufferPointer(check)
    }
}
