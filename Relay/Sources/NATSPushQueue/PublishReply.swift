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

            /// Whether the stream, the account or the disk has no room.
            var isLackOfRoom: Bool { [10_002, 10_023, 10_047, 10_077].contains(self.err_code) }

            /// Whether the stream has reached its maximum size, so that deleting messages makes room.
            var isFullStream: Bool { self.description?.contains("maximum bytes exceeded") ?? false }

            var text: String { self.description ?? "code \(self.code ?? 0)" }
        }

        private static let errorKey = Array(#""error""#.utf8)

        var error: Failure?
        /// The number of the stored message; 0 if it was not stored.
        var seq: UInt64?

        init(_ bytes: [UInt8]) throws { self = try JSONDecoder().decode(PublishReply.self, from: Data(bytes)) }

        /// The error of a broker that has no room for the message. Nil if it stored the message, and for all other
        /// errors: a later copy may be stored, for example once there is a leader again.
        static func refusal(_ bytes: [UInt8]) -> Failure? {
            // Almost no response has an error, and to decode one takes far longer than this search.
            guard bytes.firstRange(of: self.errorKey) != nil else { return nil }
            return (try? PublishReply(bytes))?.error.flatMap { $0.isLackOfRoom ? $0 : nil }
        }
    }
#endif
