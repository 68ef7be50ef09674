import APNSBasics
import APNSTransport
import SupervisedPool

/// The state machine of one pool worker, as a value. It decides which connection accepts streams, which ones drain, and
/// when to connect again.
///
/// ```
///            connect                   SETTINGS
///   idle ─────────────▶ connecting ─────────────▶ ready ──┐ GOAWAY, 503: this connection drains and
///    ▲                   │  ▲  ▲                   │      │ a new one connects
///    │            failed │  │  └───────────────────┼──────┘
///    │                   │  │ at `until`           │ lost
///    │ overflow          ▼  │                      │
///    └──────────────── backingOff(until) ◀─────────┘
/// ```
///
/// Not shown: `holding`, the way back to `idle` when the pool no longer needs the connection, and a proven connection
/// whose path is lost: a new one connects at once.
///
/// Network failures are states here, never errors.
struct ConnectionStateMachine {
    enum State: Equatable {
        /// There is no connection and none is wanted: the pool has not asked for one yet or no longer needs it, or the
        /// backoff of an overflow worker is over. Next: `connecting`.
        case idle
        /// A connection is being opened. Next: `ready`, `backingOff`, `idle`.
        case connecting(connection: Int)
        /// The connection accepts streams. Next: `connecting` (replacement), `holding`, `backingOff`, `idle`.
        case ready(connection: Int)
        /// The connection is kept, but gets no new streams before `until`, because it responded with 503 (or with many
        /// 500s) before it was proven to work. Next: `ready`, `connecting`, `backingOff`, `idle`.
        case holding(connection: Int, until: MonotonicInstant)
        /// There is no connection. At `until`, a base worker connects and an overflow worker becomes idle. Both connect
        /// earlier on request unless the configuration is at fault. Next: `connecting`, `idle`.
        case backingOff(until: MonotonicInstant, isConfiguration: Bool)
        case stopped
    }

    enum Action: Equatable {
        case open(connection: Int)
        /// Accept no new streams, and close when the open ones have finished.
        case drain(connection: Int)
        case close(connection: Int)
        /// Call `wake` at this time.
        case wakeAt(MonotonicInstant)
        /// Call `checkForStall` for this connection at this time.
        case checkForStall(at: MonotonicInstant, connection: Int)
        case report(WorkerReport)
        /// APNs refused the credential on this connection.
        case refuseCredential(CredentialStateMachine.Refusal, connection: Int, isFresh: Bool)
    }

    /// The maximum number of replaced connections that drain. One more closes the oldest.
    static let drainingLimit = 2
    /// The minimum wait before connecting again after a configuration fault.
    static let configurationHoldOff = Duration.seconds(5)
    /// The waits before a worker connects again. Configuration faults make them longer.
    static let delays = Backoff(minimum: .milliseconds(100), maximum: .seconds(30))

    private(set) var state = State.idle
    private(set) var draining: [Int] = []
    private var nextConnection = 1
    private var backoff: Backoff
    /// Updated when a connection begins.
    var streamCap: Int
    /// Whether this is a base worker, which reconnects by itself. An overflow worker waits for a request.
    private let isBase: Bool
    /// The number of streams that the peer allows on the current connection, or that its send window carries.
    private var limit = 0
    /// Whether the current connection has received a response that proves that it works.
    private var isProven = false
    private var errors = ErrorRateTracker()
    private var unanswered: UnansweredPushes
    private var adaptiveLimit = AdaptiveStreamLimit()
    /// The latency of the connection that accepts streams.
    var latency = LatencyMeter()

    private var generator: SplitMix64
    /// Takes one replacement from the client's budget; false if the budget is spent. Called only when one is wanted.
    var takeReplacement: @Sendable (MonotonicInstant) -> Bool

    init(
        isBase: Bool,
        streamCap: Int,
        backoff: Backoff,
        unanswered: UnansweredPushes = UnansweredPushes(),
        generator: SplitMix64 = SplitMix64(seed: 1),
        takeReplacement: @escaping @Sendable (MonotonicInstant) -> Bool = { _ in true }
    ) {
        self.unanswered = unanswered
        self.generator = generator
        self.takeReplacement = takeReplacement
        self.isBase = isBase
        self.streamCap = streamCap
        self.backoff = backoff
    }

