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

            var text: String { self.description ?? "code \(self.code ?? 0)" }
        }

        var error: Failure?
        /// The number of the stored message; 0 if it was not stored.
        var seq: UInt64?

        init(_ bytes: [UInt8]) throws { self = try JSONDecoder().decode(PublishReply.self, from: Data(bytes)) }

        /// Why the broker did not store the message; nil if it did.
        static func refusal(_ bytes: [UInt8]) -> String? {
            // The response to almost every message has a handful of members and no error.
            guard bytes.count > 2, bytes.contains(where: { $0 == 0x65 }) else { return nil }
            return (try? PublishReply(bytes))?.error?.text
        }
    }
#endif
