internal import APNSModel
internal import APNSBasics
internal import APNSTransport
internal import NIOCore

/// The state that all connections of a simulator share. Its lock is taken once for each batch of requests.
struct SimulatorState {
    struct Waiter {
        var condition: @Sendable (Ledger) -> Bool
        let result: OneShot<Result<Void, SimulatorError>>
        var timer: Scheduled<Void>?

        func end(_ result: Result<Void, SimulatorError>) {
            self.timer?.cancel()
            self.result.give(result)
        }
    }

    /// The time of a batch of requests.
    struct Now {
        var instant: ContinuousClock.Instant
        /// How long the simulator has run.
        var uptime: Duration
        /// Seconds since 1970.
        var seconds: Int64
        /// Milliseconds since 1970 by the system's clock, which faults do not change.
        var milliseconds: Int64
    }

    /// How many bytes of a response's body are recorded.
    private static let payloadLimit = 65_536

    let configuration: Simulator.Configuration
    private let asksForToken: Bool
    var rules: APNSRules { didSet { self.channels.topics = self.rules.topics } }
    var channels = ChannelStore()
    var devices = VirtualDevices()
    var verifier: ProviderTokenVerifier
    /// Whether a key may have only one new provider token in 20 minutes. It changes with `limitProviderTokenUpdates`.
    private(set) var limitsProviderTokenUpdates: Bool
    /// Increases whenever the keys change.
    var keyGeneration = 0
    var engine: FaultEngine
    var ledger: Ledger
    /// The offset of its clock in seconds.
    var clockOffset: Int64
    /// The time until which responses are held back on all connections.
    var pausedUntil: ContinuousClock.Instant?
    /// For generated ids.
    var random: SplitMix64
    private var date: (seconds: Int64, text: [UInt8])?

    var sessions: [Int: NIOLoopBound<SimulatorSession>] = [:]
    var isStopped = false
    var stopping: [OneShot<Void>] = []
    var waiters: [Int: Waiter] = [:]
    var nextWaiter = 0

    init(_ configuration: Simulator.Configuration) {
        self.configuration = configuration
        self.rules = APNSRules(topics: configuration.topics)
        self.channels.topics = configuration.topics
        self.channels.maximum = configuration.maximumChannels
        self.channels.spacing = configuration.broadcastSpacing
        var keys: [String: Simulator.Key] = [:]
        var acceptsUnknownKeys = false
        self.asksForToken = configuration.credential.asksForToken
        switch configuration.credential {
        case .anyProviderToken:
            acceptsUnknownKeys = true
        case .keys(let known):
            for key in known { keys[key.keyID] = key }
        case .none, .clientCertificate:
            break
        }
        self.limitsProviderTokenUpdates = configuration.limitsProviderTokenUpdates
        self.devices.offlineStorage = configuration.offlineStorage
        self.verifier = ProviderTokenVerifier(acceptsUnknownKeys: acceptsUnknownKeys, keys: keys)
        self.engine = FaultEngine(seed: configuration.seed)
        self.ledger = Ledger(keep: configuration.keep)
        self.random = SplitMix64(seed: configuration.seed &+ 0x5EED)
        self.clockOffset = Self.clockOffset(configuration)
    }

    /// Turns the limit on or off. The keys' earlier tokens do not count.
    mutating func limitProviderTokenUpdates(_ isOn: Bool) {
        guard isOn != self.limitsProviderTokenUpdates else { return }
        self.limitsProviderTokenUpdates = isOn
        self.verifier.forgetUpdates()
        // Connections must present their tokens again.
        self.keyGeneration += 1
    }

    static func clockOffset(_ configuration: Simulator.Configuration) -> Int64 {
        let limit = Simulator.clockOffsetLimit
        return min(max(configuration.clockOffset, -limit), limit)
    }

    /// The waiters whose condition the ledger now meets. Resume them after releasing the lock.
    mutating func satisfiedWaiters() -> [Waiter] {
        guard !self.waiters.isEmpty else { return [] }
        let met = self.waiters.filter { $0.value.condition(self.ledger) }
        for id in met.keys { self.waiters[id] = nil }
        return Array(met.values)
    }

    // MARK: Decisions

