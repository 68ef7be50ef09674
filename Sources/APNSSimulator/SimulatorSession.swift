internal import HTTP2Wire
internal import NIOCore
internal import Synchronization

/// What a simulator's connections share, and the lock around it.
final class SimulatorCore: Sendable {
    let configuration: Simulator.Configuration
    let headerReporting = HeaderReporting()
    let state: Mutex<SimulatorState>

    init(_ configuration: Simulator.Configuration) {
        self.configuration = configuration
        let state = SimulatorState(configuration)
        self.headerReporting.isOn = state.engine.hasEarlyFaults
        self.state = Mutex(state)
    }

    /// Changes the state and resumes whom the change has made happy, when the lock is gone.
    func update<Value>(_ body: (inout SimulatorState) -> sending Value) -> sending Value {
        let (value, met) = self.state.withLock { state in
            let value = body(&state)
            return (value, state.satisfiedWaiters())
        }
        for waiter in met { waiter.end(.success(())) }
        return value
    }
}

/// One connection to the simulator. Confined to the connection's loop.
final class SimulatorSession: ServerConnectionDelegate {
    private let core: SimulatorCore
    private let connection: ServerConnection
    private var state: ConnectionState

    init(_ connection: ServerConnection, number: Int, core: SimulatorCore) {
        self.core = core
        self.connection = connection
        self.state = ConnectionState(number: number)
        // A client with a certificate is known from the start.
        if case .none = core.configuration.credential { self.state.hasRaisedLimit = true }
    }

    var number: Int { self.state.number }

    var isIdle: Bool { self.connection.openStreamCount == 0 }

    // MARK: The connection's delegate

    func received(_ requests: [ServerRequest]) {
        let now = SimulatorState.Now(instant: .now, seconds: self.core.configuration.clock())
        var actions: [SessionAction] = []
        self.core.state.withLock { actions = $0.decide(requests, &self.state, now: now) }
        self.perform(actions)
        // Whoever waits for the ledger hears of it when the answers are on their way.
        self.core.update { _ in }
    }

    func streamClosed(_ streamID: Int32, code: HTTP2ErrorCode) {
        if !self.state.earlyAnswered.isEmpty { self.state.earlyAnswered.remove(streamID) }
    }

    func closed(_ error: WireError) {
        let stopping = self.core.update { state in
            state.sessions[self.state.number] = nil
            state.ledger.connectionsClosed += 1
            guard state.isStopped, state.sessions.isEmpty else { return [CheckedContinuation<Void, Never>]() }
            let stopping = state.stopping
            state.stopping = []
            return stopping
        }
        for continuation in stopping { continuation.resume() }
    }

    // MARK: On demand

    func drop(closeNotify: Bool = false) {
        self.state.isLost = true
        self.perform([.drop(closeNotify: closeNotify)])
    }

    func mute() {
        self.state.isLost = true
        self.perform([.mute])
    }

    func goAway(lastStreamID: Int32?, reason: String?, code: UInt32) {
        self.perform([self.state.goAway(lastStreamID, reason: reason, code: code)])
    }

    func set(maxConcurrentStreams: UInt32) {
        self.state.hasRaisedLimit = true
        self.perform([.settings(maxConcurrentStreams: maxConcurrentStreams)])
    }

    // MARK: Inside

    private func perform(_ actions: [SessionAction]) {
        var delayed: [SessionAction.Answer] = []
        var delay = Duration.zero
        for action in actions {
            switch action {
            case .answer(let answer, let after) where after == .zero:
                self.respond(answer)
            case .answer(let answer, let after):
                // Answers that wait equally long share a timer.
                if after != delay {
                    self.schedule(delayed, after: delay)
                    delayed.removeAll()
                    delay = after
                }
                delayed.append(answer)
            case .reset(let streamID, let code):
                self.connection.reset(streamID: streamID, code: code)
            case .settings(let limit):
                self.connection.set(maxConcurrentStreams: limit)
            case .goAway(let lastStreamID, let code, let debugData):
                self.connection.goAway(lastStreamID: lastStreamID, code: code, debugData: debugData)
                self.core.update { $0.ledger.goAwaysSent += 1 }
            case .drop(let closeNotify):
                self.connection.flush()
                self.core.update { $0.ledger.connectionsDropped += 1 }
                if closeNotify { self.connection.close() } else { self.connection.drop() }
            case .mute:
                self.connection.flush()
                self.connection.mute()
            }
        }
        self.schedule(delayed, after: delay)
        self.connection.flush()
    }

    private func schedule(_ answers: [SessionAction.Answer], after delay: Duration) {
        guard !answers.isEmpty else { return }
        self.connection.loop.assumeIsolated().scheduleTask(in: TimeAmount(delay)) {
            for answer in answers { self.respond(answer) }
            self.connection.flush()
        }
    }

    private func respond(_ answer: SessionAction.Answer) {
        self.connection.respond(
            streamID: answer.streamID,
            status: answer.status,
            fields: answer.fields,
            body: answer.body
        )
    }
}
