import APNSModel
import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import PushQueue

/// Handing pushes in, and one push.
struct PushRoutes: Sendable {
    let apps: [String: RelayApp]
    let dispatch: DispatchSettings
    let queue: any PushQueue
    let clock: any QueueClock
    let status: any RelayStatus
    let reader: RequestBodyReader
    let limits: CallerLimits
    let ids = PushIDGenerator()

    var routes: [APIRoute] {
        [
            APIRoute(.post, "/v1/pushes") { try await self.enqueue($0) },
            APIRoute(.get, "/v1/pushes/{id}") { try await self.read($0) },
            APIRoute(.delete, "/v1/pushes/{id}") { try await self.cancel($0) },
        ]
    }

    // MARK: Handing in

    private func enqueue(_ request: APIRequest) async throws -> Response {
        let format = try Self.format(request.request.headers)
        // Of one push, there is no other part.
        let isPartial = try request.query(["partial"]).bool("partial") && format == .lines
        // Before the body is read: a caller that must wait costs nothing.
        try self.limits.take(0, request.caller)
        let batch = try await self.batch(request, format, isPartial: isPartial)
        guard batch.count > 0 else {
            throw APIError(.badRequest, .badJSON, "The body holds no push.")
        }
        try self.limits.take(batch.count, request.caller)
        if !isPartial, let fault = batch.faults.first { throw APIError(fault) }

        var response = EnqueueResponse(faults: batch.faults)
        if !batch.pushes.isEmpty {
            let results: [EnqueueResult]
            do {
                results = try await self.queue.enqueue(batch.pushes, isPartial: isPartial)
            } catch {
                request.logger.warning("Pushes were not stored", metadata: ["error": "\(error.message)"])
                throw APIError(error)
            }
            response.add(results, of: batch)
            if !isPartial, let fault = response.faults.first { throw APIError(fault) }
            self.report(results, of: batch.pushes)
        }
        return response.response
    }

    /// Reads and parses the body. Its bytes are freed when this returns.
    private func batch(_ request: APIRequest, _ format: PushBatch.Format, isPartial: Bool) async throws -> PushBatch {
        var reserved = 0
        defer {
            self.reader.budget.release(reserved)
            request.context.bodyBytes.value = reserved
        }
        let body = try await self.reader.read(request.request, request.context.channel, reserved: &reserved)
        var batch = PushBatch(
            format,
            isPartial: isPartial,
            parser: PushParser(
                apps: self.apps,
                caller: request.caller,
                defaultLane: format == .json ? .interactive : .bulk,
                dispatch: self.dispatch,
                now: self.clock.now,
                ids: self.ids
            )
        )
        while true {
            let progress = body.withUnsafeReadableBytes { batch.parse($0.bindMemory(to: UInt8.self), limit: 500) }
            switch progress {
            case .finished: return batch
            case .unfinished: await Task.yield()
            case .tooMany:
                throw APIError(
                    .contentTooLarge,
                    .tooManyPushes,
                    "The body holds more than \(PushBatch.maximumPushes) pushes. Nothing was stored; divide them "
                        + "between requests."
                )
            }
        }
    }

    private static func format(_ headers: HTTPFields) throws(APIError) -> PushBatch.Format {
        let parts = (headers[.contentType] ?? "").lowercased().split(separator: ";")
            .map { $0.filter { $0 != " " && $0 != "\t" && $0 != "\"" } }
        let isUTF8 = parts.dropFirst().allSatisfy { !$0.hasPrefix("charset=") || $0 == "charset=utf-8" }
        guard headers[.contentEncoding] == nil, isUTF8 else {
            throw APIError(.unsupportedMediaType, .unsupportedMediaType, "Expected UTF-8 without a content encoding.")
        }
        switch parts.first {
        case "application/json": return .json
        case "application/x-ndjson": return .lines
        default:
            throw APIError(
                .unsupportedMediaType,
                .unsupportedMediaType,
                "Expected the content type application/json (one push) or application/x-ndjson (one push a line)."
            )
        }
    }

    /// Tells the rest of the relay what was stored.
    private func report(_ results: [EnqueueResult], of pushes: [NewPush]) {
        var queued: [Route: Int] = [:]
        var duplicates: [Route: Int] = [:]
        for (push, result) in zip(pushes, results) {
            switch result {
            case .queued: queued[push.route, default: 0] += 1
            case .duplicate: duplicates[push.route, default: 0] += 1
            case .conflict: break
            }
        }
        self.status.count(queued: queued, duplicates: duplicates)
        if !queued.isEmpty { self.status.signal(Set(queued.keys)) }
    }

    // MARK: One push

    private func read(_ request: APIRequest) async throws -> Response {
        _ = try request.query()
        return .json(PushStatusJSON(try await self.push(request)))
    }

    private func cancel(_ request: APIRequest) async throws -> Response {
        _ = try request.query()
        let push = try await self.push(request)
        switch try await self.queue.calling({ queue throws(QueueError) in try await queue.cancel(push.id) }) {
        case .cancelled:
            let now = try await self.queue.calling { queue throws(QueueError) in try await queue.status(of: push.id) }
            return .json(SettledJSON(id: push.id.description, outcome: now?.outcome.map { OutcomeJSON($0) }))
        case .written:
            throw APIError(.conflict, .written, "The push is being sent, or was sent.")
        case .settled(let outcome):
            throw APIError(.conflict, .settled, "The push already has the outcome \(outcome.certainty.rawValue).")
        case .notFound: throw Self.unknownPush
        }
    }

    /// The push in the path, if the caller may see it.
    private func push(_ request: APIRequest) async throws(APIError) -> PushStatus {
        guard let id = APNSID(request.pathPart("id")),
            let push = try await self.queue.calling({ queue throws(QueueError) in try await queue.status(of: id) }),
            request.caller.maySend(to: push.route.app)
        else { throw Self.unknownPush }
        return push
    }

    private static let unknownPush = APIError.notFound("There is no push with this id, or it is no longer kept.")
}

extension PushQueue {
    /// Calls the queue, and turns its errors into those of the API.
    func calling<Value: Sendable>(
        _ body: (Self) async throws(QueueError) -> Value
    ) async throws(APIError) -> Value {
        do {
            return try await body(self)
        } catch {
            throw APIError(error)
        }
    }
}

/// The end of a push that a request settled.
struct SettledJSON: Encodable {
    var id: String
    var state = PushStatus.State.settled.rawValue
    var outcome: OutcomeJSON?
}
