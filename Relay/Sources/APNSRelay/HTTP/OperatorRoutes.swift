import APNSModel
import Hummingbird
import Logging
import PushQueue

/// The endpoints for operators: the overview, and retrying or dropping parked pushes, and skipping a request to a webhook.
struct OperatorRoutes: Sendable {
    let queue: any PushQueue
    let clock: any QueueClock
    let status: any RelayStatus
    let limits: CallerLimits
    let version: String
    private let reading: SharedReading<OverviewReading>

    init(queue: any PushQueue, clock: any QueueClock, status: any RelayStatus, limits: CallerLimits, version: String) {
        self.queue = queue
        self.clock = clock
        self.status = status
        self.limits = limits
        self.version = version
        self.reading = SharedReading(every: .zero) {
            do throws(QueueError) {
                return OverviewReading(
                    counts: try await queue.counts(),
                    due: try await queue.queuedRoutes(),
                    webhooks: await status.webhooks(),
                    notReady: await status.notReady(),
                    readAt: clock.now
                )
            } catch {
                status.countStorageError(error)
                return nil
            }
        }
    }

    var routes: [APIRoute] {
        [
            APIRoute(.get, "/v1/overview", .oneOf([.operate])) { try await self.overview($0) },
            APIRoute(.post, "/v1/clock/confirm", .oneOf([.operate])) { try await self.confirmClock($0) },
            APIRoute(.get, "/v1/parked", .oneOf([.operate])) { try await self.parked($0) },
            APIRoute(.get, "/v1/parked/groups", .oneOf([.operate])) { try await self.parkedGroups($0) },
            APIRoute(.post, "/v1/parked/retry", .oneOf([.operate])) { request in
                try await self.decideAll(request, .queued) { queue, ids throws(QueueError) in
                    try await queue.retryParked(ids)
                }
            },
            APIRoute(.delete, "/v1/parked", .oneOf([.operate])) { request in
                try await self.decideAll(request, .settled) { queue, ids throws(QueueError) in
                    try await queue.dropParked(ids)
                }
            },
            APIRoute(.post, "/v1/parked/{id}/retry", .oneOf([.operate])) { request in
                try await self.decide(request, .queued) { queue, id throws(QueueError) in
                    try await queue.retryParked(id)
                }
            },
            APIRoute(.delete, "/v1/parked/{id}", .oneOf([.operate])) { request in
                try await self.decide(request, .settled) { queue, id throws(QueueError) in
                    try await queue.dropParked(id)
                }
            },
            APIRoute(.post, "/v1/webhooks/{name}/requests/{id}/skip", .oneOf([.operate])) { request in
                try await self.skipWebhookRequest(request)
            },
        ]
    }

    /// Answers from memory if the queue does not respond.
    private func overview(_ request: APIRequest) async throws(APIError) -> Response {
        _ = try request.query()
        let reading =
            await self.reading.fresh(within: .seconds(1), first: .seconds(10))
            ?? OverviewReading(counts: QueueCounts(routes: [], capacity: nil), due: [], webhooks: [])
        return .json(
            OverviewJSON(
                now: self.clock.now,
                version: self.version,
                reading: reading,
                problems: self.status.problems(),
                callers: self.limits.callers(reading.counts),
                apps: self.limits.apps(reading.counts),
                routes: await self.status.routes(),
                totals: self.status.totals,
                history: self.status.history,
                relays: self.status.members(),
                clockJump: self.status.clockJump()
            )
        )
    }

    private func confirmClock(_ request: APIRequest) async throws(APIError) -> Response {
        _ = try request.query()
        guard let jump = self.status.clockJump() else {
            throw APIError(.conflict, .conflict, "The clock has not jumped. There is nothing to confirm.")
        }
        do {
            try await self.status.confirmClock()
        } catch {
            throw APIError(error)
        }
        request.logger.notice(
            "An operator has confirmed the clock",
            metadata: ["caller": "\(request.caller.name)", "ahead": "\(jump)"]
        )
        struct ClockJSON: Encodable { var now: Double }
        return .json(ClockJSON(now: self.clock.now.seconds))
    }

