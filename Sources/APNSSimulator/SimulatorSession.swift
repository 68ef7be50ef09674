import APNSModel
import HTTP2Wire
import NIOCore
import Synchronization

/// One connection of the simulator. Confined to its loop; what all connections share is locked once for all requests
/// of a tick.
final class SimulatorSession: ServerConnectionDelegate {
    /// What happens to one request, decided under the lock and done outside it.
    private enum Step {
        case answer(ServerRequest, PushAnswer, id: String?, delay: Duration)
        case answerBody(Int32, status: Int, body: [UInt8])
        case reset(Int32, HTTP2ErrorCode)
        case goAway(lastStreamID: Int32, reason: String?)
        case maxConcurrentStreams(UInt32)
        case drop
    }

    private let connection: ServerConnection
    private let shared: SimulatorState
    private let number: Int
    /// Requests whose answer has not been given yet.
    private var open = 0
    private var isLimitRaised = false
    private var isSilent = false
    private var isDropped = false
    /// After GOAWAY: nothing above it is processed.
    private var lastStreamID = Int32.max
    private var highestStreamID: Int32 = 0
    private var random: SplitMix64

    var hasOpenRequests: Bool { self.open > 0 }

    init(_ connection: ServerConnection, shared: SimulatorState) {
        self.connection = connection
        self.shared = shared
        self.isLimitRaised = shared.configuration.credential == .none
        self.random = SplitMix64(seed: UInt64.random(in: .min ... .max))
        self.number = shared.update { state in
            state.ledger.connectionsOpened += 1
            return state.ledger.connectionsOpened
        }
        let handle = Simulator.SessionHandle(
            loop: connection.loop,
            session: NIOLoopBound(self, eventLoop: connection.loop)
        )
        shared.state.withLock { $0.sessions[self.number] = handle }
    }

    func received(_ requests: [ServerRequest]) {
        let now = self.shared.configuration.clock()
        var steps: [Step] = []
        steps.reserveCapacity(requests.count)
        self.shared.update { state in
            for request in requests { self.decide(request, now, &state, &steps) }
        }
        for step in steps { self.perform(step) }
        self.connection.flush()
    }

    func streamClosed(_ streamID: Int32, code: HTTP2ErrorCode) {}

    func closed(_ error: WireError) {
        self.shared.update { state in
            state.sessions[self.number] = nil
            state.ledger.connectionsClosed += 1
        }
    }

    // MARK: On demand

    func close() { self.connection.close() }

    func drop() {
        guard !self.isDropped else { return }
        self.isDropped = true
        self.shared.update { $0.ledger.drops += 1 }
        self.connection.drop()
    }

    func goAway(reason: String?) {
        guard self.lastStreamID == Int32.max else { return }
        self.lastStreamID = self.highestStreamID
        self.shared.update { $0.ledger.goAways += 1 }
        self.perform(.goAway(lastStreamID: self.highestStreamID, reason: reason))
        self.connection.flush()
    }

    func set(maxConcurrentStreams limit: UInt32) {
        self.connection.set(maxConcurrentStreams: limit)
        self.connection.flush()
    }

    // MARK: Decisions

