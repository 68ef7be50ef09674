/// One child as its supervisor sees it.
public struct ChildStatus: Sendable, Hashable {
    /// What the child is doing.
    public enum State: Sendable, Hashable {
        /// Not running: not started yet, stopped on request, or ended for good.
        case stopped
        /// Running, but it has not said that it has started.
        case starting
        /// Running.
        case running
        /// Asked to stop, or cancelled.
        case stopping
        /// It has ended and will be started again, now or when its restart has waited for long enough.
        case restarting
    }

    /// The child's name.
    public let id: ChildSpec.ID
    /// What it is doing.
    public let state: State
    /// How often it has been started.
    public let generation: Int
    /// When it is started again.
    public let restart: ChildSpec.Restart
    /// Whether it is a supervisor itself.
    public let kind: ChildSpec.Kind
    /// Whether it has been cancelled for 5 s or more and is still running.
    public let isDeaf: Bool
}

/// How many children a supervisor has.
public struct ChildCounts: Sendable, Hashable {
    /// Children with a specification, running or not.
    public let specified: Int
    /// Children that are running.
    public let active: Int
    /// Children that are supervisors, running or not.
    public let supervisors: Int
    /// Children that are workers, running or not.
    public let workers: Int
}

/// How one life of a child ended in failure.
public struct ChildFailure: Sendable, CustomStringConvertible {
    /// The child.
    public let id: ChildSpec.ID
    /// Which of its starts.
    public let generation: Int
    /// What it threw; `nil` when it returned although it should run for ever.
    public let error: (any Error)?
    /// When the supervisor heard of it.
    public let when: MonotonicInstant

    var reason: String { self.error.map { "\($0)" } ?? "ended although it is permanent" }

    public var description: String { "\(self.id) (start \(self.generation)): \(self.reason)" }
}
