/// Which siblings a supervisor restarts along with a child that failed. The words are OTP's.
public struct SupervisionStrategy: Sendable, Hashable, CustomStringConvertible {
    enum Kind: Sendable { case oneForOne, oneForAll, restForOne }
    let kind: Kind

    /// Only the child itself.
    public static let oneForOne = SupervisionStrategy(kind: .oneForOne)
    /// All children: they are stopped in reverse order and started in order.
    public static let oneForAll = SupervisionStrategy(kind: .oneForAll)
    /// The child and those that were started after it.
    public static let restForOne = SupervisionStrategy(kind: .restForOne)

    public var description: String { "\(self.kind)" }
}

/// Whether a supervisor ends when its significant children have ended by themselves, which transient and temporary
/// children do. OTP 24 has it for trees that stand for one piece of work.
public enum AutoShutdown: Sendable, Hashable {
    /// It goes on without them. The default; no child may be significant.
    case never
    /// It stops when one of them ends.
    case anySignificant
    /// It stops when the last of them has ended.
    case allSignificant
}

/// How many restarts a supervisor makes before it gives up.
public struct RestartIntensity: Sendable, Hashable {
    /// The number of restarts allowed within ``period``. 0 allows none. 3 by default.
    public var restarts: Int
    /// The length of the sliding window. 5 s by default.
    public var period: Duration

    /// Allows `restarts` restarts within any span of `period`; negative values count as zero.
    public init(restarts: Int = 3, period: Duration = .seconds(5)) {
        self.restarts = max(0, restarts)
        self.period = max(.zero, period)
    }
}

/// OTP's sliding window: a restart counts until it is older than the period.
public struct RestartWindow: Sendable {
    /// The limit.
    public let intensity: RestartIntensity
    /// The restarts that still count, oldest first; never more than one above the limit.
    public private(set) var restarts: [MonotonicInstant] = []

    /// Makes an empty window.
    public init(_ intensity: RestartIntensity) {
        self.intensity = intensity
    }

    /// Drops the restarts that are older than the period and adds one.
    ///
    /// - Returns: whether the restart is within the limit. When it is not, the supervisor must give up.
    public mutating func record(_ now: MonotonicInstant) -> Bool {
        self.restarts.removeAll { $0.advanced(by: self.intensity.period) < now }
        self.restarts.append(now)
        if self.restarts.count - 1 > max(0, self.intensity.restarts) { self.restarts.removeFirst() }
        return self.restarts.count <= self.intensity.restarts
    }
}
