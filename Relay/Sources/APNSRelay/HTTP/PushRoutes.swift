import APNSModel
import HTTPTypes
import Hummingbird
import NIOCore
import PushQueue

/// The endpoints that store pushes, and that read or cancel one push.
struct PushRoutes: Sendable {
    let live: LiveSettings
    let dispatch: DispatchSettings
    let queue: any PushQueue
    let intake: PushIntake
    let clock: any QueueClock
    let reader: RequestBodyReader
    let limits: CallerLimits
    let ids = PushIDGenerator()

    /// The number of duplicates whose states a response has.
    private static let describedDuplicates = 100

    var routes: [APIRoute] {
        [
            APIRoute(.post, "/v1/pushes", .oneOf([.send])) { try await self.enqueue($0) },
            APIRoute(.get, "/v1/pushes", .oneOf([.read, .readAll])) { try await self.find($0) },
            APIRoute(.get, "/v1/pushes/{id}", .oneOf([.read, .readAll])) { try await self.read($0) },
            APIRoute(.delete, "/v1/pushes/{id}", .oneOf([.cancel, .cancelAll])) { try await self.cancel($0) },
        ]
    }

    // MARK: Submitting

    private func enqueue(_ request: APIRequest) async throws -> Response {
        let format = try Self.format(request)
        // A request with one push has no other pushes to store, so it cannot be partial.
        let isPartial = try request.query(["partial"]).bool("partial") && format == .lines
        let key = try request.idempotencyKey(limit: PushBody.maximumKeyBytes(format))
        // This comes before the body is read, so that a caller above its limit costs little.
        try self.limits.take(0, request.caller)
        return try await self.reader.withBody(of: request) { body in
            let submitted = try await self.parse(body, request, format, key, isPartial: isPartial)
            // The parsed pushes need about as much memory as the body, whose size is reserved until they are stored.
            return try await self.store(submitted, request, format, key, isPartial: isPartial)
        }
    }

    private func store(
        _ submitted: PushBody,
        _ request: APIRequest,
        _ format: PushBody.Format,
        _ key: String?,
        isPartial: Bool
    ) async throws -> Response {
        guard submitted.count > 0 else {
            throw APIError(.badRequest, .badJSON, "The body contains no push.")
        }
        try self.limits.take(submitted.count, request.caller)
        // Pushes that were not stored do not count towards the limit, so a client can repeat the request.
        var stored = 0
        defer { self.limits.giveBack(submitted.count - stored, request.caller) }
        if !isPartial, let fault = submitted.faults.first { throw APIError(fault) }
        if format == .json, let key, let push = submitted.pushes.first, push.idempotency?.key != key {
            throw APIError.otherKeyInHeader
        }

        var response = EnqueueResponse(faults: submitted.faults)
        if !submitted.pushes.isEmpty {
            let results = try await self.intake.store(submitted.pushes, isPartial: isPartial)
            response.add(results, of: submitted, known: try await self.duplicates(results))
            if !isPartial, let fault = response.faults.first { throw APIError(fault) }
            stored = results.count { $0 == .queued }
        }
        return response.response
    }

    /// What became of the first pushes that were submitted before.
    private func duplicates(_ results: [EnqueueResult]) async throws(APIError) -> [APNSID: PushStatus] {
        var found: [APNSID: PushStatus] = [:]
        for case .duplicate(let id) in results.lazy.filter({ $0 != .queued }).prefix(Self.describedDuplicates) {
            found[id] = try await self.queue.calling { queue throws(QueueError) in try await queue.status(of: id) }
        }
        return found
    }

    /// Parses the body. Its bytes are freed when this returns.
    private func parse(
        _ body: consuming ByteBuffer,
        _ request: APIRequest,
        _ format: PushBody.Format,
        _ key: String?,
        isPartial: Bool
    ) async throws -> PushBody {
        var pushes = PushBody(
            format,
            isPartial: isPartial,
            key: key,
            parser: PushParser(
                apps: self.live.apps,
                caller: request.caller,
                defaultLane: format == .json ? .interactive : .bulk,
                dispatch: self.dispatch,
                now: self.clock.now,
                ids: self.ids
            )
        )
        while true {
            let progress = body.withUnsafeReadableBytes { pushes.parse($0.bindMemory(to: UInt8.self), limit: 500) }
            switch progress {
            case .finished: return pushes
            case .unfinished: await Task.yield()
            case .tooMany:
                throw APIError(
                    .contentTooLarge,
                    .tooManyPushes,
                    "The body has more than \(PushBody.maximumPushes) pushes. Nothing was stored. Divide them into "
                        + "several requests."
                )
            }
        }
    }

    private static func format(_ request: APIRequest) throws(APIError) -> PushBody.Format {
        switch try request.mediaType() {
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

    // MARK: One push

    private func read(_ request: APIRequest) async throws -> Response {
        _ = try request.query()
        return .json(PushStatusJSON(try await self.push(request) { $0.mayRead(pushOf: $1) }))
    }

    /// Finds a push of the caller by its idempotency key.
    private func find(_ request: APIRequest) async throws -> Response {
        guard let key = try request.query(["idempotencyKey"]).text("idempotencyKey") else {
            throw APIQuery.error("idempotencyKey: expected the key of a push")
        }
        let name = request.caller.name
        let id = try await self.queue.calling { queue throws(QueueError) in try await queue.id(ofKey: key, caller: name)
        }
        guard let id else { throw Self.unknownPush }
        return .json(PushStatusJSON(try await self.push(id, request) { $0.mayRead(pushOf: $1) }))
    }

    private func cancel(_ request: APIRequest) async throws -> Response {
        _ = try request.query()
        let push = try await self.push(request) { $0.mayRead(pushOf: $1) || $0.mayCancel(pushOf: $1) }
        guard request.caller.mayCancel(pushOf: push.route.caller) else {
            throw APIError.missing([.cancelAll], of: request.caller)
        }
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

    /// The push in the path.
    ///
    /// - Parameter maySee: whether the caller may know of a push of its apps that the caller with this name submitted.
    /// - Throws: `notFound` also if the caller may not know of the push.
    private func push(
        _ request: APIRequest,
        if maySee: (Caller, _ owner: String) -> Bool
    ) async throws(APIError) -> PushStatus {
        guard let id = APNSID(request.pathPart("id")) else { throw Self.unknownPush }
        return try await self.push(id, request, if: maySee)
    }

    private func push(
        _ id: APNSID,
        _ request: APIRequest,
        if maySee: (Caller, _ owner: String) -> Bool
    ) async throws(APIError) -> PushStatus {
        guard
            let push = try await self.queue.calling({ queue throws(QueueError) in try await queue.status(of: id) }),
            request.caller.maySend(to: push.route.app), maySee(request.caller, push.route.caller)
        else { throw Self.unknownPush }
        return push
    }

    private static let unknownPush = APIError.notFound("There is no push with this id or key, or it is no longer kept.")
}

extension PushQueue {
    /// Calls the queue, and converts its errors to errors of the API.
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

/// The outcome of a push that a request settled.
struct SettledJSON: Encodable {
    var id: String
    var state = PushStatus.State.settled.rawValue
    var outcome: OutcomeJSON?
}
