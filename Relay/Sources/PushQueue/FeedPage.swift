/// A position in the feed of outcomes. Later outcomes have larger positions. Positions may have gaps.
public struct FeedCursor: Sendable, Hashable, Comparable {
    public var position: Int64
    /// The engine's number for the history of the queue that the cursor belongs to; 0 if it is unknown. It is needed
    /// because a queue that was restored from a backup assigns the same positions again, to other outcomes.
    public var generation: UInt32

    public init(position: Int64, generation: UInt32 = 0) {
        self.position = position
        self.generation = generation
    }

    public static func < (left: FeedCursor, right: FeedCursor) -> Bool { left.position < right.position }
}

extension FeedCursor {
    /// The form in requests and responses: the position and the generation, for example `17-9f2c41aa`.
    package var text: String {
        self.generation == 0 ? "\(self.position)" : "\(self.position)-\(String(self.generation, radix: 16))"
    }

    /// Parses a text of the form of ``text``; nil if it is not a cursor.
    package init?(_ text: String) {
        let parts = text.split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
        guard let first = parts.first, first.utf8.first != UInt8(ascii: "+"), let position = Int64(first) else {
            return nil
        }
        self.init(position: position)
        guard parts.count == 2 else { return }
        guard parts[1].utf8.first != UInt8(ascii: "+"), let generation = UInt32(parts[1], radix: 16) else { return nil }
        self.generation = generation
    }
}

/// The contents of a feed.
public enum FeedKind: Sendable, Hashable {
    /// Every settled push.
    case outcomes
    /// Only pushes whose outcome invalidates the device token (status 410).
    case invalidTokens
}

/// One settled push in a feed.
public struct FeedEntry: Sendable {
    public var cursor: FeedCursor
    /// Always in the state `settled`.
    public var push: PushStatus

    public init(cursor: FeedCursor, push: PushStatus) {
        self.cursor = cursor
        self.push = push
    }
}

/// The outcomes that a reader of a feed has missed.
public struct FeedGap: Sendable, Hashable {
    public enum Reason: Sendable, Hashable {
        /// Outcomes after the cursor were deleted, because their retention was over.
        case deleted
        /// The queue was restored from a backup or replaced. It does not have some outcomes that the reader has read.
        /// It assigns their positions to other outcomes.
        case restored
    }

    public var reason: Reason
    /// The first and the last missing position. Some of the missing outcomes may be of other apps or of another kind.
    public var first: Int64
    public var last: Int64
    /// The cursor at which the page begins. A reader can continue from here.
    public var resume: FeedCursor

    public init(reason: Reason, first: Int64, last: Int64, resume: FeedCursor) {
        self.reason = reason
        self.first = first
        self.last = last
        self.resume = resume
    }
}

/// A page of a feed.
public struct FeedPage: Sendable {
    public var entries: [FeedEntry]
    /// The end of the page. Pass it to `outcomes` to read the next page. Nil if the feed is empty and no cursor was
    /// given.
    public var cursor: FeedCursor?
    /// Whether the page ends where the feed ended when it was read. If not, more outcomes may follow.
    public var isEnd: Bool
    /// The outcomes that are missing between the given cursor and the page; nil if none is missing.
    public var gap: FeedGap?
    /// The present generation of the feed, of which the next outcome gets its cursor; 0 if it is unknown.
    public var generation: UInt32

    public init(
        entries: [FeedEntry],
        cursor: FeedCursor?,
        isEnd: Bool,
        gap: FeedGap? = nil,
        generation: UInt32 = 0
    ) {
        self.entries = entries
        self.cursor = cursor
        self.isEnd = isEnd
        self.gap = gap
        self.generation = generation
    }
}
