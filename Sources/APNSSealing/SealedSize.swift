#if canImport(CryptoKit) || Sealing
    import APNSBasics

    /// The size of every sealed payload of one sealer, whatever its content: the budget of one custom value.
    ///
    /// The sealed text and the reserve together are at most the limit of the push's payload. The reserve covers
    /// everything else, to the byte: the braces, `aps` with the fallback alert, the quotes and key of the sealed text,
    /// and other custom values. `{"aps":{"alert":"New message","mutable-content":1},"sealed":""}` needs 63 bytes of it.
    public struct SealedSize: Sendable, Hashable {
        /// The default reserve in bytes: enough for a title and a few lines.
        public static let defaultReserve = 512

        /// The size for every push type except `voip`: 4,096 bytes of payload with the default reserve, which leaves
        /// 2,643 bytes of content.
        public static let standard = SealedSize(sealedCount: Base64.byteCount(withinURLText: 4_096 - defaultReserve))

        /// The size for `voip`: 5,120 bytes of payload with the default reserve, which leaves 3,411 bytes of content.
        public static let voip = SealedSize(sealedCount: Base64.byteCount(withinURLText: 5_120 - defaultReserve))

        /// The number of bytes before base64 encoding.
        let sealedCount: Int

        private init(sealedCount: Int) {
            self.sealedCount = sealedCount
        }

        /// Creates the largest size that fits into a payload with the reserve.
        ///
        /// - Parameters:
        ///   - payloadLimit: The limit of the whole payload in bytes; `PushType.payloadLimit` of APNSModel.
        ///   - reserve: The bytes of the payload for everything except the sealed text.
        /// - Throws: `SealingError.Code.sizeImpossible` if no content would fit, or more than 65,535 bytes.
        public init(payloadLimit: Int, reserve: Int = defaultReserve) throws(SealingError) {
            let (text, overflow) = payloadLimit.subtractingReportingOverflow(reserve)
            guard !overflow, reserve >= 0, text > 0 else { throw SealingError(.sizeImpossible) }
            try self.init(checking: Base64.byteCount(withinURLText: text))
        }

        /// Creates the smallest size for content of up to this length, in bytes from 1 to 65,535.
        ///
        /// - Throws: `SealingError.Code.sizeImpossible` outside this range.
        public init(contentLimit: Int) throws(SealingError) {
            guard Frame.contentLimits.contains(contentLimit) else { throw SealingError(.sizeImpossible) }
            try self.init(checking: SealedPayload.overhead + contentLimit)
        }

        private init(checking sealedCount: Int) throws(SealingError) {
            guard Frame.contentLimits.contains(sealedCount - SealedPayload.overhead) else {
                throw SealingError(.sizeImpossible)
            }
            self.init(sealedCount: sealedCount)
        }

        /// The maximum number of bytes that can be sealed.
        public var contentLimit: Int { self.sealedCount - SealedPayload.overhead }

        /// The number of bytes of every sealed text, without its quotes.
        public var textCount: Int { Base64.urlTextCount(of: self.sealedCount) }

        /// The number of bytes of the padded plaintext.
        var frameCount: Int { self.contentLimit + Frame.overhead }
    }
#endif