    private func decide(
        _ request: ServerRequest,
        _ now: Int64,
        _ state: inout Simulator.State,
        _ steps: inout [Step]
    ) {
        guard !self.isDropped, !self.isSilent, request.streamID <= self.lastStreamID else { return }
        self.highestStreamID = max(self.highestStreamID, request.streamID)
        self.open += 1
        state.ledger.pushesReceived += 1
        state.ledger.mostConcurrentStreams = max(state.ledger.mostConcurrentStreams, self.open)

        let push = PushRequest(request)
        let credentialFault: PushAnswer?
        if self.shared.configuration.credential == .none {
            credentialFault = nil
        } else {
            let authorization = request.fields.withFirst("authorization") { Array($0) }
            credentialFault = state.verifier.fault(authorization, now: now)
        }
        if credentialFault == nil, !self.isLimitRaised {
            self.isLimitRaised = true
            steps.append(.maxConcurrentStreams(self.shared.configuration.maxConcurrentStreams))
        }
        let token = push.deviceToken
        let effect = state.script.isEmpty ? nil : state.script.effect(deviceToken: token)
        var answer = APNSRules.answer(
            push,
            credentialFault: credentialFault,
            topics: self.shared.configuration.topics,
            state: state.tokens.isEmpty ? nil : token.flatMap { state.tokens[$0.lowercased()] }
        )
        if self.shared.configuration.answersBeforeBody, answer.reason == "PayloadEmpty" { answer = .accepted }

        var status: Int? = answer.status
        var isProcessed = answer.status == 200
        var delay = self.shared.configuration.responseDelay
        switch effect {
        case nil:
            break
        case .answer(let wanted, let reason):
            answer = PushAnswer(status: wanted, reason: reason)
            status = wanted
            isProcessed = wanted == 200
        case .answerBody(let wanted, let body):
            status = wanted
            isProcessed = wanted == 200
            steps.append(.answerBody(request.streamID, status: wanted, body: Array(body.utf8)))
        case .delay(let milliseconds):
            delay = .milliseconds(milliseconds)
        case .stall:
            status = nil
        case .reset(let code):
            status = nil
            isProcessed = false
            state.ledger.resets += 1
            self.open -= 1
            steps.append(.reset(request.streamID, HTTP2ErrorCode(rawValue: code)))
        case .goAway(let reason, let refusesPush):
            state.ledger.goAways += 1
            self.lastStreamID = refusesPush ? request.streamID - 2 : request.streamID
            steps.append(.goAway(lastStreamID: max(self.lastStreamID, 0), reason: reason))
            if refusesPush {
                status = nil
                isProcessed = false
                self.open -= 1
            }
        case .drop(let processed):
            status = nil
            isProcessed = isProcessed && processed
            self.isDropped = true
            state.ledger.drops += 1
            steps.append(.drop)
        case .silence:
            status = nil
            isProcessed = false
            self.isSilent = true
        case .maxConcurrentStreams(let limit):
            steps.append(.maxConcurrentStreams(limit))
        }
        if isProcessed { state.ledger.pushesProcessed += 1 }
        if let status { state.ledger.answers[status, default: 0] += 1 }
        let isAnsweredElsewhere = if case .answerBody = effect { true } else { false }
        if status != nil, !isAnsweredElsewhere { steps.append(.answer(request, answer, id: push.id, delay: delay)) }
        if self.shared.configuration.recordsPushes {
            state.ledger.pushes.append(
                Ledger.Push(
                    connection: self.number,
                    streamID: request.streamID,
                    apnsID: push.id,
                    deviceToken: token.map(String.init) ?? "",
                    topic: push.topic,
                    pushType: push.pushType,
                    priority: push.priority,
                    expiration: push.expiration,
                    collapseID: push.collapseID,
                    payload: push.body,
                    status: status,
                    reason: status == answer.status ? answer.reason : nil,
                    isProcessed: isProcessed
                )
            )
        }
    }

    // MARK: Deeds

    private func perform(_ step: Step) {
        switch step {
        case .answer(let request, let answer, let id, let delay):
            if delay > .zero {
                self.connection.loop.assumeIsolated().scheduleTask(in: TimeAmount(delay)) {
                    self.answer(request.streamID, answer, id: id)
                    self.connection.flush()
                }
            } else {
                self.answer(request.streamID, answer, id: id)
            }
        case .answerBody(let streamID, let status, let body):
            self.open -= 1
            self.connection.respond(streamID: streamID, status: status, fields: FieldList(), body: body)
        case .reset(let streamID, let code):
            self.connection.reset(streamID: streamID, code: code)
        case .goAway(let lastStreamID, let reason):
            let debugData = reason.map { Array("{\"reason\":\"\($0)\"}".utf8) } ?? []
            self.connection.goAway(lastStreamID: lastStreamID, code: .noError, debugData: debugData)
            // The client closes when its streams are done. Closing at once could destroy what it has yet to read.
            self.connection.loop.assumeIsolated().scheduleTask(in: .seconds(5)) { self.connection.close() }
        case .maxConcurrentStreams(let limit):
            self.connection.set(maxConcurrentStreams: limit)
        case .drop:
            self.connection.flush()
            self.connection.drop()
        }
    }

    private func answer(_ streamID: Int32, _ answer: PushAnswer, id: String?) {
        self.open -= 1
        var fields = FieldList()
        // APNs answers in upper case when it made the id itself, and gives back ours as it came.
        fields.append(name: "apns-id", value: id ?? APNSID.random(using: &self.random).description.uppercased())
        if self.shared.configuration.isDevelopment, answer.status == 200 {
            fields.append(name: "apns-unique-id", value: APNSID.random(using: &self.random).description)
        }
        self.connection.respond(streamID: streamID, status: answer.status, fields: fields, body: answer.body)
    }
}
