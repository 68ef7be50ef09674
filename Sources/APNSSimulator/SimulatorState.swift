internal import APNSModel
internal import HTTP2Wire
internal import NIOCore

/// What a session is to do, in this order.
enum SessionAction {
    struct Answer {
        var streamID: Int32
        var status: Int
        var fields: FieldList
        var body: [UInt8]
    }

    case answer(Answer, after: Duration)
    case reset(Int32, HTTP2ErrorCode)
    case settings(maxConcurrentStreams: UInt32)
    case goAway(lastStreamID: Int32, code: HTTP2ErrorCode, debugData: [UInt8])
    case drop(closeNotify: Bool)
    case mute
}

/// What the decisions on one connection depend on beside the simulator's own state.
struct ConnectionState {
    let number: Int
    /// The last `authorization` and what was found in it.
    var authorization: [UInt8] = []
    var token = InspectedToken.malformed
    /// The keys' generation that `token` was found with.
    var generation = -1
    var isUpdatedTooOften = false
    /// The team of the first push that was accepted: other teams are refused from then on.
    var teamID: String?
    var hasRaisedLimit = false
    var highestStreamID: Int32 = 0
    /// The lowest last stream id of our GOAWAYs.
    var goAwayStreamID = Int32.max
    var isLost = false
    var earlyAnswered: Set<Int32> = []

    init(number: Int) { self.number = number }

    /// - Parameter streamID: nil: the highest one that was decided on.
    mutating func goAway(_ streamID: Int32?, reason: String?, code: UInt32) -> SessionAction {
        var last = max(streamID ?? self.highestStreamID, 0)
        // Streams that clients open have odd numbers.
        if last.isMultiple(of: 2), last > 0 { last -= 1 }
        self.goAwayStreamID = min(self.goAwayStreamID, last)
        let body = reason.map { Verdict(status: 0, reason: RejectionReason(rawValue: $0)).body } ?? []
        return .goAway(lastStreamID: last, code: HTTP2ErrorCode(rawValue: code), debugData: body)
    }
}

/// All that a simulator's connections share. Lives behind a lock that is taken once for each batch of requests.
struct SimulatorState {
    struct Waiter {
        var condition: @Sendable (Ledger) -> Bool
        var continuation: CheckedContinuation<Result<Void, SimulatorError>, Never>
        var timer: Scheduled<Void>?

        func end(_ result: Result<Void, SimulatorError>) {
            self.timer?.cancel()
            self.continuation.resume(returning: result)
        }
    }

    /// The time of a batch.
    struct Now {
        var instant: ContinuousClock.Instant
        /// Seconds since 1970.
        var seconds: Int64
    }

    let configuration: Simulator.Configuration
    private let asksForToken: Bool
    var rules: APNSRules
    var verifier: ProviderTokenVerifier
    /// Rises whenever the keys change.
    var keyGeneration = 0
    var engine: FaultEngine
    var ledger = Ledger()
    private var random: SeededRandom
    private var order = 0

    var sessions: [Int: NIOLoopBound<SimulatorSession>] = [:]
    var isStopped = false
    var stopping: [CheckedContinuation<Void, Never>] = []
    var waiters: [Int: Waiter] = [:]
    var nextWaiter = 0

    init(_ configuration: Simulator.Configuration) {
        self.configuration = configuration
        self.rules = APNSRules(topics: configuration.topics)
        var keys: [String: ProviderTokenVerifier.Key] = [:]
        var acceptsUnknownKeys = false
        switch configuration.credential {
        case .anyProviderToken:
            acceptsUnknownKeys = true
            self.asksForToken = true
        case .keys(let known):
            self.asksForToken = true
            for key in known { keys[key.keyID] = .init(teamID: key.teamID, publicKey: key.publicKey) }
        case .none:
            self.asksForToken = false
        }
        self.verifier = ProviderTokenVerifier(acceptsUnknownKeys: acceptsUnknownKeys, keys: keys)
        self.engine = FaultEngine(seed: configuration.seed)
        self.random = SeededRandom(seed: configuration.seed &+ 0x5EED)
        for fault in configuration.faults.faults { self.engine.inject(fault) }
    }

    /// The waiters whose condition the ledger meets now, to be resumed when the lock is gone.
    mutating func satisfiedWaiters() -> [Waiter] {
        guard !self.waiters.isEmpty else { return [] }
        let met = self.waiters.filter { $0.value.condition(self.ledger) }
        for id in met.keys { self.waiters[id] = nil }
        return Array(met.values)
    }

    // MARK: Deciding

