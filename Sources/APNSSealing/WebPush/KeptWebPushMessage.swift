#if canImport(CryptoKit) || Sealing
    /// A reference to a Web Push message that was too large for its notification. The gateway keeps the message, and the
    /// notification service extension fetches it.
    ///
    ///     if let kept = KeptWebPushMessage(userInfo: request.content.userInfo) {
    ///         let body = …  // GET the kept.path of your gateway, with the subscription's fetchSecret as bearer token
    ///         let message = try WebPushMessage(fetched: body)
    ///     }
    public struct KeptWebPushMessage: Sendable, Hashable {
        /// The subscription, which says which keys open the message.
        public let subscription: String
        /// The message's id at the gateway.
        public let id: String

        /// Reads the reference from a notification's dictionary: `UNNotificationContent.userInfo`.
        ///
        /// - Returns: Nil if the notification carries its message, or none.
        public init?(userInfo: [AnyHashable: Any], key: String = WebPushMessage.defaultKey) {
            let members = userInfo[key] as? [AnyHashable: Any]
            guard let subscription = members?["id"] as? String, let id = members?["fetch"] as? String,
                [subscription, id].allSatisfy(Self.isPartOfPath)
            else { return nil }
            self.subscription = subscription
            self.id = id
        }

        /// The path at the gateway, from which the extension reads the message, and with which it may delete it.
        public var path: String { "/webpush/subscriptions/\(self.subscription)/messages/\(self.id)" }

        /// Whether a text cannot change the meaning of a path.
        private static func isPartOfPath(_ text: String) -> Bool {
            !text.isEmpty
                && text.utf8.allSatisfy { byte in
                    switch byte {
                    case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
                        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
                        true
                    default: false
                    }
                }
        }
    }
#endif
