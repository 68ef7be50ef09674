import APNSModel
import HTTPTypes
import Hummingbird
import PushQueue
import ServiceLifecycle

/// The endpoints of the feeds: outcomes, and invalid device tokens.
struct FeedRoutes: Sendable {
    /// The longest wait for news, in seconds.
    private static let longestWait: Int64 = 60
    /// The time between two readings of a reader that waits, because there may be many outcomes that are not for it.
    private static let spacing = Duration.milliseconds(50)

    let queue: any PushQueue
    let news: FeedNews

    var routes: [APIRoute] {
        [
            APIRoute(.get, "/v1/outcomes", .oneOf([.read, .readAll])) { request in
                let page = try await self.page(request, .outcomes)
                return .json(
                    OutcomesJSON(
                        outcomes: page.entries.map { PushStatusJSON($0.push, cursor: $0.cursor) },
                        cursor: page.cursor?.text,
                        end: page.isEnd
                    )
                )
            },
            APIRoute(.get, "/v1/dead-tokens", .oneOf([.read, .readAll])) { request in
                let page = try await self.page(request, .invalidTokens)
                return .json(
                    DeadTokensJSON(tokens: page.entries.map { .init($0) }, cursor: page.cursor?.text, end: page.isEnd)
                )
            },
        ]
    }

    /// A page of a feed without the pushes that the caller may not read about, so it may have fewer entries than its limit.
    private func page(_ request: APIRequest, _ kind: FeedKind) async throws(APIError) -> FeedPage {
        let query = try request.query(["after", "limit", "app", "skipMissing", "wait", "batch"])
        let after = try query.text("after").map { text throws(APIError) in try Self.cursor(text) }
        let skipsMissing = try query.bool("skipMissing")
        let limit = try query.limit()
        var apps = request.caller.apps
        if let app = query.text("app") {
            guard request.caller.maySend(to: app) else {
                throw APIError(.forbidden, .forbidden, "This caller may not read about the app \(printable(app)).")
            }
            apps = [app]
        }
        let wait = try query.integer("wait", in: 0...Self.longestWait, unit: "s") ?? 0
        let batch = try query.text("batch").map { text throws(APIError) in
            guard let id = APNSID(text) else { throw APIQuery.error("batch: expected the id of a batch") }
            return id
        }
        var page = try await self.page(after: after, apps: apps, kind, limit: limit, wait: .seconds(wait))
        if let gap = page.gap, !skipsMissing { throw APIError(gap) }
        page.entries.removeAll { !request.caller.mayRead(pushOf: $0.push.route.caller) }
        page.entries.removeAll { batch != nil && $0.push.route.batch != batch }
        return page
    }

    /// Reads a page. If it would be empty at the end of the feed, waits for outcomes.
    private func page(
        after: FeedCursor?,
        apps: Set<String>?,
        _ kind: FeedKind,
        limit: Int,
        wait: Duration
    ) async throws(APIError) -> FeedPage {
        let deadline = ContinuousClock.now.advanced(by: wait)
        var after = after
        while true {
            // From before the reading, so that no outcome is missed.
            let signals = self.news.signals()
            let page = try await self.queue.calling { [after] queue throws(QueueError) in
                try await queue.outcomes(after: after, apps: apps, kind: kind, limit: limit)
            }
            let left = ContinuousClock.now.duration(to: deadline)
            guard page.entries.isEmpty, page.isEnd, page.gap == nil, left > .zero, !Task.isShuttingDownGracefully,
                !Task.isCancelled
            else { return page }
            // There is no signal for outcomes that other relays or operators store.
            await cancelWhenGracefulShutdown { await signals.next(within: min(left, .seconds(1))) }
            try? await Task.sleep(for: Self.spacing)
            after = page.cursor
        }
    }

    private static func cursor(_ text: String) throws(APIError) -> FeedCursor {
        guard let cursor = FeedCursor(text) else {
            throw APIQuery.error("after: expected the cursor of a page, or a position from 0 to \(Int64.max)")
        }
        return cursor
    }
}

private struct OutcomesJSON: Encodable {
    var outcomes: [PushStatusJSON]
    @OrNull var cursor: String?
    /// Whether the feed ends here for now.
    var end: Bool
}

private struct DeadTokensJSON: Encodable {
    struct Token: Encodable {
        var cursor: String
        var app: String
        var environment: String
        var token: String
        /// Since when the device token is invalid, as APNs reports it.
        @OrNull var since: Double?
        var pushID: String
        @OrNull var settledAt: Double?

        init(_ entry: FeedEntry) {
            self.cursor = entry.cursor.text
            self.app = entry.push.route.app
            self.environment = entry.push.route.environment
            self.token = entry.push.token.hexadecimal
            self.since = entry.push.outcome?.invalidation?.secondsSince1970
            self.pushID = entry.push.id.description
            self.settledAt = entry.push.settledAt?.seconds
        }
    }

    var tokens: [Token]
    @OrNull var cursor: String?
    var end: Bool
}
