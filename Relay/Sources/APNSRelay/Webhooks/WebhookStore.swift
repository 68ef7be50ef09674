import PushQueue

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// The stored state of one webhook.
///
/// Every write is a compare-and-set against the value that was read or written last. So a relay that has lost the duty
/// to post, but does not know it yet, cannot overwrite the values of its successor.
struct WebhookStore: Sendable {
    struct Content: Sendable {
        var position: WebhookPosition?
        var parked: [ParkedWebhook] = []
    }

    private let queue: any PushQueue
    private let positionKey: String
    private let parkedKey: String
    /// The stored values, as this relay last read or wrote them.
    private var known: [String: [UInt8]] = [:]

    init(_ queue: any PushQueue, name: String) {
        self.queue = queue
        self.positionKey = "webhook/\(name)"
        self.parkedKey = "webhook-parked/\(name)"
    }

    /// Reads the state.
    ///
    /// - Returns: the state; nil if it is damaged or a newer version wrote it.
    mutating func read() async throws(QueueError) -> Content? {
        self.known[self.positionKey] = try await self.queue.value(forKey: self.positionKey)
        self.known[self.parkedKey] = try await self.queue.value(forKey: self.parkedKey)
        let decoder = JSONDecoder()
        do {
            return Content(
                position: try self.known[self.positionKey].map {
                    try decoder.decode(WebhookPosition.self, from: Data($0))
                },
                parked: try self.known[self.parkedKey].map {
                    try decoder.decode([ParkedWebhook].self, from: Data($0))
                } ?? []
            )
        } catch {
            return nil
        }
    }

    /// Stores a part of the state.
    ///
    /// - Returns: whether it was stored. It is not stored if another relay has changed it since it was read.
    mutating func write(_ write: WebhookMachine.Write) async throws(QueueError) -> Bool {
        switch write {
        case .position(let position): try await self.write(position, forKey: self.positionKey)
        case .parked(let parked): try await self.write(parked, forKey: self.parkedKey)
        }
    }

    private mutating func write(_ value: some Encodable, forKey key: String) async throws(QueueError) -> Bool {
        let bytes: [UInt8]
        do {
            bytes = Array(try JSONEncoder().encode(value))
        } catch {
            throw QueueError(code: .unavailable, message: "The state of a webhook cannot be encoded: \(error)")
        }
        guard try await self.queue.exchangeValue(bytes, forKey: key, expecting: self.known[key]) else { return false }
        self.known[key] = bytes
        return true
    }

    // MARK: Decisions of operators

    /// An operator's decision about a parked request. The relay that posts to the webhook finds it in the queue.
    enum Decision: String, Sendable {
        case retry, drop
    }

    /// Stores a decision.
    ///
    /// - Parameters:
    ///   - decision: the decision.
    ///   - id: the id of the parked request.
    ///   - queue: the queue that stores it.
    ///   - name: the webhook's name.
    static func decide(
        _ decision: Decision,
        _ id: String,
        _ queue: any PushQueue,
        name: String
    ) async throws(QueueError) {
        try await queue.setValue(Array(decision.rawValue.utf8), forKey: Self.decisionPrefix(name) + id)
    }

    /// Removes a decision that was carried out. If a newer decision was stored since, that one stays.
    static func remove(
        _ decision: Decision,
        _ id: String,
        _ queue: any PushQueue,
        name: String
    ) async throws(QueueError) {
        let key = Self.decisionPrefix(name) + id
        _ = try await queue.exchangeValue(nil, forKey: key, expecting: Array(decision.rawValue.utf8))
    }

    /// The decisions that have not been carried out yet, by the ids of the requests.
    static func decisions(_ queue: any PushQueue, name: String) async throws(QueueError) -> [String: Decision] {
        let prefix = Self.decisionPrefix(name)
        var decisions: [String: Decision] = [:]
        for (key, value) in try await queue.values(withPrefix: prefix) {
            decisions[String(key.dropFirst(prefix.count))] = Decision(rawValue: String(decoding: value, as: UTF8.self))
        }
        return decisions
    }

    private static func decisionPrefix(_ name: String) -> String { "webhook-decision/\(name)/" }
}
