/// When a fault applies. All conditions must hold.
public struct FaultTrigger: Sendable, Hashable {
    /// The event for which a fault is evaluated.
    public enum Event: String, Sendable, Hashable, CaseIterable {
        /// A request is complete.
        case request
        /// A request's headers are complete; its body may still be arriving.
        case headers
        /// A TCP connection was accepted.
        case connect
        /// A connection's TLS handshake is complete; HTTP/2 has not started.
        case open
        /// The time `from` after the injection is reached. The fault then applies to all open connections.
        case time
    }

    /// The event. Nil, or an event to which the effect cannot apply, stands for the effect's default event, usually
    /// `request`.
    public var event: Event?
    /// How many matching events are skipped first.
    public var skip: Int
    /// How many events the fault then applies to; nil for all that follow.
    public var times: Int?
    /// Applies only to each event with this number after `skip`: 10 means every tenth. Default 1.
    public var every: Int
    /// The probability, from 0 to 1, that the fault applies to a matching event. Drawn from the seed.
    public var probability: Double
    /// The most events per second, counted from the injection, to which the fault applies; nil for no limit.
    public var perSecond: Int?
    /// Applies only to pushes to these device tokens, in lower case; nil for all. Connections have no device token, so
    /// such a fault never applies to the events `connect`, `open` and `time`.
    public var deviceTokens: Set<String>?
    /// Applies only to the connection with this number; nil for all connections.
    public var connection: Int?
    /// Applies only after this time since the injection. For the event `time`: the time at which it applies.
    public var from: Duration
    /// Applies only before this time since the injection; nil for no end.
    public var until: Duration?
    /// For the event `time`: the interval between repetitions. Nil: it happens once.
    public var period: Duration?

    /// Creates a trigger. All parameters are optional and described at their properties. The default is the next
    /// request.
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

    /// Once, at this time after the injection, on all connections that are then open. With a period, it repeats.
    public static func at(_ time: Duration, every period: Duration? = nil, times: Int? = 1) -> FaultTrigger {
        FaultTrigger(event: .time, times: times, from: time, period: period)
    }

    /// Connections accepted from now on, starting with the `number`th, counted from 1.
    public static func connections(from number: Int = 1, times: Int? = 1) -> FaultTrigger {
        FaultTrigger(event: .connect, skip: max(number - 1, 0), times: times)
    }
}
