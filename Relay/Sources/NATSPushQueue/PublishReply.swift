#if NATS
    import PushQueue

    #if canImport(FoundationEssentials)
        import FoundationEssentials
    #else
        import Foundation
    #endif

    /// The broker's answer to a published message.
    struct PublishReply: Decodable {
        struct Failure: Decodable {
            var code: Int?
            var description: String?
        }

        var error: Failure?

        /// Why the broker did not store the message; nil if it did.
        static func refusal(_ bytes: [UInt8]) -> QueueError? {
            // The answer of almost every message has a handful of members and no error.
            guard bytes.count > 2, bytes.contains(where: { $0 == 0x65 }),
                let reply = try? JSONDecoder().decode(PublishReply.self, from: Data(bytes)), let error = reply.error
            else { return nil }
            return QueueError(
                code: .unavailable,
                message: "The broker did not store a record: \(error.description ?? "code \(error.code ?? 0)"). "
                    + "Nothing of the call has happened. Check the disk and the limits of the stream."
            )
        }
    }
#endif
