import PushQueue

/// Reads the pushes whose device tokens APNs has declared invalid, from a stored position on. Several relays may do this at the
/// same time, so a push may be read more than once.
struct InvalidTokenReader: Sendable {
    let queue: any PushQueue
    /// The value with the position.
    let cursorKey: String

    /// Reads until there are no more.
    ///
    /// - Parameter handle: handles a push. The position moves on when all pushes of a page are handled.
    func read(_ handle: (PushStatus) async throws(QueueError) -> Void) async throws(QueueError) {
        let stored = try await self.queue.value(forKey: self.cursorKey)
        var cursor = stored.flatMap { FeedCursor(String(decoding: $0, as: UTF8.self)) }
        while !Task.isCancelled {
            let before = cursor
            let page = try await self.queue.outcomes(after: cursor, apps: nil, kind: .invalidTokens, limit: 500)
            for entry in page.entries { try await handle(entry.push) }
            cursor = page.cursor ?? cursor
            if cursor != before, let cursor {
                try await self.queue.setValue(Array(cursor.text.utf8), forKey: self.cursorKey)
            }
            if page.isEnd { return }
        }
    }
}
