#if NATS
    #if canImport(FoundationEssentials)
        import FoundationEssentials
    #else
        import Foundation
    #endif

    /// The broker's response to a published message.
    struct PublishReply: Decodable {
        struct Failure: Decodable {
            var code: Int?
            var err_code: Int?
            var description: String?

            /// Whether the last message of the stream was not the one that the message expects.
            var isWrongSequence: Bool { self.err_code == 10_071 }

            /// The stream, the account or the disk has no room.
            var isLackOfRoom: Bool { [10_002, 10_023, 10_047, 10_077].contains(self.err_code) }

            /// The stream has its maximum size, so it helps to delete messages.
            var isFullStream: Bool { self.description?.contains("maximum bytes exceeded") ?? false }

            var text: String { self.description ?? "code \(self.code ?? 0)" }
        }

        var error: Failure?
        /// The number of the stored message; 0 if it was not stored.
        var seq: UInt64?

        init(_ bytes: [UInt8]) throws { self = try JSONDecoder().decode(PublishReply.self, from: Data(bytes)) }

        /// Why the broker has no room for the message. Nil if it has stored the message, or if it may store a copy soon, for
        /// example when there is a leader again.
        static func refusal(_ bytes: [UInt8]) -> Failure? {
            // The response to almost every message has a handful of members and no error.
            guard bytes.count > 2, bytes.contains(where: { $0 == 0x65 }) else { return nil }
            return (try? PublishReply(bytes))?.error.flatMap { $0.isLackOfRoom ? $0 : nil }
        }
    }
#endif
