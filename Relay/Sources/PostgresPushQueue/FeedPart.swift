import PushQueue

/// A page of the feed as `apns.outcomes_after` returns it.
struct FeedPart: Sendable {
    var entries: [FeedEntry] = []
    /// Where the next page begins; nil for the given cursor.
    var end: Int64?
    /// The last cursor, and the last one that was deleted.
    var last: Int64 = 0
    var pruned: Int64 = 0
    var generations = FeedGenerations([])
    /// Whether the feed ends with the page.
    var isEnd = false

    init(_ rows: Rows) {
        for index in 0..<rows.count {
            let row = rows[index]
            guard row.isNull("id") else {
                // A row whose token no longer is one is left out.
                guard let push = PushStatus(outcomeIn: row) else { continue }
                self.entries.append(FeedEntry(cursor: FeedCursor(position: row.int64("cursor")), push: push))
                continue
            }
            self.end = row.optionalInt64("cursor")
            self.last = row.int64("last")
            self.pruned = row.int64("pruned")
            self.generations = FeedGenerations(
                zip(row.int64s("histories"), row.int64s("starts")).map {
                    .init(id: UInt32(truncatingIfNeeded: $0), start: $1)
                }
            )
            self.isEnd = row.bool("is_end")
        }
    }

    func page(after cursor: FeedCursor?) -> FeedPage {
        let end = self.end.flatMap { $0 > max(cursor?.position ?? 0, 0) ? self.generations.cursor(at: $0) : nil }
        return FeedPage(
            entries: self.entries.map {
                FeedEntry(cursor: self.generations.cursor(at: $0.cursor.position), push: $0.push)
            },
            cursor: end ?? cursor,
            isEnd: self.isEnd,
            generation: self.generations.present
        )
    }
}