    mutating func decide(
        _ requests: [ServerRequest],
        _ connection: inout ConnectionState,
        now: Now
    ) -> [SessionAction] {
        var actions: [SessionAction] = []
        actions.reserveCapacity(requests.count + 1)
        for request in requests {
            RequestView.with(request.fields) { view in
                if request.isComplete {
                    self.decide(request, view, &connection, now, into: &actions)
                } else {
                    self.decideEarly(request, view, &connection, now, into: &actions)
                }
            }
        }
        return actions
    }

    private mutating func decideEarly(
        _ request: ServerRequest,
        _ view: RequestView,
        _ connection: inout ConnectionState,
        _ now: Now,
        into actions: inout [SessionAction]
    ) {
        guard self.engine.hasEarlyFaults, !connection.isLost, request.streamID <= connection.goAwayStreamID else {
            return
        }
        let draw = self.engine.draw(isEarly: true, connection: connection.number) { view.deviceTokenText }
        guard case .earlyAnswer(let verdict) = draw.decisive else { return }
        self.ledger.faultsApplied += draw.count
        connection.highestStreamID = max(connection.highestStreamID, request.streamID)
        connection.earlyAnswered.insert(request.streamID)
        let id = self.answerID(view)
        self.record(request, view, id, connection, now, verdict: verdict, fate: .answered)
        actions.append(.answer(self.answer(request.streamID, verdict, id), after: .zero))
    }

    private mutating func decide(
        _ request: ServerRequest,
        _ view: RequestView,
        _ connection: inout ConnectionState,
        _ now: Now,
        into actions: inout [SessionAction]
    ) {
        let streamID = request.streamID
        if !connection.earlyAnswered.isEmpty, connection.earlyAnswered.remove(streamID) != nil { return }
        if connection.isLost || streamID > connection.goAwayStreamID {
            let fate = connection.isLost ? PushRecord.Fate.lost : .aboveGoAway
            self.record(request, view, nil, connection, now, verdict: nil, fate: fate)
            return
        }
        let fault = self.credentialFault(view.authorization, &connection, now)
        if fault == nil, !connection.hasRaisedLimit {
            connection.hasRaisedLimit = true
            actions.append(.settings(maxConcurrentStreams: self.configuration.maxConcurrentStreams))
        }
        var draw = FaultEngine.Draw()
        if !self.engine.isEmpty {
            draw = self.engine.draw(isEarly: false, connection: connection.number) { view.deviceTokenText }
            self.ledger.faultsApplied += draw.count
            if let limit = draw.settings {
                connection.hasRaisedLimit = true
                actions.append(.settings(maxConcurrentStreams: limit))
            }
        }
        let decisive = draw.decisive
        if case .goAway(let point, let reason, let code) = decisive {
            let last: Int32? =
                switch point {
                case .afterThisRequest: max(connection.highestStreamID, streamID)
                case .beforeThisRequest: nil
                case .streamID(let id): id
                }
            actions.append(connection.goAway(last, reason: reason, code: code))
            if streamID > connection.goAwayStreamID {
                self.record(request, view, nil, connection, now, verdict: nil, fate: .aboveGoAway)
                return
            }
        }
        connection.highestStreamID = max(connection.highestStreamID, streamID)
        var verdict = self.rules.verdict(on: view, bodyCount: request.body.count, credentialFault: fault)
        let id = self.answerID(view)
        var fate = PushRecord.Fate.answered
        var isSeen = true
        var isRefusal = false
        var body: [UInt8]?
        switch decisive {
        case nil, .goAway, .delay, .settings, .earlyAnswer: break
        case .answer(let scripted): verdict = scripted
        case .answerBody(let status, let bytes):
            verdict = Verdict(status: status)
            body = bytes
        case .stall(let isProcessed):
            fate = .stalled
            isSeen = isProcessed
        case .reset(let code, let isProcessed):
            fate = .reset
            isSeen = isProcessed
            isRefusal = code == HTTP2ErrorCode.refusedStream.rawValue
            actions.append(.reset(streamID, HTTP2ErrorCode(rawValue: code)))
        case .drop(let isProcessed, let closeNotify):
            fate = .lost
            isSeen = isProcessed
            connection.isLost = true
            actions.append(.drop(closeNotify: closeNotify))
        case .silence:
            fate = .lost
            isSeen = false
            connection.isLost = true
            actions.append(.mute)
        }
        self.record(
            request,
            view,
            id,
            connection,
            now,
            verdict: isSeen ? verdict : nil,
            fate: fate,
            isRefusal: isRefusal
        )
        if isSeen, verdict.status == 200, connection.teamID == nil { connection.teamID = connection.token.teamID }
        guard fate == .answered else { return }
        var answer = self.answer(streamID, verdict, id)
        if let body { answer.body = body }
        actions.append(.answer(answer, after: draw.delay + self.configuration.responseDelay))
    }

