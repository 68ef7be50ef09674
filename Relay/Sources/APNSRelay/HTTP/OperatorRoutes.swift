import APNSModel
import Hummingbird
import PushQueue

/// The routes for operators: the overview, and retrying or dropping parked pushes and parked requests to webhooks.
struct OperatorRoutes: Sendable {
    let queue: any PushQueue
    let clock: any QueueClock
    let status: any RelayStatus
    let version: String

    var routes: [APIRoute] {
        [
            APIRoute(.get, "/v1/overview", .operators) { try await self.overview($0) },
            APIRoute(.get, "/v1/parked", .operators) { try await self.parked($0) },
            APIRoute(.post, "/v1/parked/{id}/retry", .operators) { request in
                try await self.decide(request, .queued) { queue, id throws(QueueError) in
                    try await queue.retryParked(id)
                }
            },
            APIRoute(.delete, "/v1/parked/{id}", .operators) { request in
                try await self.decide(request, .settled) { queue, id throws(QueueError) in
                    try await queue.dropParked(id)
                }
            },
            APIRoute(.post, "/v1/webhooks/{name}/parked/{id}/retry", .operators) { request in
                try await self.decideWebhook(request) { name, id throws(QueueError) in
                    try await self.status.retryParkedWebhook(name, id)
                }
            },
            APIRoute(.delete, "/v1/webhooks/{name}/parked/{id}", .operators) { request in
                try await self.decideWebhook(request) { name, id throws(QueueError) in
                    try await self.status.dropParkedWebhook(name, id)
                }
            },
        ]
    }

    private func overview(_ request: APIRequest) async throws(APIError) -> Response {
        _ = try request.query()
        let counts = try await self.queue.calling { queue throws(QueueError) in try await queue.counts() }
        let due = try await self.queue.calling { queue throws(QueueError) in try await queue.queuedRoutes() }
        return .json(
            OverviewJSON(
                now: self.clock.now,
                version: self.version,
                notReady: await self.status.notReady(),
                counts: counts,
                due: due,
                routes: await self.status.routes(),
                totals: self.status.totals,
                webhooks: await self.status.webhooks(),
                relays: self.status.members()
            )
        )
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
        let push = try await self.queue.calling { queue throws(QueueError) in try await queue.status(of: id) }
        let isDone = try await self.queue.calling { queue throws(QueueError) in try await decide(queue, id) }
        guard isDone else { throw Self.unknownPush }
        if state == .queued, let route = push?.route { self.status.signal([route]) }
        return .json(DecisionJSON(id: id.description, state: state.rawValue))
    }

    private func decideWebhook(
        _ request: APIRequest,
        _ decide: (String, String) async throws(QueueError) -> Bool
    ) async throws(APIError) -> Response {
        _ = try request.query()
        let (name, id) = (request.pathPart("name"), request.pathPart("id"))
        let isDone: Bool
        do {
            isDone = try await decide(name, id)
        } catch {
            throw APIError(error)
        }
        guard isDone else { throw APIError.notFound("There is no parked request with this id to this webhook.") }
        struct RetryJSON: Encodable { var id: String }
        return .json(RetryJSON(id: id))
    }

    private static let unknownPush = APIError.notFound("There is no parked push with this id.")
}
