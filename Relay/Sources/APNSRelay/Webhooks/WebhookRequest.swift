import PushQueue

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// The body of a request to a webhook.
struct WebhookRequest: Sendable {
    /// The number of outcomes in the body. It is smaller than that of the extent if some were deleted.
    var count: Int
    /// JSON: `{"outcomes":[…]}`.
    var body: [UInt8]

    init(_ entries: [FeedEntry]) throws {
        struct Body: Encodable {
            var outcomes: [PushStatusJSON]
        }
        let body = Body(outcomes: entries.map { PushStatusJSON($0.push, cursor: $0.cursor) })
        self.count = entries.count
        // A request has the same bytes after a restart.
        self.body = try ResponseEncoder.encode(body)
    }

    /// Reads the outcomes of an extent that are still kept.
    ///
    /// If the settings have changed since, they can only remove outcomes. A receiver never gets outcomes of an app that
    /// is no longer in its settings.
    static func entries(
        of extent: WebhookExtent,
        settings: WebhookSettings,
        queue: any PushQueue
    ) async throws(QueueError) -> [FeedEntry] {
        var apps = extent.apps.map { Set($0) } ?? settings.apps
        if let allowed = settings.apps { apps?.formIntersection(allowed) }
        let kind: FeedKind = extent.onlyInvalidTokens || settings.onlyInvalidTokens ? .invalidTokens : .outcomes
        var entries: [FeedEntry] = []
        var cursor = extent.after.map { FeedCursor(position: $0) }
        while entries.count < extent.count {
            let page = try await queue.outcomes(
                after: cursor,
                apps: apps,
                kind: kind,
                limit: extent.count - entries.count
            )
            entries += page.entries.filter { $0.cursor.position >= extent.first && $0.cursor.position <= extent.last }
            guard let end = page.cursor, end.position < extent.last, end.position > cursor?.position ?? .min else {
                break
            }
            cursor = end
        }
        return entries
    }
}
