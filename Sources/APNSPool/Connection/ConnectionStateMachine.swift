import HTTP2Wire
import SupervisedPool

/// The life of one pool worker, as a value: which session takes streams, which ones drain, when to connect again.
///
/// ```
///            connect                    SETTINGS
///   idle ─────────────▶ connecting ──────────────▶ ready ──┐ GOAWAY, 503: this session drains and
///    ▲ ▲                   │    ▲                  │  │    │ a new one connects
///    │ │ overflow          │    └──────────────────┼──┴────┘
///    │ └───────────────────┤ failed                │ lost
///    │                     ▼                       ▼
///    └──────────────── backingOff(until) ◀─────────┘
/// ```
///
/// Trouble of the network is a state here, never an error: only a broken invariant ends the actor around it.
struct ConnectionStateMachine {
    enum State: Equatable {
        /// No session and none wanted: a lazy base worker before its first use, or an overflow worker. Next:
        /// `connecting`.
        case idle
        /// A session is being opened. Next: `ready`, `backingOff`, `idle`.
        case connecting(session: Int)
        /// The session takes streams. Next: `connecting` (replacement), `holding`, `backingOff`, `idle`.
        case ready(session: Int)
        /// The session is kept, but gets no new streams before `until`: it is itself a replacement and answered 503
        /// first of all. Next: `ready`, `backingOff`, `idle`.
        case holding(session: Int, until: MonotonicInstant)
        /// No session; connects at `until`, or earlier when somebody needs it. Next: `connecting`, `idle`.
        case backingOff(until: MonotonicInstant, isConfiguration: Bool)
        case stopped
    }

    enum Action: Equatable {
        case open(session: Int)
        /// Takes no new streams, closes when the open ones are done.
        case drain(session: Int)
        case close(session: Int)
        /// Call `wake` at that time.
        case wakeAt(MonotonicInstant)
        case report(Report)
    }

    /// What the pool is told; `WorkerReport` without the error object, so that tests can compare.
    enum Report: Equatable {
        case connecting
        case ready(capacity: Int)
        case capacity(Int)
        case draining
        case backingOff(until: MonotonicInstant, isConfiguration: Bool)
        case idle
    }

    /// A session that was replaced while streams were open; a third one closes the oldest.
    static let drainingLimit = 2
    /// A fault of the configuration is not asked again sooner than this.
    static let configurationHoldOff = Duration.seconds(5)

    private(set) var state = State.idle
    private(set) var draining: [Int] = []
    private var nextSession = 1
    private var backoff: Backoff
    private let streamCap: Int
    /// Base workers reconnect by themselves; overflow workers wait to be asked.
    private let isBase: Bool
    private var limit = 0
    /// The current session has given an answer that shows it healthy.
    private var isProven = false

    init(isBase: Bool, streamCap: Int, backoff: Backoff) {
        self.isBase = isBase
        self.streamCap = streamCap
        self.backoff = backoff
    }

    // MARK: Inputs

    /// The pool wants a connection.
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

    /// The pool does not want the connection any longer (an idle overflow worker).
    mutating func disconnect() -> [Action] {
        switch self.state {
        case .connecting(let session):
            self.state = .idle
            return [.close(session: session), .report(.idle)]
        case .ready(let session), .holding(let session, _):
            self.state = .idle
            return self.startDraining(session) + [.report(.idle)]
        case .backingOff:
            self.state = .idle
            return [.report(.idle)]
        case .idle, .stopped:
            return []
        }
    }

    /// The connection is to be replaced by a fresh one, without a gap (its life is over).
    mutating func replace() -> [Action] {
        switch self.state {
        case .ready(let session), .holding(let session, _): self.replace(session)
        case .idle, .connecting, .backingOff, .stopped: []
        }
    }

    /// The provider token was refused. Such a connection has been seen to refuse every later token too.
    ///
    /// - Parameter mayReplace: as in `answeredBadly`. A session that never worked is replaced within the budget only, or
    ///   a server that refuses every token would be met with a storm of handshakes.
    mutating func tokenRefused(session: Int, mayReplace: () -> Bool) -> [Action] {
        switch self.state {
        case .ready(session), .holding(session, _):
            return self.isProven || mayReplace() ? self.replace(session) : []
        default:
            return []
        }
    }

