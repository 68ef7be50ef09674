import SupervisedPool
import Testing

@testable import APNSPool

/// When the provider tokens of a team's keys are renewed.
struct TeamRenewalsTests {
    private func at(_ minutes: Int64) -> MonotonicInstant { MonotonicInstant(nanoseconds: minutes * 60_000_000_000) }

    @Test("Renewals of two keys of one team are at least 20 minutes apart from the second one on")
    func twoKeysOfATeam() throws {
        let renewals = TeamRenewals()
        let keys = try ["KEYAAAAAAA", "KEYBBBBBBB"].map {
            try TokenIdentifiers(keyID: $0, teamID: "TEAMAAAAAA", keyFile: nil)
        }
        let caches = keys.map { ProviderTokenCache(renewals: (renewals, $0)) }
        var signatures: [Int64] = []
        // Each minute, both keys send a push.
        for minute in 0..<Int64(600) {
            for cache in caches {
                guard case .sign(let order) = cache.next(now: self.at(minute), wallNow: minute * 60) else { continue }
                _ = cache.install("\(minute)", for: order, now: self.at(minute), isUsed: true)
                signatures.append(minute)
            }
        }
        #expect(signatures.count > 20)
        // Both must be signed at the beginning.
        #expect(signatures[..<2] == [0, 0])
        for (one, next) in zip(signatures[1...], signatures[2...]) { #expect(next - one >= 20, "\(signatures)") }
    }

    @Test("Keys of different teams, and one key alone, are renewed after 50 minutes")
    func othersAreNotChanged() throws {
        let renewals = TeamRenewals()
        for team in ["TEAMAAAAAA", "TEAMBBBBBB"] {
            let cache = ProviderTokenCache(
                renewals: (renewals, try TokenIdentifiers(keyID: "KEYAAAAAAA", teamID: team, keyFile: nil))
            )
            guard case .sign(let order) = cache.next(now: self.at(0), wallNow: 0) else { continue }
            _ = cache.install("0", for: order, now: self.at(0), isUsed: true)
            for (minute, isDue) in [(49, false), (50, true)] as [(Int64, Bool)] {
                if case .sign = cache.next(now: self.at(minute), wallNow: minute * 60) {
                    #expect(isDue)
                } else {
                    #expect(!isDue)
                }
            }
        }
    }
}
