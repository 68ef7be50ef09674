/// What a supervisor tells whoever watches it. Later versions may add cases.
public enum SupervisorEvent: Sendable {
    /// A child said that it has started.
    case childStarted(ChildSpec.ID, generation: Int)
    /// A child threw, or returned although it is permanent.
    case childFailed(ChildFailure)
    /// A child returned and is not started again.
    case childEnded(ChildSpec.ID, generation: Int)
    /// A child is started again, after a wait if it has a restart backoff; with `oneForAll` and `restForOne`, its
    /// siblings too.
    case restarting(ChildSpec.ID, after: Duration)
    /// A child ended because it was stopped; the error is what it threw, cancellation apart.
    case childStopped(ChildSpec.ID, generation: Int, error: (any Error)?)
    /// A child is still running 5 s after its cancellation. The supervisor goes on waiting for it.
    case childDeaf(ChildSpec.ID, generation: Int)
    /// The supervisor gives up. It stops its children, then `run` throws this error.
    case escalating(SupervisorError)
    /// So many events are missing here, because the reader of ``Supervisor/events(bufferingNewest:)`` was too slow.
    case missed(Int)
}