    mutating func decide(
        _ requests: [ServerRequest],
        _ connection: inout ConnectionState,
        now: Now
    ) -> [SessionAction] {
        var actions: [SessionAction] = []
        actions.reserveCapacity(requests.count + 1)
        var now = now
        now.seconds = Self.sum(now.seconds, self.clockOffset)
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

    private static func sum(_ seconds: Int64, _ offset: Int64) -> Int64 {
        let (sum, overflows) = seconds.addingReportingOverflow(offset)
        return overflows ? seconds : sum
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
        let draw = self.engine.draw(self.situation(.headers, connection, now)) { view.deviceTokenText }
        guard let decisive = draw.decisive else { return }
        self.ledger.count(faults: draw.names)
        connection.highestStreamID = max(connection.highestStreamID, request.streamID)
        connection.earlyResponded.insert(request.streamID)
        let id = self.responseID(view)
        if case .reset(let code, let isProcessed) = decisive {
            var note = Note(fate: .reset, isProcessed: isProcessed, faults: draw.names)
            note.isRefusal = code == HTTP2ErrorCode.refusedStream.rawValue
            self.record(request, view, id, connection, now, note)
            actions.append(.reset(request.streamID, HTTP2ErrorCode(rawValue: code)))
        }
        guard case .earlyResponse(let scripted) = decisive else { return }
        var note = Note(verdict: scripted.verdict, isProcessed: scripted.isProcessed, faults: draw.names)
        note.delay = self.wait(.zero, connection, now)
        let response = self.response(request.streamID, scripted.verdict, id, now, scripted)
        note.response = response
        self.record(request, view, id, connection, now, note)
        actions.append(.respond(response, after: note.delay))
    }

    func situation(
        _ event: FaultTrigger.Event,
        _ connection: ConnectionState,
        _ now: Now
    ) -> FaultEngine.Situation {
        FaultEngine.Situation(event: event, connection: connection.number, uptime: now.uptime)
    }

    private mutating func decide(
        _ request: ServerRequest,
        _ view: RequestView,
        _ connection: inout ConnectionState,
        _ now: Now,
        into actions: inout [SessionAction]
    ) {
        let streamID = request.streamID
        if !connection.earlyResponded.isEmpty, connection.earlyResponded.remove(streamID) != nil { return }
        if streamID > connection.goAwayStreamID {
            self.record(request, view, nil, connection, now, Note(fate: .aboveGoAway))
            return
        }
        let fault = self.credentialFault(view.authorization, &connection, now)
        if connection.isLost {
            var note = Note(fate: .lost)
            var madeID: String?
            if connection.processesWhenLost {
                let plan = self.plan(view, request.body, credentialFault: fault, now)
                note.verdict =
                    plan?.verdict
                    ?? self.rules.verdict(on: view, bodyCount: request.body.count, credentialFault: fault)
                madeID = self.carryOut(plan, isProcessed: note.countsAsProcessed, now)
            }
            self.record(request, view, nil, connection, now, note, madeID: madeID)
            return
        }
        if fault == nil, !connection.hasRaisedLimit {
            connection.hasRaisedLimit = true
            actions.append(.settings([.maxConcurrentStreams(self.configuration.maxConcurrentStreams)]))
        }
        var draw = FaultEngine.Draw()
        if self.engine.hasRequestFaults {
            draw = self.engine.draw(self.situation(.request, connection, now)) { view.deviceTokenText }
            self.ledger.count(faults: draw.names)
            for kind in draw.beside { self.apply(kind, &connection, now, into: &actions) }
        }
        if case .goAway(let goAway) = draw.decisive {
            self.goAway(goAway, streamID, &connection, into: &actions)
            if streamID > connection.goAwayStreamID {
                self.record(request, view, nil, connection, now, Note(fate: .aboveGoAway, faults: draw.names))
                return
            }
        }
        connection.highestStreamID = max(connection.highestStreamID, streamID)
        let plan = self.plan(view, request.body, credentialFault: fault, now)
        let verdict =
            plan?.verdict ?? self.rules.verdict(on: view, bodyCount: request.body.count, credentialFault: fault)
        let id = self.responseID(view)
        var note = Note(verdict: verdict, faults: draw.names)
        var scripted: ScriptedResponse?
        switch draw.decisive {
        case .respond(let response):
            scripted = response
            note.verdict = response.verdict
            note.isProcessed = response.isProcessed
        case .stall(let isProcessed): note.lose(.stalled, isProcessed)
        case .reset(let code, let isProcessed):
            note.lose(.reset, isProcessed)
            note.isRefusal = code == HTTP2ErrorCode.refusedStream.rawValue
            actions.append(.reset(streamID, HTTP2ErrorCode(rawValue: code)))
        case .drop(let isProcessed, _), .silence(let isProcessed, _, _):
            note.lose(.lost, isProcessed)
            if let kind = draw.decisive { self.end(kind, &connection, into: &actions) }
        default: break
        }
        let madeID = self.carryOut(plan, isProcessed: note.countsAsProcessed, now)
        if note.fate == .responded, let verdict = note.verdict {
            note.delay = self.wait(draw.delay + self.configuration.responseDelay, connection, now)
            let response = self.response(streamID, verdict, id, now, scripted, plan, madeID)
            if self.configuration.recording == .pushes { note.response = response }
            actions.append(.respond(response, after: note.delay))
        }
        self.record(request, view, id, connection, now, note, madeID: madeID)
        if note.countsAsProcessed, connection.teamID == nil { connection.teamID = connection.token.teamID }
    }

    /// The delay of a response: the given delay or the rest of a pause, whichever is longer.
    private func wait(_ delay: Duration, _ connection: ConnectionState, _ now: Now) -> Duration {
        var delay = delay
        if let until = connection.pausedUntil { delay = max(delay, now.instant.duration(to: until)) }
        if let until = self.pausedUntil { delay = max(delay, now.instant.duration(to: until)) }
        return delay
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
            // Apple writes `bearer`, but the scheme is case-insensitive (RFC 9110, section 11.1).
            let scheme = authorization.prefix(7).map { $0 | 0x20 }
            connection.token =
                scheme.elementsEqual("bearer ".utf8) ? self.verifier.inspect(authorization.dropFirst(7)) : .malformed
            if connection.token.isGenuine { self.ledger.count(providerToken: authorization.dropFirst(7)) }
            connection.needsUpdateCheck = self.limitsProviderTokenUpdates
        }
        if let fault = ProviderTokenVerifier.fault(of: connection.token, now: now.seconds) { return fault }
        if connection.needsUpdateCheck {
            connection.needsUpdateCheck = self.verifier.isUpdatedTooOften(
                connection.token,
                bytes: connection.authorization,
                now: now.seconds
            )
            if connection.needsUpdateCheck { return .tooManyProviderTokenUpdates }
        }
        if let teamID = connection.teamID, teamID != connection.token.teamID { return .invalidProviderToken }
        return nil
    }

