#if canImport(CryptoKit) || Sealing
    import APNSBasics

    /// The Web Push messages that were opened last, so that none is shown twice. A value type: the app stores it in coded
    /// form where its extension can read it.
    ///
    /// A message is known by its salt, which its sender chooses at random. Web Push messages carry no authentic time,
    /// so a message counts as new again once as many others as the capacity have been opened.
    public struct SeenWebPushes: Sendable, Hashable, Codable {
        /// The default number of messages that are remembered. In coded form, each takes 25 bytes.
        public static let defaultCapacity = 1_024

        private let capacity: Int
        /// The salts as unpadded base64url, the oldest first.
        private var salts: [String] = []

        /// - Parameter capacity: How many messages are remembered, at least 1.
        public init(capacity: Int = defaultCapacity) {
            self.capacity = max(1, capacity)
        }

        /// The number of messages that are remembered.
        public var count: Int { self.salts.count }

        /// Admits a message, or refuses it and stays unchanged.
        ///
        /// - Throws: `SealingError.Code.replayed`.
        public mutating func admit(_ message: WebPushMessage) throws(SealingError) {
            let salt = Base64.encodeForURL(message.salt)
            guard !self.salts.contains(salt) else { throw SealingError(.replayed) }
            self.salts.append(salt)
            self.salts.removeFirst(max(0, self.salts.count - max(1, self.capacity)))
        }
    }
#endif
