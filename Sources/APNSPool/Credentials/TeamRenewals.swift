import SupervisedPool
import Synchronization

/// Keeps the renewals of the provider tokens of one team's keys apart.
///
/// Apple's "Establishing a token-based connection to APNs" limits the updates of a token to one in 20 minutes. Reports
/// disagree whether APNs counts the updates of each key, or of all keys of a team (pushy#793, dotAPNS#128). So that both readings are kept, two
/// keys of one team are not renewed within 20 minutes of each other. Each signature plans the next renewal so that it
/// keeps this distance from the other key's, and a renewal that can wait does so until the distance is reached. APNs'
/// limits leave no room for this with three or more keys, and not for the first renewal after an interval of more than 50
/// minutes.
///
/// Shared by the clients of a group.
final class TeamRenewals: Sendable {
    private struct Renewal {
        var last: MonotonicInstant
        var next: MonotonicInstant
    }

    private static let distance = TokenPolicy.shortestUse
    /// How long a token of a team with several keys is used, so that its renewal can still wait for a few minutes.
    private static let longestUse = TokenPolicy.refreshAge - .seconds(5 * 60)
    private let teams = Mutex<[String: [String: Renewal]]>([:])

    /// Records that a key got a new token, and plans its renewal.
    ///
    /// - Parameters:
    ///   - instant: when the token was signed.
    ///   - interval: how long it is used, unless another key's renewal is too near.
    /// - Returns: when to renew it; nil: after the interval.
    func signed(
        _ key: TokenIdentifiers,
        at instant: MonotonicInstant,
        interval: Duration
    ) -> MonotonicInstant? {
        self.teams.withLock { teams in
            // Keys that are not used any more have no renewals.
            var keys = teams[key.teamID, default: [:]].filter {
                $0.value.last.duration(to: instant) < TokenPolicy.usableAge
            }
            let others = keys.filter { $0.key != key.keyID }.map(\.value.next)
            let longest = others.isEmpty ? TokenPolicy.refreshAge : Self.longestUse
            let planned = instant.advanced(by: min(interval, longest))
            let conflict = others.first { Self.isNear($0, planned) }
            let next = conflict.map { Self.next(after: instant, besides: $0) } ?? planned
            keys[key.keyID] = Renewal(last: instant, next: next)
            teams[key.teamID] = keys
            return next == instant.advanced(by: min(interval, TokenPolicy.refreshAge)) ? nil : next
        }
    }

    /// Before this instant, a renewal of the key would be too near to another key's last one. Nil: at no time.
    func waitsUntil(_ key: TokenIdentifiers) -> MonotonicInstant? {
        self.teams.withLock { teams in
            teams[key.teamID]?.filter { $0.key != key.keyID }.map { $0.value.last.advanced(by: Self.distance) }.max()
        }
    }

    private static func isNear(_ one: MonotonicInstant, _ other: MonotonicInstant) -> Bool {
        let between = one.duration(to: other)
        return between > .zero - self.distance && between < self.distance
    }

    /// A renewal at the right distance before or after another key's, if the limits allow one; otherwise as early as
    /// possible, so that the other key's can wait for it.
    private static func next(after instant: MonotonicInstant, besides other: MonotonicInstant) -> MonotonicInstant {
        let earliest = instant.advanced(by: TokenPolicy.shortestUse)
        let before = other.advanced(by: .zero - self.distance)
        let after = other.advanced(by: self.distance)
        if before >= earliest { return before }
        return after <= instant.advanced(by: TokenPolicy.refreshAge) ? after : earliest
    }
}