    private struct ParkedJSON: Encodable {
        var pushes: [PushStatusJSON]
        @OrNull var next: String?
    }

    private func parked(_ request: APIRequest) async throws(APIError) -> Response {
        let query = try request.query(["after", "limit"])
        let limit = try query.limit()
        var after: APNSID?
        if let text = query.text("after") {
            guard let id = APNSID(text) else { throw APIQuery.error("after: expected the id of a push") }
            after = id
        }
        let pushes = try await self.queue.calling { [after] queue throws(QueueError) in
            try await queue.parked(after: after, limit: limit)
        }
        let next = pushes.count < limit ? nil : pushes.last?.id.description
        return .json(ParkedJSON(pushes: pushes.map { PushStatusJSON($0) }, next: next))
    }

    private func parkedGroups(_ request: APIRequest) async throws(APIError) -> Response {
        _ = try request.query()
        return .json(
            try await self.queue.calling { queue throws(QueueError) in try await ParkedGroupsJSON.count(queue) }
        )
    }

    private struct DecisionJSON: Encodable {
        var id: String
        var state: String
    }

    private func decide(
        _ request: APIRequest,
        _ state: PushStatus.State,
        _ decide: (any PushQueue, APNSID) async throws(QueueError) -> Bool
    ) async throws(APIError) -> Response {
        _ = try request.query()
        let text = request.pathPart("id")
        guard let id = APNSID(text) else { throw Self.unknownPush }
        let isDone = try await self.queue.calling { queue throws(QueueError) in try await decide(queue, id) }
        guard isDone else { throw Self.unknownPush }
        if state == .queued { self.status.signal() }
        return .json(DecisionJSON(id: id.description, state: state.rawValue))
    }

    /// The maximum number of pushes in one call of the queue.
    static let page = 500

    /// Retries or drops all parked pushes of an app, or those with a reason.
    private func decideAll(
        _ request: APIRequest,
        _ state: PushStatus.State,
        _ decide: (any PushQueue, [APNSID]) async throws(QueueError) -> [Bool]
    ) async throws(APIError) -> Response {
        let query = try request.query(["app", "reason"])
        guard let app = query.text("app") else { throw APIQuery.error("app: expected the name of an app") }
        let reason = query.text("reason")
        var count = 0
        var last: APNSID?
        do {
            while true {
                let parked = try await self.queue.parked(after: last, limit: Self.page)
                guard let end = parked.last else { break }
                last = end.id
                let chosen = parked.filter { push in
                    push.route.app == app && (reason == nil || push.outcome?.error?.reasonName == reason)
                }
                let results = try await decide(self.queue, chosen.map(\.id))
                count += results.count { $0 }
            }
        } catch {
            self.status.countStorageError(error)
            guard count > 0 else { throw APIError(error) }
            throw APIError(
                .serviceUnavailable,
                .undecided,
                "The queue failed after \(count) pushes. Repeat the request for the remaining ones.",
                retryAfter: 5
            )
        }
        if state == .queued, count > 0 { self.status.signal() }
        return .json(DecisionsJSON(pushes: count, state: state.rawValue))
    }

    private struct DecisionsJSON: Encodable {
        var pushes: Int
        var state: String
    }

    private func skipWebhookRequest(_ request: APIRequest) async throws(APIError) -> Response {
        _ = try request.query()
        let (name, id) = (request.pathPart("name"), request.pathPart("id"))
        let skipped: Int?
        do {
            skipped = try await self.status.skipWebhookRequest(name, id)
        } catch {
            throw APIError(error)
        }
        guard let skipped else {
            throw APIError.notFound("This is not the webhook's current request. Perhaps it was acknowledged meanwhile.")
        }
        request.logger.notice(
            "An operator has skipped a request to a webhook",
            metadata: [
                "caller": "\(request.caller.name)", "webhook": "\(name)", "id": "\(id)", "outcomes": "\(skipped)",
            ]
        )
        struct SkippedJSON: Encodable {
            var id: String
            var outcomes: Int
        }
        return .json(SkippedJSON(id: id, outcomes: skipped))
    }

    private static let unknownPush = APIError.notFound("There is no parked push with this id.")
}