    // MARK: Inputs

    /// Connects, because the pool needs a connection.
    mutating func connect() -> [Action] {
        switch self.state {
        case .idle:
            return self.open()
        case .backingOff(_, isConfiguration: false):
            return self.open()
        case .backingOff, .connecting, .ready, .holding, .stopped:
            return []
        }
    }

    /// Disconnects, because the pool does not need the connection any more (an idle overflow worker or a surplus one).
    mutating func disconnect() -> [Action] {
        switch self.state {
        case .connecting(let connection):
            self.state = .idle
            return [.close(connection: connection), .report(.idle)]
        case .ready(let connection), .holding(let connection, _):
            self.state = .idle
            return self.startDraining(connection) + [.report(.idle)]
        case .backingOff:
            self.state = .idle
            return [.report(.idle)]
        case .idle, .stopped:
            return []
        }
    }

    /// Replaces the connection because its lifetime is over: it drains, and a new one opens at once.
    mutating func replace() -> [Action] {
        switch self.state {
        case .ready(let connection), .holding(let connection, _): self.drainAndReopen(connection)
        case .idle, .connecting, .backingOff, .stopped: []
        }
    }

    /// Records a 403 about the provider token or the credential. Experience shows that such a connection refuses every
    /// later token too.
    /// A connection that was never proven to work takes a replacement from the budget: without this limit,
    /// a server that refuses every token would cause a storm of handshakes.
    mutating func providerTokenRefused(connection: Int, now: MonotonicInstant) -> [Action] {
        switch self.state {
        case .ready(connection), .holding(connection, _):
            return self.isProven || self.takeReplacement(now) ? self.drainAndReopen(connection) : []
        default:
            return []
        }
    }

    mutating func ready(connection: Int, limit: Int) -> [Action] {
        guard self.state == .connecting(connection: connection) else { return [.close(connection: connection)] }
        self.state = .ready(connection: connection)
        self.limit = limit
        self.isProven = false
        self.errors = ErrorRateTracker()
        self.unanswered.reset()
        self.latency.reset()
        return [.report(.ready(capacity: self.capacity))]
    }

    /// Records that the peer allows another number of streams, or that the send window carries another number.
    mutating func limitChanged(connection: Int, to limit: Int) -> [Action] {
        switch self.state {
        case .ready(connection):
            self.limit = limit
            return [.report(.capacity(self.capacity))]
        case .holding(connection, _):
            self.limit = limit
            return []
        default:
            return []
        }
    }

    /// Records a GOAWAY. Open streams may finish, and the replacement opens without waiting for them.
    ///
    /// - Parameter error: the error that the pool gets; nil in tests.
    mutating func goingAway(
        connection: Int,
        fault: ConnectionFault,
        error: WireError? = nil,
        now: MonotonicInstant
    ) -> [Action] {
        switch self.state {
        case .ready(connection), .holding(connection, _):
            // If the server sent GOAWAY before any successful response, do not reconnect immediately.
            if self.isProven, !fault.isConfiguration { return self.drainAndReopen(connection) }
            return self.startDraining(connection) + self.backOff(fault, error, now)
        default:
            return []
        }
    }

    /// Records that the connection has ended.
    ///
    /// - Parameter error: the error that the pool gets; nil in tests.
    mutating func closed(
        connection: Int,
        fault: ConnectionFault,
        error: WireError? = nil,
        now: MonotonicInstant
    ) -> [Action] {
        if let index = self.draining.firstIndex(of: connection) {
            self.draining.remove(at: index)
            return []
        }
        switch self.state {
        case .ready(connection) where fault == .lostPath && self.isProven,
            .holding(connection, _) where fault == .lostPath && self.isProven:
            // Another connection may well work, so the worker does not wait.
            return [.report(.lost(fault: fault.report(error)))] + self.open()
        case .connecting(connection), .ready(connection), .holding(connection, _):
            return self.backOff(fault, error, now)
        default:
            return []
        }
    }

