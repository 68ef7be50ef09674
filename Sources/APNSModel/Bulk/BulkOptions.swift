/// How a bulk call sends.
public struct BulkOptions: Sendable {
    /// Pushes that are under way at once. Default 1,000; 1 to 100,000, values beyond are taken as these.
    public var maxInFlight: Int {
        didSet { self.maxInFlight = min(max(self.maxInFlight, 1), 100_000) }
    }
    /// The deadline of each push, counted from when its element was pulled. Nil: the client's.
    public var deadline: Duration?
    /// The priority when no stream is free. Default `bulk`.
    public var lane: PushLane
    /// How many pushes are begun in a second. Nil: as many as go. While the call runs its control can change it.
    public var rate: PushRate?
    /// When so many device tokens are refused that the environment or topic must be wrong: no further element is
    /// pulled, and what was pulled but not sent ends with the code `suspectedMisconfiguration`. Nil: the client's.
    public var massRejection: MassRejectionLimits?
    /// The handle of the call while it runs; its rate becomes `rate` if that is given. Nil: one of its own, which the
    /// call's result has as `control`.
    public var control: BulkControl?

    /// - Parameters:
    ///   - maxInFlight: pushes that are under way at once, 1 to 100,000; values beyond are taken as these.
    ///   - deadline: of each push; nil: the client's.
    ///   - lane: the priority when no stream is free.
    ///   - rate: how many are begun in a second; nil: as many as go.
    ///   - massRejection: when so many device tokens are refused that the call stops; nil: the client's.
    ///   - control: the handle of the call; nil: one of its own.
    public init(
        maxInFlight: Int = 1000,
        deadline: Duration? = nil,
        lane: PushLane = .bulk,
        rate: PushRate? = nil,
        massRejection: MassRejectionLimits? = nil,
        control: BulkControl? = nil
    ) {
        self.maxInFlight = min(max(maxInFlight, 1), 100_000)
        self.deadline = deadline
        self.lane = lane
        self.rate = rate
        self.massRejection = massRejection
        self.control = control
    }

    /// The handle of one call.
    func makeControl() -> BulkControl {
        let control = self.control ?? BulkControl()
        if let rate { control.rate = rate }
        return control
    }
}