    // MARK: Responses

    /// The value of `apns-id` in the response: the request's, or a new one.
    private mutating func responseID(_ view: RequestView) -> [UInt8] {
        if let id = view.id ?? view.requestID, APNSID(utf8: id) != nil { return Array(id) }
        // APNs makes ids in upper case.
        return Array(APNSID.random(using: &self.random).description.uppercased().utf8)
    }

    private mutating func response(
        _ streamID: Int32,
        _ verdict: Verdict,
        _ id: [UInt8],
        _ now: Now,
        _ scripted: ScriptedResponse?,
        _ plan: ChannelStore.Plan? = nil,
        _ madeID: String? = nil
    ) -> SessionAction.Response {
        var fields = FieldList()
        let idName: StaticString = plan == nil ? "apns-id" : "apns-request-id"
        switch scripted?.id ?? .asUsual {
        case .asUsual: Self.append(idName, id, to: &fields)
        case .missing: break
        case .text(let text): Self.append(idName, Array(text.utf8), to: &fields)
        }
        if let madeID { Self.append("apns-channel-id", Array(madeID.utf8), to: &fields) }
        if self.configuration.sendsDate { Self.append("date", self.dateText(now.seconds), to: &fields) }
        if verdict.status == 200, plan == nil, self.configuration.environment == .development {
            let uniqueID = Array(APNSID.random(using: &self.random).description.utf8)
            Self.append("apns-unique-id", uniqueID, to: &fields)
        }
        let response = SessionAction.Response(
            streamID: streamID,
            status: verdict.status,
            fields: fields,
            body: scripted?.body ?? (verdict.reason == nil ? plan?.body : nil) ?? verdict.body
        )
        return scripted.map { $0.shape(response) } ?? response
    }

    /// The value of `date`, created once per second.
    private mutating func dateText(_ seconds: Int64) -> [UInt8] {
        if let date, date.seconds == seconds { return date.text }
        let text = Array(HTTPDate.text(seconds).utf8)
        self.date = (seconds, text)
        return text
    }

