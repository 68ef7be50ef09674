/// Which siblings a supervisor restarts along with a failed child. The names are OTP's.
public struct SupervisionStrategy: Sendable, Hashable, CustomStringConvertible {
    enum Kind: Sendable { case oneForOne, oneForAll, restForOne }
    let kind: Kind

    /// Only the child itself.
    public static let oneForOne = SupervisionStrategy(kind: .oneForOne)
    /// All children. They are stopped in reverse order and started in order.
    public static let oneForAll = SupervisionStrategy(kind: .oneForAll)
    /// The child and all children that were started after it.
    public static let restForOne = SupervisionStrategy(kind: .restForOne)

    public var description: String { "\(self.kind)" }
}

/// The limit on restarts. A supervisor gives up when it is exceeded.
public struct RestartIntensity: Sendable, Hashable {
    /// The number of restarts allowed within ``period``. 0 allows none. 3 by default.
    public var restarts: Int
    /// The length of the sliding window. 5 s by default.
    public var period: Duration

    /// Allows `restarts` restarts within any span of `period`. Negative values count as zero.
    public init(restarts: Int = 3, period: Duration = .seconds(5)) {
        self.restarts = max(0, restarts)
        self.period = max(.zero, period)
    }
}

/// OTP's sliding window: a restart counts until it is older than the period.
struct RestartWindow: Sendable {
    /// The limit.
    let intensity: RestartIntensity
    /// The restarts that still count, oldest first. At most one more than the limit.
    private(set) var restarts: [MonotonicInstant] = []

    /// Creates an empty window.
    init(_ intensity: RestartIntensity) {
        self.intensity = intensity
    }

    /// Records a restart, after removing those that are older than the period.
    ///
    /// - Returns: Whether the restart is within the limit. If not, the supervisor must give up.
    mutating func record(_ now: MonotonicInstant) -> Bool {
        self.restarts.removeAll { $0.advanced(by: self.intensity.period) < now }
        self.restarts.append(now)
        if self.restarts.count - 1 > max(0, self.intensity.restarts) { self.restarts.removeFirst() }
        return self.restarts.count <= self.intensity.restarts
    }
}