    mutating func ready(session: Int, limit: Int) -> [Action] {
        guard self.state == .connecting(session: session) else { return [.close(session: session)] }
        self.state = .ready(session: session)
        self.limit = limit
        self.isProven = false
        return [.report(.ready(capacity: self.capacity))]
    }

    mutating func limitChanged(session: Int, to limit: Int) -> [Action] {
        switch self.state {
        case .ready(session):
            self.limit = limit
            return [.report(.capacity(self.capacity))]
        case .holding(session, _):
            self.limit = limit
            return []
        default:
            return []
        }
    }

    /// GOAWAY: open streams may finish; the replacement opens before they have.
    mutating func goingAway(
        session: Int,
        isConfiguration: Bool,
        now: MonotonicInstant,
        using generator: inout some RandomNumberGenerator
    ) -> [Action] {
        switch self.state {
        case .ready(session), .holding(session, _):
            // A server that says goodbye before it ever answered is not asked again at once.
            if self.isProven, !isConfiguration { return self.replace(session) }
            return self.startDraining(session) + self.backOff(isConfiguration, now, &generator)
        default:
            return []
        }
    }

    mutating func closed(
        session: Int,
        isConfiguration: Bool,
        now: MonotonicInstant,
        using generator: inout some RandomNumberGenerator
    ) -> [Action] {
        if let index = self.draining.firstIndex(of: session) {
            self.draining.remove(at: index)
            return []
        }
        switch self.state {
        case .connecting(session), .ready(session), .holding(session, _):
            return self.backOff(isConfiguration, now, &generator)
        default:
            return []
        }
    }

    /// An answer that is neither 403, 500 nor 503: the connection works.
    mutating func answeredWell(session: Int) {
        guard !self.isProven, self.currentSession == session else { return }
        self.isProven = true
        self.backoff.reset()
    }

    /// 503, or another answer after which this session is not to be trusted.
    ///
    /// - Parameter mayReplace: whether the pool's budget for replacements allows one; asked only when one is wanted.
    mutating func answeredBadly(
        session: Int,
        now: MonotonicInstant,
        using generator: inout some RandomNumberGenerator,
        mayReplace: () -> Bool
    ) -> [Action] {
        guard self.state == .ready(session: session) else { return [] }
        if self.isProven {
            return mayReplace() ? self.replace(session) : []
        }
        // The replacement answered no better than its predecessor: keep it, and hold.
        let until = now.advanced(by: self.backoff.next(using: &generator))
        self.state = .holding(session: session, until: until)
        return [.report(.capacity(0)), .wakeAt(until)]
    }

    mutating func wake(now: MonotonicInstant) -> [Action] {
        switch self.state {
        case .holding(let session, let until) where until <= now:
            self.state = .ready(session: session)
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
        var sessions = self.draining
        if let current = self.currentSession { sessions.append(current) }
        self.draining = []
        self.state = .stopped
        return sessions.map { .close(session: $0) }
    }

    // MARK: Queries

    /// The session that takes new streams.
    var readySession: Int? {
        switch self.state {
        case .ready(let session), .holding(let session, _): session
        default: nil
        }
    }

    private var currentSession: Int? {
        switch self.state {
        case .connecting(let session), .ready(let session), .holding(let session, _): session
        case .idle, .backingOff, .stopped: nil
        }
    }

    private var capacity: Int { min(self.limit, self.streamCap) }

    // MARK: Steps

    private mutating func open() -> [Action] {
        let session = self.nextSession
        self.nextSession += 1
        self.state = .connecting(session: session)
        return [.report(.connecting), .open(session: session)]
    }

    private mutating func replace(_ session: Int) -> [Action] {
        [.report(.draining)] + self.startDraining(session) + self.open()
    }

    private mutating func startDraining(_ session: Int) -> [Action] {
        self.draining.append(session)
        var actions = [Action.drain(session: session)]
        if self.draining.count > Self.drainingLimit {
            actions.append(.close(session: self.draining.removeFirst()))
        }
        return actions
    }

    private mutating func backOff(
        _ isConfiguration: Bool,
        _ now: MonotonicInstant,
        _ generator: inout some RandomNumberGenerator
    ) -> [Action] {
        var wait = self.backoff.next(using: &generator)
        if isConfiguration { wait = max(wait, Self.configurationHoldOff) }
        let until = now.advanced(by: wait)
        self.state = .backingOff(until: until, isConfiguration: isConfiguration)
        return [.report(.backingOff(until: until, isConfiguration: isConfiguration)), .wakeAt(until)]
    }
}