    /// Records responses that say something about their pushes. They prove that the connection works.
    mutating func receivedProof(connection: Int, count: Int = 1) -> [Action] {
        guard self.currentConnection == connection else { return self.receivedLateProof(connection) }
        self.errors.received(count)
        if !self.isProven {
            self.isProven = true
            self.backoff.reset()
        }
        var actions = self.endSilence(connection)
        if self.adaptiveLimit.limit != nil {
            let before = self.capacity
            self.adaptiveLimit.succeeded(count, maximum: self.maximum)
            if self.capacity != before, self.state == .ready(connection: connection) {
                actions.append(.report(.capacity(self.capacity)))
            }
        }
        return actions
    }

    /// Records responses on a connection that drains. A server that ends its connections before they have responded still
    /// works, so the worker does not wait.
    private mutating func receivedLateProof(_ connection: Int) -> [Action] {
        guard self.draining.contains(connection) else { return [] }
        self.backoff.reset()
        guard case .backingOff(_, isConfiguration: false) = self.state else { return [] }
        return self.open()
    }

    /// Records any other response that is weather. It proves only that the connection responds.
    mutating func receivedOtherResponse(connection: Int) -> [Action] {
        guard self.currentConnection == connection else { return [] }
        self.errors.received()
        return self.endSilence(connection)
    }

    /// Records a response with status 500 or 503. A 503, or many 500s, are evidence against this connection. One that was
    /// proven to work is replaced if the budget allows it, and otherwise has its streams halved. One that was never proven
    /// is held.
    mutating func receivedServerError(_ status: Int, connection: Int, now: MonotonicInstant) -> [Action] {
        guard self.currentConnection == connection else { return [] }
        guard self.errors.received(error: status), self.state == .ready(connection: connection) else {
            return self.endSilence(connection)
        }
        _ = self.unanswered.responded()
        if self.isProven {
            if self.takeReplacement(now) { return self.drainAndReopen(connection) }
            self.adaptiveLimit.halve(capacity: min(self.maximum, self.adaptiveLimit.limit ?? .max), now: now)
            return [.report(.capacity(self.capacity))]
        }
        // The connection was never proven to work, and a replacement would hardly respond better. Keep it and hold.
        let until = now.advanced(by: self.backoff.next(using: &self.generator))
        self.state = .holding(connection: connection, until: until)
        return [.report(.capacity(0)), .wakeAt(until)]
    }

    /// Records that a push got no response by its deadline or within `timeouts.response`.
    ///
    /// - Parameter quietSince: since when streams have been open without a response frame.
    mutating func timedOut(connection: Int, quietSince: MonotonicInstant, now: MonotonicInstant) -> [Action] {
        guard self.readyConnection == connection else { return [] }
        self.unanswered.timeOut(quietSince: quietSince)
        return self.watch(connection, open: 0, now: now)
    }

    // MARK: Submissions

    /// Chooses the connection for a push that is about to be submitted. `latency` times the push unless it already times
    /// another one.
    ///
    /// - Returns: nil if no connection accepts the push.
    @discardableResult
    mutating func willSubmit(tag: StreamTag, now: @autoclosure () -> MonotonicInstant) -> Int? {
        guard let connection = self.readyConnection else { return nil }
        if self.latency.tag == nil { self.latency.submitted(tag, now: now()) }
        return connection
    }

    /// Records that pushes were submitted.
    ///
    /// - Parameters:
    ///   - open: the number of open streams.
    ///   - isNearlyExhausted: whether the connection has few stream IDs left.
    mutating func submitted(
        connection: Int,
        open: Int,
        isNearlyExhausted: Bool = false,
        now: @autoclosure () -> MonotonicInstant
    ) -> [Action] {
        if isNearlyExhausted { return self.readyConnection == connection ? self.drainAndReopen(connection) : [] }
        return self.watch(connection, open: open, now: now())
    }

    /// Watches the connection if it has many unanswered pushes and is not watched yet.
    private mutating func watch(_ connection: Int, open: Int, now: @autoclosure () -> MonotonicInstant) -> [Action] {
        guard self.unanswered.wantsWatching(open: open), self.readyConnection == connection else { return [] }
        return [.checkForStall(at: self.unanswered.watch(now: now()), connection: connection)]
    }

