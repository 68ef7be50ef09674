/// The events that a supervisor publishes. Later versions may add cases.
public enum SupervisorEvent: Sendable {
    /// A child reported that it has started, or ended without an error before it reported that.
    case childStarted(ChildSpec.ID, generation: Int)
    /// A child threw, or ended without an error although it is permanent.
    case childFailed(ChildFailure)
    /// A child returned or ended by cancellation, and is not restarted.
    case childEnded(ChildSpec.ID, generation: Int)
    /// A child is being restarted. With `oneForAll` and `restForOne`, its siblings are restarted too.
    case restarting(ChildSpec.ID)
    /// A child ended because it was stopped. `error` is the error it threw, if any, other than a `CancellationError`.
    case childStopped(ChildSpec.ID, generation: Int, error: (any Error)?)
    /// A child is still running 5 s after it was cancelled. The supervisor keeps waiting for it.
    case childDeaf(ChildSpec.ID, generation: Int)
    /// The supervisor gives up. It stops its children, and then `run` throws this error.
    case escalating(SupervisorError)
}
