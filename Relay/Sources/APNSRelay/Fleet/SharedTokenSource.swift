import APNSPool
import PushQueue
import Synchronization

/// One provider token of each key for all relays of a fleet, in a value of their queue.
///
/// APNs counts the tokens of a key over all processes, and can refuse more than one in 20 minutes. A relay that needs a
/// token uses the stored one. Otherwise it signs one and stores it by compare-and-set; of relays that do so at the same
/// time, one succeeds, and the others use its token. A token is replaced early only if APNs has refused it, or if another
/// key has signed it.
///
/// While the queue cannot be used, there is no new token; the library goes on with the old one as long as it is valid.
final class SharedTokenSource: ProviderTokenSource {
    /// The stored form. Secret, like the token itself, which is valid for an hour.
    private struct Value: Codable {
        var jwt: String
        var keyID: String
        var teamID: String
        var issuedAt: Int64

        var token: SharedProviderToken {
            SharedProviderToken(jwt: self.jwt, keyID: self.keyID, teamID: self.teamID, issuedAt: self.issuedAt)
        }
    }

    /// The shortest time between two tokens of a key that APNs permits.
    private static let shortestUse = Duration.seconds(20 * 60)

    private let queue: any PushQueue
    private let clock: any QueueClock
    /// The tokens from the future by this machine's clock, and when this relay saw each for the first time.
    private let early = Mutex<[String: (value: [UInt8], since: QueueTime)]>([:])

    /// - Parameters:
    ///   - queue: where the tokens are stored.
    ///   - clock: its clock.
    init(_ queue: any PushQueue, clock: any QueueClock) {
        self.queue = queue
        self.clock = clock
    }

    func token(for request: ProviderTokenRequest) async throws -> SharedProviderToken {
        let key = FleetKey.token(keyID: request.keyID, teamID: request.teamID)
        var signed: SharedProviderToken?
        while true {
            try Task.checkCancellation()
            let stored = try await self.queue.value(forKey: key)
            if let stored, let value = StoredJSON.decode(Value.self, from: stored) {
                if request.accepts(value.token) { return value.token }
                try self.checkAge(of: value, stored, key, request)
            }
            let token = if let signed { signed } else { try await request.sign() }
            signed = token
            let value = Value(jwt: token.jwt, keyID: token.keyID, teamID: token.teamID, issuedAt: token.issuedAt)
            if try await self.queue.exchangeValue(StoredJSON.encode(value), forKey: key, expecting: stored) {
                return token
            }
        }
    }

    /// Refuses to replace a token that is not accepted only because this machine's clock is behind that of the relay
    /// which signed it. After 20 minutes another token is permitted in any case.
    private func checkAge(
        of value: Value,
        _ stored: [UInt8],
        _ key: String,
        _ request: ProviderTokenRequest
    ) throws(SharedTokenError) {
        var current = value
        current.issuedAt = request.now
        guard value.issuedAt > request.now, request.accepts(current.token) else { return }
        let now = self.clock.lease
        let since = self.early.withLock { early in
            if let known = early[key], known.value == stored { return known.since }
            early[key] = (stored, now)
            return now
        }
        guard since.duration(to: now) < Self.shortestUse else { return }
        throw SharedTokenError(secondsAhead: value.issuedAt - request.now)
    }
}

/// The token of another relay cannot be used here.
struct SharedTokenError: Error, CustomStringConvertible {
    /// The time by which the token is ahead of this machine's clock.
    var secondsAhead: Int64

    var description: String {
        "The token that another relay has signed is \(self.secondsAhead) s ahead of this machine's clock. "
            + "Set the clocks of both machines."
    }
}
