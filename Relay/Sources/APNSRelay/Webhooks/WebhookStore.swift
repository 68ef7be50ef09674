import PushQueue

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// The stored position of one webhook.
///
/// Every write is a compare-and-set against the value that was read or written last. So of two relays that post at the
/// same time, or of a relay and an operator who skips a request, only one changes the position.
struct WebhookStore: Sendable {
    private let queue: any PushQueue
    private let key: String
    /// The stored value, as this relay last read or wrote it.
    private var known: [UInt8]?

    init(_ queue: any PushQueue, name: String) {
        self.queue = queue
        self.key = "webhook/\(name)"
    }

    /// Reads the position.
    ///
    /// - Returns: the position, without a value for a new webhook; nil if it is damaged or a newer version wrote it.
    mutating func read() async throws(QueueError) -> WebhookPosition? {
        self.known = try await self.queue.value(forKey: self.key)
        guard let known = self.known else { return WebhookPosition() }
        return try? JSONDecoder().decode(WebhookPosition.self, from: Data(known))
    }

    /// Stores a position.
    ///
    /// - Returns: whether it was stored. It is not stored if another relay has changed it since it was read.
    mutating func write(_ position: WebhookPosition) async throws(QueueError) -> Bool {
        let bytes: [UInt8]
        do {
            bytes = Array(try JSONEncoder().encode(position))
        } catch {
            throw QueueError(code: .unavailable, message: "The position of a webhook cannot be encoded: \(error)")
        }
        guard try await self.queue.exchangeValue(bytes, forKey: self.key, expecting: self.known) else { return false }
        self.known = bytes
        return true
    }
}
