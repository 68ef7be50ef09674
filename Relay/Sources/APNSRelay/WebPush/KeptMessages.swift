import PushQueue

/// Messages that do not fit into a notification, as small values in the queue. Devices fetch them.
///
/// Each has two keys: one names its subscription and its id, the other begins with the time at which it is deleted.
struct KeptMessages: Sendable {
    private static let messages = "web-push/kept/"
    private static let expiries = "web-push/expiry/"
    /// How long a message is kept at least, in seconds: its notification may take that long to arrive.
    private static let shortestTime: Int64 = 600

    let queue: any PushQueue

    /// Whether a subscription has as many messages as it may have.
    func isFull(_ subscription: String, limit: Int) async throws(QueueError) -> Bool {
        let prefix = "\(Self.messages)\(subscription)/"
        return try await self.queue.values(withPrefix: prefix, after: nil, limit: limit).count >= limit
    }

    /// Keeps a message until its time to live is over.
    ///
    /// - Parameters:
    ///   - message: the message.
    ///   - id: its id.
    ///   - subscription: the id of the subscription.
    ///   - timeToLive: its time to live in seconds.
    ///   - now: the time.
    func keep(
        _ message: [UInt8],
        id: String,
        of subscription: String,
        timeToLive: Int,
        now: QueueTime
    ) async throws(QueueError) {
        try await self.queue.requireRoom()
        let expiry = now.millisecondsSince1970 / 1_000 + max(Int64(timeToLive), Self.shortestTime)
        // First the key that deletes it, so that no message stays for ever.
        try await self.queue.setValue([], forKey: "\(Self.expiries)\(Self.digits(expiry))/\(subscription)/\(id)")
        try await self.queue.setValue(message, forKey: Self.key(id, of: subscription))
    }

    /// A message; nil if there is none.
    func message(_ id: String, of subscription: String) async throws(QueueError) -> [UInt8]? {
        try await self.queue.value(forKey: Self.key(id, of: subscription))
    }

    func remove(_ id: String, of subscription: String) async throws(QueueError) {
        try await self.queue.setValue(nil, forKey: Self.key(id, of: subscription))
    }

    /// Removes all messages of a subscription.
    func removeAll(of subscription: String) async throws(QueueError) {
        let prefix = "\(Self.messages)\(subscription)/"
        for key in try await self.queue.values(withPrefix: prefix).keys {
            try await self.queue.setValue(nil, forKey: key)
        }
    }

    /// Removes the messages whose time is over.
    ///
    /// - Parameters:
    ///   - now: the time.
    ///   - limit: the maximum number of messages to remove.
    /// - Returns: whether there may be more of them.
    func removeExpired(_ now: QueueTime, limit: Int) async throws(QueueError) -> Bool {
        let end = Self.digits(now.millisecondsSince1970 / 1_000)
        let due = try await self.queue.values(withPrefix: Self.expiries, after: nil, limit: limit).prefix { entry in
            entry.key.dropFirst(Self.expiries.count) < end
        }
        for (key, _) in due {
            let parts = key.split(separator: "/")
            if parts.count == 5 {
                try await self.remove(String(parts[4]), of: String(parts[3]))
            }
            try await self.queue.setValue(nil, forKey: key)
        }
        return due.count == limit
    }

    static func key(_ id: String, of subscription: String) -> String { "\(self.messages)\(subscription)/\(id)" }

    /// Seconds since 1970 as texts that have the order of the numbers.
    private static func digits(_ seconds: Int64) -> String {
        let text = String(max(seconds, 0))
        return String(repeating: "0", count: max(0, 12 - text.count)) + text
    }
}
