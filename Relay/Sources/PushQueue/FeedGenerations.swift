/// The generations of a file, the oldest first. They show whether a cursor of the feed belongs to the file's history.
///
/// Each opening of the file begins a generation with a random number. A cursor carries the number of the generation
/// that assigned its position, so its position lies before the start of the next generation.
///
/// After a restore from a backup, the file does not know the generations that began after the backup. A cursor of the
/// generation during which the backup was made may lie after the start of the next generation, the one that began with
/// the restore. Both kinds of cursors belong to a lost history.
package struct FeedGenerations: Sendable, Hashable {
    package struct Generation: Sendable, Hashable {
        package var id: UInt32
        /// The first position that this generation may assign.
        package var start: Int64

        package init(id: UInt32, start: Int64) {
            self.id = id
            self.start = start
        }
    }

    /// The known generations, the present one last.
    package let generations: [Generation]

    /// - Parameter generations: the known generations, the present one last. If empty, all cursors are accepted.
    package init(_ generations: [Generation]) {
        self.generations = generations
    }

    /// The number of the present generation; 0 if none is known.
    package var present: UInt32 { self.generations.last?.id ?? 0 }

    /// The cursor of a position, with the generation that assigned it. It stays the same after each opening.
    package func cursor(at position: Int64) -> FeedCursor {
        let owner = self.generations.last { $0.start <= position }
        return FeedCursor(position: position, generation: owner?.id ?? 0)
    }

    /// The generations to remember. Above the limit, those that assigned no position are removed first (a series of
    /// crashes leaves many of them), and then the oldest.
    package static func kept(_ generations: [Generation], limit: Int) -> [Generation] {
        guard generations.count > limit else { return generations }
        let next = generations.dropFirst().map(\.start) + [nil]
        return Array(zip(generations, next).filter { $0.start != $1 }.map(\.0).suffix(limit))
    }

    /// The outcomes that a reader with a cursor has missed.
    ///
    /// - Parameters:
    ///   - cursor: the end of the last page that the reader has read.
    ///   - deleted: the last position that was deleted; 0 if none was.
    ///   - next: the next position.
    package func gap(after cursor: FeedCursor, deleted: Int64, next: Int64) -> FeedGap? {
        // The beginning of the feed.
        if cursor.position <= 0, cursor.generation == 0 { return nil }
        // Up to here, the cursor and the file have the same history.
        let shared = self.end(of: cursor.generation, next: next)
        if cursor.position > shared {
            return FeedGap(
                reason: .restored,
                first: max(shared, 0) &+ 1,
                last: cursor.position,
                resume: self.cursor(at: max(shared, deleted, 0))
            )
        }
        guard cursor.position < deleted else { return nil }
        return FeedGap(
            reason: .deleted,
            first: cursor.position &+ 1,
            last: deleted,
            resume: self.cursor(at: deleted)
        )
    }

    /// The last position that a cursor of a generation can have; -1 if the file does not know the generation.
    private func end(of id: UInt32, next: Int64) -> Int64 {
        if self.generations.isEmpty { return .max }
        if id == 0 { return next &- 1 }
        guard let index = self.generations.lastIndex(where: { $0.id == id }) else { return -1 }
        let following = self.generations.dropFirst(index + 1).first
        return (following?.start ?? next) &- 1
    }
}
