import PushQueue

/// Divides the fleet's budget of connections among its members.
///
/// A share becomes smaller at once, and larger only after the members have been the same for a heartbeat. By then, each
/// relay that is new has been seen by all others, and they have made their shares smaller.
struct ConnectionShare: Sendable, Hashable {
    /// This relay's connections per client; nil without a budget.
    private(set) var size: Int?

    /// Takes the members and the budget into account.
    ///
    /// - Parameters:
    ///   - budget: the most connections of all relays per client; nil for no limit.
    ///   - members: the number of relays.
    ///   - isStable: whether the members have been the same for a heartbeat.
    mutating func update(budget: Int?, members: Int, isStable: Bool) {
        guard let budget else {
            self.size = nil
            return
        }
        let share = max(1, budget / max(1, members))
        self.size = isStable ? share : min(share, self.size ?? 1)
    }
}