    /// Checks a connection that has many unanswered pushes.
    ///
    /// A connection that stays silent is replaced. If it has had no success at all, it drains, and the worker backs off.
    /// Its open streams keep their deadlines, because responses may still arrive. This does not take from the
    /// replacement budget, because a connection that ends this way has lasted at least ten seconds.
    mutating func checkForStall(
        connection: Int,
        open: Int,
        lastResponse: MonotonicInstant,
        now: MonotonicInstant
    ) -> [Action] {
        guard self.readyConnection == connection, self.unanswered.isWatching else { return [] }
        let before = self.capacity
        let verdict = self.unanswered.check(now: now, open: open, lastResponse: lastResponse)
        var actions: [Action] = []
        switch verdict {
        case .dead:
            if self.isProven { return self.drainAndReopen(connection) }
            return self.startDraining(connection) + self.backOff(.network, nil, now)
        case .watched(let until), .silent(let until):
            actions.append(.checkForStall(at: until, connection: connection))
        case .calm:
            break
        }
        if self.capacity != before, self.state == .ready(connection: connection) {
            actions.append(.report(.capacity(self.capacity)))
        }
        return actions
    }

    private mutating func endSilence(_ connection: Int) -> [Action] {
        guard self.unanswered.responded(), self.state == .ready(connection: connection) else { return [] }
        return [.report(.capacity(self.capacity))]
    }

    mutating func wake(now: MonotonicInstant) -> [Action] {
        switch self.state {
        case .holding(let connection, let until) where until <= now:
            self.state = .ready(connection: connection)
            return [.report(.capacity(self.capacity))]
        case .backingOff(let until, _) where until <= now:
            if self.isBase { return self.open() }
            self.state = .idle
            return [.report(.idle)]
        default:
            return []
        }
    }

    mutating func stop() -> [Action] {
        var connections = self.draining
        if let current = self.currentConnection { connections.append(current) }
        self.draining = []
        self.state = .stopped
        return connections.map { .close(connection: $0) }
    }

    // MARK: Queries

    /// The connection that accepts new streams or holds. While it holds, a push that already has a lease is still sent.
    var readyConnection: Int? {
        switch self.state {
        case .ready(let connection), .holding(let connection, _): connection
        default: nil
        }
    }

    private var currentConnection: Int? {
        switch self.state {
        case .connecting(let connection), .ready(let connection), .holding(let connection, _): connection
        case .idle, .backingOff, .stopped: nil
        }
    }

    /// Whether the connection accepts fewer streams than it could, because APNs responds with errors and the
    /// replacement budget is spent.
    var isDegraded: Bool { self.adaptiveLimit.limit != nil && self.readyConnection != nil }

    /// Whether this is the current connection and no response has proven yet that it works.
    func isFresh(connection: Int) -> Bool {
        self.currentConnection == connection && (!self.isProven || self.readyConnection == nil)
    }

    /// The number of streams that the peer and the configuration allow.
    private var maximum: Int { min(self.limit, self.streamCap) }

    private var capacity: Int {
        self.unanswered.isSilent ? 0 : min(self.maximum, self.adaptiveLimit.limit ?? .max)
    }

    // MARK: Steps

    private mutating func open() -> [Action] {
        let connection = self.nextConnection
        self.nextConnection += 1
        self.state = .connecting(connection: connection)
        return [.report(.connecting), .open(connection: connection)]
    }

    private mutating func drainAndReopen(_ connection: Int) -> [Action] {
        [.report(.draining)] + self.startDraining(connection) + self.open()
    }

    private mutating func startDraining(_ connection: Int) -> [Action] {
        self.draining.append(connection)
        var actions = [Action.drain(connection: connection)]
        if self.draining.count > Self.drainingLimit {
            actions.append(.close(connection: self.draining.removeFirst()))
        }
        return actions
    }

    private mutating func backOff(
        _ fault: ConnectionFault,
        _ error: WireError?,
        _ now: MonotonicInstant
    ) -> [Action] {
        self.adaptiveLimit.reset()
        var wait = self.backoff.next(using: &self.generator)
        if case .configuration(let holdOff) = fault { wait = max(wait, holdOff, Self.configurationHoldOff) }
        let until = now.advanced(by: wait)
        self.state = .backingOff(until: until, isConfiguration: fault.isConfiguration)
        return [.report(.backingOff(until: until, fault: fault.report(error))), .wakeAt(until)]
    }
}
