import SupervisedPool
import Synchronization

/// When the keys of each team last got a provider token.
///
/// Apple's "Establishing a token-based connection to APNs" limits the updates of a token to one in 20 minutes. Reports
/// disagree whether APNs counts the updates of each key, or of all keys of a team. So that both readings are kept, two
/// keys of one team are not renewed within 20 minutes of each other: if a token is signed that soon after another key's,
/// its next renewal comes early (`TokenStateMachine`), and lies between the other key's from then on. With three or more
/// keys, APNs' limits leave no room for this.
///
/// Shared by the clients of a group.
final class TeamRenewals: Sendable {
    private let last = Mutex<[String: [String: MonotonicInstant]]>([:])

    /// Records that a key got a new token.
    ///
    /// - Returns: Whether another key of its team got one less than 20 minutes before or after.
    func record(_ identifiers: TokenIdentifiers, at instant: MonotonicInstant) -> Bool {
        self.last.withLock { last in
            var keys = last[identifiers.teamID, default: [:]]
            // Older ones have no effect any more.
            keys = keys.filter { $0.value.duration(to: instant) < TokenPolicy.shortestUse }
            let isCrowded = keys.contains { $0.key != identifiers.keyID }
            keys[identifiers.keyID] = instant
            last[identifiers.teamID] = keys
            return isCrowded
        }
    }
}
