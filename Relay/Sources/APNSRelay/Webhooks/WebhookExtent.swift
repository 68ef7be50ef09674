import PushQueue

/// The outcomes of one request: a range of the feed, and the filter that selected them.
struct WebhookExtent: Sendable, Hashable, Codable {
    /// Where the request before it ended; nil at the beginning of the feed.
    var after: Int64?
    /// The first and the last outcome.
    var first: Int64
    var last: Int64
    /// The number of outcomes in the request. Deleted ones are missing later.
    var count: Int
    /// The filter at that time, so that a retry after a change of the settings contains no other outcomes.
    var apps: [String]?
    var onlyInvalidTokens: Bool
    /// When its first outcome was settled.
    var oldest: QueueTime
    /// When the request was made. It is given up some time after that.
    var formed: QueueTime
}

/// A request that was given up.
struct ParkedWebhook: Sendable, Hashable, Codable {
    var extent: WebhookExtent
    /// When it was parked.
    var since: QueueTime
    /// The error of its last attempt.
    var error: String
}

/// Where a webhook is in the feed: the stored form, under the key `webhook/NAME`.
struct WebhookPosition: Sendable, Hashable, Codable {
    /// The last outcome that was acknowledged, parked or skipped.
    var position: Int64?
    /// The current request.
    var extent: WebhookExtent?
}
