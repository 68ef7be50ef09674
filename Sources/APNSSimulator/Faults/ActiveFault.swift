/// A fault that a simulator applies to coming events.
public struct ActiveFault: Sendable, Hashable, Identifiable {
    /// Its number among all faults of the simulator, from 1.
    public let id: Int
    /// The trigger and the effect.
    public let fault: Fault
    /// How many events matched its trigger, before `skip`, `every` and `probability` were considered.
    public let matched: Int
    /// How many times it took effect.
    public let applied: Int
}
