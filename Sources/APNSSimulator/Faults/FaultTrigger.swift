/// When a fault applies. All conditions must hold.
public struct FaultTrigger: Sendable, Hashable {
    /// What a fault is asked for.
    public enum Event: String, Sendable, Hashable, CaseIterable {
        /// A request is complete.
        case request
        /// A request's headers are complete, its body may not be.
        case headers
        /// A TCP connection was accepted.
        case connect
        /// A connection's TLS handshake is over; no HTTP/2 has been said.
        case open
        /// The time has come, `from` after the fault was injected; it then applies to the connections that are open.
        case time
    }

    /// Nil: the event that goes with the effect, mostly `request`. An event that the effect cannot apply to is taken as
    /// nil.
    public var event: Event?
    /// How many matching events pass before it begins.
    public var skip: Int
    /// How many events it then applies to; nil: all that follow.
    public var times: Int?
    /// After `skip` only each event with this number: 10 is every tenth. Default 1.
    public var every: Int
    /// From 0 to 1: how likely it applies to a matching event. Drawn from the seed.
    public var probability: Double
    /// At most so many times in each second since the fault was injected; nil: no limit.
    public var perSecond: Int?
    /// Only pushes to these device tokens, in lower case; nil: to all. Connections have none: such a fault never applies
    /// to the events `connect`, `open` and `time`.
    public var deviceTokens: Set<String>?
    /// Only on the connection with this number; nil: on all.
    public var connection: Int?
    /// Only from so long after it was injected. For the event `time`: then.
    public var from: Duration
    /// Only before so long after it was injected; nil: for ever.
    public var until: Duration?
    /// For the event `time`: how long after one time the next one is. Nil: there is only one.
    public var period: Duration?

    /// All parameters may be left out; then it is the next request. What each means, its property says.
    public init(
        event: Event? = nil,
        skip: Int = 0,
        times: Int? = 1,
        every: Int = 1,
        probability: Double = 1,
        perSecond: Int? = nil,
        deviceTokens: Set<String>? = nil,
        connection: Int? = nil,
        from: Duration = .zero,
        until: Duration? = nil,
        period: Duration? = nil
    ) {
        self.event = event
        self.skip = skip
        self.times = times
        self.every = every
        self.probability = probability
        self.perSecond = perSecond
        self.deviceTokens = deviceTokens.map { Set($0.map { $0.lowercased() }) }
        self.connection = connection
        self.from = from
        self.until = until
        self.period = period
    }

    /// The next request.
    public static let next = FaultTrigger()
    /// Every request from now on.
    public static let always = FaultTrigger(times: nil)

    /// The next `times` requests.
    public static func next(_ times: Int) -> FaultTrigger { FaultTrigger(times: times) }

    /// The `number`th request from now, counted from 1, and the `times - 1` that follow it.
    public static func nth(_ number: Int, times: Int = 1) -> FaultTrigger {
        FaultTrigger(skip: max(number - 1, 0), times: times)
    }

    /// Each `number`th request.
    public static func every(_ number: Int) -> FaultTrigger { FaultTrigger(times: nil, every: number) }

    /// Each request with this probability, from 0 to 1.
    public static func probability(_ probability: Double) -> FaultTrigger {
        FaultTrigger(times: nil, probability: probability)
    }

    /// Every push to this device token.
    public static func deviceToken(_ token: String) -> FaultTrigger {
        FaultTrigger(times: nil, deviceTokens: [token])
    }

    /// Every request within a span of time, counted from the injection.
    public static func during(_ span: Range<Duration>) -> FaultTrigger {
        FaultTrigger(times: nil, from: span.lowerBound, until: span.upperBound)
    }

    /// Once, at this time after the injection, on all connections that are open then; with a period again and again.
    public static func at(_ time: Duration, every period: Duration? = nil, times: Int? = 1) -> FaultTrigger {
        FaultTrigger(event: .time, times: times, from: time, period: period)
    }

    /// The connections from the `number`th on that are accepted from now, counted from 1.
    public static func connections(from number: Int = 1, times: Int? = 1) -> FaultTrigger {
        FaultTrigger(event: .connect, skip: max(number - 1, 0), times: times)
    }
}