    private static func append(_ name: StaticString, _ value: [UInt8], to fields: inout FieldList) {
        let name = UnsafeBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount)
        value.withUnsafeBufferPointer { fields.append(name: name, value: $0) }
    }

    // MARK: Recording

    /// The parts of a decision that are recorded.
    struct Note {
        /// Nil if the request was not checked.
        var verdict: Verdict?
        var fate = PushRecord.Fate.responded
        /// Nil: the verdict decides, and 200 to 299 count as processed.
        var isProcessed: Bool?
        var isRefusal = false
        var faults: [String] = []
        /// How long the response is held back.
        var delay = Duration.zero
        /// The response; nil if none is sent.
        var response: SessionAction.Response?

        var countsAsProcessed: Bool {
            self.isProcessed ?? self.verdict.map { (200..<300).contains($0.status) } ?? false
        }

        /// Records that the request gets no response.
        mutating func lose(_ fate: PushRecord.Fate, _ isProcessed: Bool) {
            self.fate = fate
            if !isProcessed { self.verdict = nil }
        }
    }

    /// - Parameter id: nil if the request was not checked.
    private mutating func record(
        _ request: ServerRequest,
        _ view: RequestView,
        _ id: [UInt8]?,
        _ connection: ConnectionState,
        _ now: Now,
        _ note: Note,
        madeID: String? = nil
    ) {
        let isProcessed = note.countsAsProcessed
        let call = ChannelRequest(view)
        if let call, call.operation != .broadcast {
            self.ledger.channelCallsReceived += 1
            if isProcessed { self.ledger.channelCallsProcessed += 1 }
        }
        self.ledger.count(
            note.fate,
            status: note.verdict?.status,
            isProcessed: isProcessed,
            isRefusal: note.isRefusal
        )
        let recording = self.configuration.recording
        guard recording != .counts else { return }
        let apnsID =
            (call == nil ? view.id : view.requestID).map { APNSID(utf8: $0) }
            ?? id?.withUnsafeBufferPointer { APNSID(utf8: $0) }
        if isProcessed, let apnsID, call == nil || call?.operation == .broadcast {
            self.ledger.count(processed: apnsID)
        }
        guard recording != .ids else { return }
        if let call, call.operation != .broadcast {
            self.record(call, request, id: apnsID, connection, now, note, isProcessed: isProcessed, madeID: madeID)
            return
        }
        let keepsPayload = recording == .pushes
        let push = PushRecord(
            order: self.ledger.lastOrder + 1,
            connection: connection.number,
            streamID: request.streamID,
            time: now.instant,
            milliseconds: now.milliseconds,
            deviceToken: Self.deviceToken(call, view),
            channelID: call.map { $0.channelID ?? "" },
            apnsID: apnsID,
            topic: call?.bundleID ?? view.topic.map(Bytes.text),
            pushType: view.pushType.map { PushType(rawValue: Bytes.text($0)) },
            priority: view.priority.flatMap(Bytes.decimal).map { Priority(rawValue: Int($0)) },
            expiration: view.expiration.flatMap(Bytes.decimal),
            collapseID: view.collapseID.map(Bytes.text),
            keyID: Self.nonEmpty(connection.token.keyID),
            teamID: Self.nonEmpty(connection.token.teamID),
            tokenNote: connection.token.note,
            fields: keepsPayload ? Self.recorded(request.fields) : FieldList(),
            payload: keepsPayload ? request.body : [],
            payloadBytes: request.body.count,
            status: note.verdict?.status,
            reason: note.verdict?.reason,
            fate: note.fate,
            isProcessed: isProcessed,
            faults: note.faults,
            delay: note.delay,
            responseFields: keepsPayload ? note.response?.fields ?? FieldList() : FieldList(),
            responseBody: keepsPayload ? Array(note.response?.body.prefix(Self.payloadLimit) ?? []) : []
        )
        self.ledger.append(push)
        if !self.devices.isEmpty { self.deliver(push) }
    }

    private static func nonEmpty(_ text: String) -> String? { text.isEmpty ? nil : text }

    private static func deviceToken(_ call: ChannelRequest?, _ view: RequestView) -> String {
        if call != nil { return "" }
        return view.deviceToken == nil ? view.path.map(Bytes.text) ?? "" : view.deviceTokenText
    }

    /// The fields of a request that may be shown: pseudo fields say nothing, and `authorization` is a secret.
    private static func recorded(_ fields: FieldList) -> FieldList {
        var recorded = FieldList()
        fields.forEach { name, value in
            guard name.first != UInt8(ascii: ":"), !Bytes.equal(name, "authorization") else { return }
            recorded.append(name: name, value: value)
        }
        return recorded
    }
}
