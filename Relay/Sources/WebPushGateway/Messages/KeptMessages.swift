import PushQueue

/// Messages that do not fit into a notification, as small values in the queue. Devices fetch them.
///
/// Each has three keys: its text, an entry of its subscription with its size, and one that begins with the time at which it is
/// deleted.
struct KeptMessages: Sendable {
    private static let texts = "web-push/message/"
    private static let entries = "web-push/kept/"
    private static let expiries = "web-push/expiry/"
    /// How long a message is kept at least, in seconds: its notification may take that long to arrive.
    private static let shortestTime: Int64 = 600
    /// The number of entries that one call of the queue reads.
    private static let page = 1_000

    /// What the queue knows of a message besides its text.
    private struct Entry: Codable {
        /// Seconds since 1970.
        var expiry: Int64
        /// In bytes.
        var size: Int
    }

    let queue: any PushQueue

    /// Whether a subscription has as many messages as it may have.
    func isFull(_ subscription: String, limit: Int) async throws(QueueError) -> Bool {
        let prefix = "\(Self.entries)\(subscription)/"
        return try await self.queue.values(withPrefix: prefix, after: nil, limit: limit).count >= limit
    }

    /// The size of all messages, in bytes.
    func bytes() async throws(QueueError) -> Int {
        var total = 0
        var last: String?
        while true {
            let page = try await self.queue.values(withPrefix: Self.entries, after: last, limit: Self.page)
            for (_, value) in page { total += StoredJSON.decode(Entry.self, from: value)?.size ?? 0 }
            guard page.count == Self.page, let end = page.last?.key else { return total }
            last = end
        }
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
        let entry = Entry(expiry: expiry, size: message.count)
        // First the key that deletes it, so that no message stays for ever.
        try await self.queue.setValue([], forKey: Self.expiryKey(expiry, id, subscription))
        try await self.queue.setValue(StoredJSON.encode(entry), forKey: Self.entryKey(id, subscription))
        try await self.queue.setValue(message, forKey: Self.textKey(id, subscription))
    }

    /// A message; nil if there is none.
    func message(_ id: String, of subscription: String) async throws(QueueError) -> [UInt8]? {
        try await self.queue.value(forKey: Self.textKey(id, subscription))
    }

    func remove(_ id: String, of subscription: String) async throws(QueueError) {
        let entry = try await self.queue.value(forKey: Self.entryKey(id, subscription))
        try await self.removeText(id, subscription)
        // Last, so that a process that dies before has left the key that deletes the rest.
        if let entry = entry.flatMap({ StoredJSON.decode(Entry.self, from: $0) }) {
            try await self.queue.setValue(nil, forKey: Self.expiryKey(entry.expiry, id, subscription))
        }
    }

    private func removeText(_ id: String, _ subscription: String) async throws(QueueError) {
        try await self.queue.setValue(nil, forKey: Self.textKey(id, subscription))
        try await self.queue.setValue(nil, forKey: Self.entryKey(id, subscription))
    }

    /// Removes all messages of a subscription.
    func removeAll(of subscription: String) async throws(QueueError) {
        let prefix = "\(Self.entries)\(subscription)/"
        for key in try await self.queue.values(withPrefix: prefix).keys {
            try await self.remove(String(key.dropFirst(prefix.count)), of: subscription)
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
                try await self.removeText(String(parts[4]), String(parts[3]))
            }
            try await self.queue.setValue(nil, forKey: key)
        }
        return due.count == limit
    }

    private static func textKey(_ id: String, _ subscription: String) -> String { "\(self.texts)\(subscription)/\(id)" }
    private static func entryKey(_ id: String, _ subscription: String) -> String {
        "\(self.entries)\(subscription)/\(id)"
    }
    private static func expiryKey(_ expiry: Int64, _ id: String, _ subscription: String) -> String {
        "\(self.expiries)\(self.digits(expiry))/\(subscription)/\(id)"
    }

    /// Seconds since 1970 as texts that have the order of the numbers.
    private static func digits(_ seconds: Int64) -> String {
        let text = String(max(seconds, 0))
        return String(repeating: "0", count: max(0, 12 - text.count)) + text
    }
}
