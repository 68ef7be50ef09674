/// A position in the feed of outcomes. Larger is later. Positions may have gaps.
public struct FeedCursor: Sendable, Hashable, Comparable {
    public var position: Int64

    public init(position: Int64) {
        self.position = position
    }

    public static func < (left: FeedCursor, right: FeedCursor) -> Bool { left.position < right.position }
}

/// What a feed contains.
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

/// A page of a feed.
public struct FeedPage: Sendable {
    public var entries: [FeedEntry]
    /// The end of the page: pass it to read the next one. Nil if the feed is empty and none was passed.
    public var cursor: FeedCursor?

    public init(entries: [FeedEntry], cursor: FeedCursor?) {
        self.entries = entries
        self.cursor = cursor
    }
}
