/// Checks app ids (bundle ids) that become part of a request path.
package enum BundleID {
    /// Checks that the text is a bundle id: letters, digits, `-`, `.` and `_`, at most 255 bytes, without the topic
    /// suffix of Live Activities at its end.
    ///
    /// - Throws: `topicMissing` or `topicInvalid` for any other text.
    package static func check(_ text: String) throws(ValidationError) {
        guard !text.isEmpty else { throw ValidationError(code: .topicMissing, field: "bundle id") }
        let isPlain = text.utf8.allSatisfy { byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F: true
            default: false
            }
        }
        guard isPlain, text.utf8.count <= 255, text != ".", text != "..",
            !text.hasSuffix(PushType.liveactivity.topicSuffix)
        else {
            throw ValidationError(code: .topicInvalid, field: "bundle id", value: ValidationError.shortened(text))
        }
    }
}
