/// The state of one child, as reported by its supervisor.
public struct ChildStatus: Sendable, Hashable {
    /// The states of a child.
    public enum State: Sendable, Hashable {
        /// Not running: not started yet, stopped on request or for the restart of a sibling, or ended for good.
        case stopped
        /// Running, but it has not called ``ChildContext/started()`` yet.
        case starting
        /// Running.
        case running
        /// Asked to stop, or cancelled.
        case stopping
        /// It has ended, and the supervisor is about to restart it or has not reacted to its end yet.
        case restarting
    }

    /// The child's name.
    public let id: ChildSpec.ID
    /// The child's state.
    public let state: State
    /// How many times it has been started.
    public let generation: Int
    /// When the supervisor restarts it.
    public let restart: ChildSpec.Restart
    /// Whether it is a worker or a supervisor.
    public let kind: ChildSpec.Kind
    /// Whether it is still running 5 s or more after it was cancelled.
    public let isDeaf: Bool
}

/// The number of children of a supervisor.
public struct ChildCounts: Sendable, Hashable {
    /// Children with a specification, running or not.
    public let specified: Int
    /// Children whose `run` has not ended: starting, running or stopping.
    public let active: Int
    /// Children that are supervisors, running or not.
    public let supervisors: Int
    /// Children that are workers, running or not.
    public let workers: Int
}

/// One failure of a child.
public struct ChildFailure: Sendable, CustomStringConvertible {
    /// The child.
    public let id: ChildSpec.ID
    /// The number of the start that failed, from 1.
    public let generation: Int
    /// The error it threw; `nil` if it returned, or ended by cancellation, although it is permanent.
    public let error: (any Error)?
    /// When the supervisor noticed the failure.
    public let when: MonotonicInstant

    var reason: String { self.error.map { "\($0)" } ?? "ended although it is permanent" }

    public var description: String { "\(self.id) (start \(self.generation)): \(self.reason)" }
}
