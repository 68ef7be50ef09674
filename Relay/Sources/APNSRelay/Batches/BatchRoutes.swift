@_spi(Relay) import APNSModel
import HTTPTypes
import Hummingbird
import NIOCore
import NIOHTTPTypes
import PushQueue

/// The endpoints that submit batches, report their progress, and pause, slow or cancel them.
struct BatchRoutes: Sendable {
    /// Cancelled at once. The dispatcher cancels the rest.
    private static let cancelledAtOnce = 10_000
    private static let maxChangeBytes = 4_096

    let live: LiveSettings
    let dispatch: DispatchSettings
    let queue: any PushQueue
    let clock: any QueueClock
    let status: any RelayStatus
    let reader: RequestBodyReader
    let intake: PushIntake
    private let ids = PushIDGenerator()

    private var store: BatchStore { BatchStore(queue: self.queue) }

    init(
        live: LiveSettings,
        dispatch: DispatchSettings,
        queue: any PushQueue,
        clock: any QueueClock,
        status: any RelayStatus,
        reader: RequestBodyReader,
        intake: PushIntake
    ) {
        self.live = live
        self.dispatch = dispatch
        self.queue = queue
        self.clock = clock
        self.status = status
        self.reader = reader
        self.intake = intake
    }

    var routes: [APIRoute] {
        [
            APIRoute(.post, "/v1/batches", .oneOf([.send])) { try await self.submit($0) },
            APIRoute(.get, "/v1/batches", .oneOf([.read, .readAll])) { try await self.list($0) },
            APIRoute(.get, "/v1/batches/{id}", .oneOf([.read, .readAll])) { try await self.read($0) },
            APIRoute(.patch, "/v1/batches/{id}", .oneOf([.cancel, .cancelAll])) { try await self.change($0) },
            APIRoute(.delete, "/v1/batches/{id}", .oneOf([.cancel, .cancelAll])) { try await self.cancel($0) },
        ]
    }

    /// Whether a request submits a batch.
    static func isUpload(_ head: HTTPRequest) -> Bool {
        head.method == .post && (head.path == "/v1/batches" || head.path?.hasPrefix("/v1/batches?") ?? false)
    }

    // MARK: Submitting

    private struct SubmittedJSON: Encodable {
        var batch: BatchJSON
        /// Whether all devices were stored before this request, which has added none.
        var duplicate: Bool
        /// The devices that this request has added.
        var stored: Int
        /// The first hundred invalid lines of this request.
        var errors: [FaultJSON]
    }

    private func submit(_ request: APIRequest) async throws -> Response {
        let mediaType = try request.mediaType()
        let isPartial = try request.query(["partial"]).bool("partial")
        switch mediaType {
        case "application/json":
            return try await self.reader.withBody(of: request) { body in
                try await self.submitWhole(body, request, isPartial: isPartial)
            }
        case "application/x-ndjson":
            return try await self.reader.withRoom(for: PushParser.longestPush + BatchUpload.partBytes) {
                try await self.submitLines(request, isPartial: isPartial)
            }
        default:
            throw APIError(
                .unsupportedMediaType,
                .unsupportedMediaType,
                "Expected the content type application/x-ndjson (the batch on the first line, and then a device on each), or "
                    + "application/json (one object with the member tokens)."
            )
        }
    }

    private func submitWhole(_ body: ByteBuffer, _ request: APIRequest, isPartial: Bool) async throws -> Response {
        let submission = try self.submission(Array(body.readableBytesView)[...], request)
        guard let devices = submission.devices else {
            throw APIError(.badRequest, .invalidPush, "tokens: this member is missing", field: "tokens")
        }
        guard !devices.isEmpty else { throw Self.withoutDevices }
        var upload = try await self.begin(submission, request, isPartial: isPartial)
        do {
            for (index, device) in devices.enumerated() { try await upload.add(device[...], at: index + 1) }
            try await upload.finish()
        } catch {
            throw await self.failed(upload, error)
        }
        return try await self.submitted(upload)
    }

    private func submitLines(_ request: APIRequest, isPartial: Bool) async throws -> Response {
        RequestBodyReader.continueIfExpected(request.request, request.context.channel)
        var lines = BodyLines(body: request.request.body, limit: PushParser.longestPush).makeAsyncIterator()
        guard let first = try await lines.next() else {
            throw APIError(.badRequest, .badJSON, "The body is empty.")
        }
        let submission = try self.submission(first.text, request)
        guard submission.devices == nil else {
            throw APIError(
                .badRequest,
                .invalidPush,
                "tokens: in application/x-ndjson, each device has a line of its own",
                field: "tokens"
            )
        }
        var line = try await lines.next()
        // An empty request must not store a batch that nothing can be added to.
        if line == nil { throw Self.withoutDevices }
        var upload = try await self.begin(submission, request, isPartial: isPartial)
        do {
            while let device = line {
                try await upload.add(device.text, at: device.number)
                line = try await lines.next()
            }
            try await upload.finish()
        } catch {
            throw await self.failed(upload, error)
        }
        return try await self.submitted(upload)
    }

