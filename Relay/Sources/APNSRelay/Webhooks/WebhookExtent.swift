import PushQueue

/// The outcomes of one request: a range of the feed, and the filter that selected them.
struct WebhookExtent: Sendable, Hashable, Codable {
    /// The position at which the previous request ended; nil at the beginning of the feed.
    var after: Int64?
    /// The positions of the first and the last outcome.
    var first: Int64
    var last: Int64
    /// The generation of the feed when the request was made. After a restore, the same positions may be posted again, with
    /// other outcomes behind them.
    var generation: UInt32 = 0
    /// The number of outcomes when the request was made. Some may be deleted later.
    var count: Int
    /// The filter when the request was made, so that a retry after a change of the settings contains no other outcomes.
    var apps: [String]?
    var onlyInvalidTokens: Bool
    /// When its first outcome was settled.
    var oldest: QueueTime
    /// When the request was made, by the clock for leases.
    var formed: QueueTime
}

/// The stored position of a webhook in the feed, under the key `webhook/NAME`.
struct WebhookPosition: Sendable, Hashable, Codable {
    /// The position of the last outcome that was acknowledged or skipped.
    var position: Int64?
    /// The current request.
    var extent: WebhookExtent?
}
