/// The settings of a bulk call.
///
/// ```swift
/// let options = BulkOptions(maxInFlight: 500, deadline: .seconds(60), rate: .perSecond(1_000))
/// let summary = await client.sendAll(notification, to: deviceTokens, options: options)
/// ```
public struct BulkOptions: Sendable {
    /// The most elements that are pulled and whose outcomes you have not received, so also the most pushes in flight.
    /// Default 1,000; values outside 1 to 100,000 are clamped.
    public var maxInFlight: Int {
        didSet { self.maxInFlight = min(max(self.maxInFlight, 1), 100_000) }
    }
    /// The deadline of each push, counted from the moment its element is pulled. Nil: the client's default.
    public var deadline: Duration?
    /// The priority when no stream is free. Default `bulk`.
    public var lane: PushLane
    /// The most pushes started per second. Nil: no limit. You can change it during the call through the control.
    public var rate: PushRate?
    /// How many rejected device tokens indicate a wrong environment or topic. Nil: the client's limits.
    ///
    /// When the limits are reached, no further element is pulled, and elements that were pulled but not sent end with
    /// the code `suspectedMisconfiguration`. With ``MassRejectionLimits/off``, every push is sent, and its rejection counts
    /// only for the client's log line and status, as that of a single push does.
    public var massRejection: MassRejectionLimits?
    /// The control of the call. If `rate` is set, it becomes the control's rate. Nil: the call creates a control, which
    /// is the `control` of its result.
    public var control: BulkControl?

    /// - Parameters:
    ///   - maxInFlight: the most pushes in flight or with an unread outcome, clamped to 1 to 100,000.
    ///   - deadline: the deadline of each push; nil for the client's default.
    ///   - lane: the priority when no stream is free.
    ///   - rate: the most pushes started per second; nil for no limit.
    ///   - massRejection: how many rejected device tokens stop the call; nil for the client's limits.
    ///   - control: the control of the call; nil to create one.
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

    /// The control of one call, with the rate of these options.
    func makeControl() -> BulkControl {
        let control = self.control ?? BulkControl()
        if let rate { control.rate = rate }
        return control
    }
}