    private func submission(_ text: ArraySlice<UInt8>, _ request: APIRequest) throws(APIError) -> BatchIntake.Submission
    {
        let parser = PushParser(
            apps: self.live.apps,
            caller: request.caller,
            defaultLane: .bulk,
            dispatch: self.dispatch,
            now: self.clock.now,
            ids: self.ids,
            requestKey: try request.idempotencyKey(limit: PushParser.maximumKeyBytes)
        )
        let submission: BatchIntake.Submission
        do {
            submission = try BatchIntake.submission(text, parser)
        } catch {
            throw APIError(error)
        }
        if let key = parser.requestKey, submission.batch.idempotencyKey != key { throw APIError.otherKeyInHeader }
        return submission
    }

    /// Stores the batch, or finds the one that the caller has submitted with the same idempotency key.
    private func begin(
        _ submission: BatchIntake.Submission,
        _ request: APIRequest,
        isPartial: Bool
    ) async throws(APIError) -> BatchUpload {
        var batch = submission.batch
        var state = BatchState()
        state.pushesPerSecond = submission.pushesPerSecond
        state.storedAt = batch.createdAt
        let store = self.store
        let new = (batch, state)
        if let known = try await store.calling({ store throws(QueueError) in try await store.create(new.0, new.1) }) {
            (batch, state) = try await self.found(known)
            guard batch.digest == submission.batch.digest else {
                throw APIError(
                    .conflict,
                    .conflict,
                    "Another batch was submitted with this idempotency key: \(known). The first line of a repetition must be "
                        + "the same, byte for byte in its payload, values and metadata.",
                    field: "idempotencyKey"
                )
            }
            if state.isCancelled {
                throw APIError(
                    .conflict,
                    .conflict,
                    "The batch with this idempotency key was cancelled: \(known). Nothing was stored; use another key to "
                        + "send it.",
                    field: "idempotencyKey"
                )
            }
        }
        do {
            return try BatchUpload(
                batch: batch,
                state: state,
                store: store,
                intake: self.intake,
                clock: self.clock,
                caller: request.caller,
                isPartial: isPartial
            )
        } catch {
            throw APIError(error)
        }
    }

    private func submitted(_ upload: BatchUpload) async throws -> Response {
        self.status.signal()
        return .json(
            SubmittedJSON(
                batch: try await self.json(upload.batch),
                duplicate: upload.isDuplicate,
                stored: upload.stored,
                errors: upload.faults.map { FaultJSON($0) }
            ),
            status: .accepted
        )
    }

    /// Ends an upload that has failed.
    ///
    /// - Returns: the error for the response.
    private func failed(_ upload: BatchUpload, _ error: any Error) async -> any Error {
        var error = error
        if case RequestFault.tooSlow = error {
            error = APIError(.requestTimeout, .timeout, "The body did not arrive in time. Submit the batch again.")
        } else if case RequestFault.shuttingDown = error {
            error = APIError.shuttingDown
        }
        // A batch without a key cannot be continued.
        if upload.batch.idempotencyKey == nil { await self.giveUp(upload, error) }
        return error
    }

    private func giveUp(_ upload: BatchUpload, _ error: any Error) async {
        let batch = upload.batch
        // A limit has refused the first devices, so the batch has no pushes.
        if upload.stored == 0, (error as? APIError)?.status == .tooManyRequests {
            _ = try? await self.store.remove(batch)
            return
        }
        _ = try? await self.store.change(batch.id) { $0.isCancelled = true }
        self.status.signal()
    }

    // MARK: One batch

    private func read(_ request: APIRequest) async throws -> Response {
        _ = try request.query()
        return .json(try await self.json(try await self.batch(request, if: Self.mayRead)))
    }

    private struct Change {
        var paused: Bool?
        var pushesPerSecond: Double??

        init(_ bytes: UnsafeBufferPointer<UInt8>) throws(PushFault) {
            var scanner = JSONScanner(bytes)
            var members: [JSONScanner.Member] = []
            do {
                try scanner.object(into: &members)
            } catch {
                throw PushFault(.badJSON, nil, "\(error)")
            }
            for member in members {
                switch scanner.text(member.key) {
                case "paused":
                    guard member.value.kind == .bool else { throw .invalid("paused", "expected true or false") }
                    self.paused = scanner.text(member.value) == "true"
                case "pushesPerSecond":
                    self.pushesPerSecond =
                        member.value.kind == .null ? .some(nil) : try BatchIntake.rate(member.value, scanner)
                case let name:
                    throw .invalid(printable(name), "unknown member; expected only paused, pushesPerSecond")
                }
            }
        }
    }