    private mutating func credentialFault(
        _ authorization: RequestView.Field?,
        _ connection: inout ConnectionState,
        _ now: Now
    ) -> RejectionReason? {
        guard self.asksForToken else { return nil }
        guard let authorization else { return .missingProviderToken }
        if connection.generation != self.keyGeneration || !authorization.elementsEqual(connection.authorization) {
            connection.generation = self.keyGeneration
            connection.authorization = Array(authorization)
            // Apple writes `bearer`; the scheme's case does not matter (RFC 9110, section 11.1).
            let scheme = authorization.prefix(7).map { $0 | 0x20 }
            connection.token =
                scheme.elementsEqual("bearer ".utf8) ? self.verifier.inspect(authorization.dropFirst(7)) : .malformed
            connection.isUpdatedTooOften =
                self.configuration.limitsProviderTokenUpdates && connection.token.isGenuine
                && self.verifier.isUpdatedTooOften(
                    connection.token,
                    bytes: connection.authorization,
                    now: now.seconds
                )
        }
        if let fault = ProviderTokenVerifier.fault(of: connection.token, now: now.seconds) { return fault }
        if connection.isUpdatedTooOften {
            // The 20 minutes may be over by now.
            connection.isUpdatedTooOften = self.verifier.isUpdatedTooOften(
                connection.token,
                bytes: connection.authorization,
                now: now.seconds
            )
            if connection.isUpdatedTooOften { return .tooManyProviderTokenUpdates }
        }
        if let teamID = connection.teamID, teamID != connection.token.teamID { return .invalidProviderToken }
        return nil
    }

    // MARK: Answering

    /// What goes back in `apns-id`: what was sent, or a new one.
    private mutating func answerID(_ view: RequestView) -> [UInt8] {
        if let id = view.id, Bytes.isUUID(id) { return Array(id) }
        return Bytes.uuid(self.random.next(), self.random.next(), upperCase: true)
    }

    private mutating func answer(_ streamID: Int32, _ verdict: Verdict, _ id: [UInt8]) -> SessionAction.Answer {
        var fields = FieldList()
        Self.append("apns-id", id, to: &fields)
        if verdict.status == 200, self.configuration.environment == .development {
            let uniqueID = Bytes.uuid(self.random.next(), self.random.next(), upperCase: false)
            Self.append("apns-unique-id", uniqueID, to: &fields)
        }
        return SessionAction.Answer(streamID: streamID, status: verdict.status, fields: fields, body: verdict.body)
    }

    private static func append(_ name: StaticString, _ value: [UInt8], to fields: inout FieldList) {
        let name = UnsafeBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount)
        value.withUnsafeBufferPointer { fields.append(name: name, value: $0) }
    }

    // MARK: Recording

    /// - Parameters:
    ///   - id: nil if nobody looked at the request.
    ///   - verdict: nil if nobody looked at the request.
    private mutating func record(
        _ request: ServerRequest,
        _ view: RequestView,
        _ id: [UInt8]?,
        _ connection: ConnectionState,
        _ now: Now,
        verdict: Verdict?,
        fate: PushRecord.Fate,
        isRefusal: Bool = false
    ) {
        self.ledger.count(fate, status: verdict?.status, isRefusal: isRefusal)
        guard self.configuration.recordsPushes else { return }
        self.order += 1
        let sentID = view.id.map(Bytes.text) ?? id.map { String(decoding: $0, as: UTF8.self) }
        self.ledger.pushes.append(
            PushRecord(
                order: self.order,
                connection: connection.number,
                streamID: request.streamID,
                time: now.instant,
                deviceToken: view.deviceToken == nil ? view.path.map(Bytes.text) ?? "" : view.deviceTokenText,
                apnsID: sentID.flatMap { APNSID($0) },
                topic: view.topic.map(Bytes.text),
                pushType: view.pushType.map { PushType(rawValue: Bytes.text($0)) },
                priority: view.priority.flatMap(Bytes.decimal).map { Priority(rawValue: Int($0)) },
                expiration: view.expiration.flatMap(Bytes.decimal),
                collapseID: view.collapseID.map(Bytes.text),
                payload: request.body,
                status: verdict?.status,
                reason: verdict?.reason,
                fate: fate,
                isProcessed: verdict?.status == 200
            )
        )
    }
}