    private func change(_ request: APIRequest) async throws -> Response {
        _ = try request.query()
        guard try request.mediaType() == "application/json" else {
            throw APIError(.unsupportedMediaType, .unsupportedMediaType, "Expected the content type application/json.")
        }
        let batch = try await self.batch(request, if: Self.mayChange)
        let reader = RequestBodyReader(limit: Self.maxChangeBytes, budget: self.reader.budget)
        let change = try await reader.withBody(of: request) { body in
            do {
                return try body.withUnsafeReadableBytes { try Change($0.bindMemory(to: UInt8.self)) }
            } catch let fault as PushFault {
                throw APIError(fault)
            }
        }
        let state = try await self.store.calling { store throws(QueueError) in
            try await store.change(batch.id) { state in
                if state.isCancelled { return }
                if let paused = change.paused { state.isPaused = paused }
                if let rate = change.pushesPerSecond { state.pushesPerSecond = rate }
            }
        }
        if state?.isCancelled ?? false { throw Self.cancelled }
        self.status.signal()
        return .json(try await self.json(batch))
    }

    private func cancel(_ request: APIRequest) async throws -> Response {
        _ = try request.query()
        let batch = try await self.batch(request, if: Self.mayChange)
        try await self.store.calling { store throws(QueueError) in
            _ = try await store.change(batch.id) { $0.isCancelled = true }
            var cancelled = 0
            while cancelled < Self.cancelledAtOnce {
                let count = try await store.queue.cancelAll(batch.route, limit: 1_000)
                cancelled += count
                if count < 1_000 { break }
            }
        }
        self.status.signal()
        return .json(try await self.json(batch))
    }

    // MARK: All batches

    private struct BatchesJSON: Encodable {
        var batches: [BatchJSON]
    }

    /// The batches that the caller may read, newest first.
    private func list(_ request: APIRequest) async throws -> Response {
        let limit = try request.query(["limit"]).limit()
        let states = try await self.store.calling { store throws(QueueError) in try await store.states() }
        var found: [(batch: Batch, state: BatchState)] = []
        for (id, state) in states.sorted(by: { $0.key.description > $1.key.description }) {
            guard found.count < limit else { break }
            guard let batch = try await self.store.calling({ store throws(QueueError) in try await store.batch(id) }),
                Self.mayRead(batch, request.caller)
            else { continue }
            found.append((batch, state))
        }
        let counts = try await self.counts(found.map(\.batch))
        return .json(BatchesJSON(batches: zip(found, counts).map { BatchJSON($0.batch, $0.state, $1) }))
    }

    // MARK: Finding

    /// The batch in the path, if the caller has the right.
    private func batch(
        _ request: APIRequest,
        if isAllowed: (Batch, Caller) -> Bool
    ) async throws(APIError) -> Batch {
        guard let id = APNSID(request.pathPart("id")),
            let batch = try await self.store.calling({ store throws(QueueError) in try await store.batch(id) }),
            isAllowed(batch, request.caller)
        else { throw Self.unknownBatch }
        return batch
    }

    private static func mayRead(_ batch: Batch, _ caller: Caller) -> Bool {
        caller.maySend(to: batch.app) && caller.mayRead(pushOf: batch.caller)
    }

    private static func mayChange(_ batch: Batch, _ caller: Caller) -> Bool {
        caller.maySend(to: batch.app) && caller.mayCancel(pushOf: batch.caller)
    }

    private func found(_ id: APNSID) async throws(APIError) -> (Batch, BatchState) {
        let batch = try await self.store.calling { store throws(QueueError) in try await store.batch(id) }
        let state = try await self.store.calling { store throws(QueueError) in try await store.state(id) }
        guard let batch, let state else { throw Self.unknownBatch }
        return (batch, state)
    }

    private func json(_ batch: Batch) async throws(APIError) -> BatchJSON {
        let state = try await self.found(batch.id).1
        return BatchJSON(batch, state, try await self.counts([batch]).first ?? BatchCounts())
    }

    /// The counts of batches at one moment, in their order.
    private func counts(_ batches: [Batch]) async throws(APIError) -> [BatchCounts] {
        let routes = batches.map(\.route)
        return try await self.store.calling { store throws(QueueError) in
            try await store.queue.batchCounts(of: routes)
        }
    }

    private static let unknownBatch = APIError.notFound("There is no batch with this id, or it is no longer kept.")
    private static let withoutDevices = APIError(
        .badRequest,
        .invalidPush,
        "The batch has no device. Nothing was stored."
    )
    static let cancelled = APIError(.conflict, .conflict, "The batch was cancelled.")
}
