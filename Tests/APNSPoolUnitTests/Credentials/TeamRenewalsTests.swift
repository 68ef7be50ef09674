import SupervisedPool
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// When the provider tokens of a team's keys are renewed.
struct TeamRenewalsTests {
    private let clock = SettableClock()

    /// A key that sends a push each minute.
    private struct Key {
        let cache: ProviderTokenCache
        let firstPush: Int64
        var signatures: [Int64] = []
    }

    private func keys(_ given: [(keyID: String, teamID: String, firstPush: Int64)], interval: Int) throws -> [Key] {
        let renewals = TeamRenewals()
        return try given.map { keyID, teamID, firstPush in
            Key(
                cache: ProviderTokenCache(
                    refreshInterval: .seconds(interval * 60),
                    clock: clock,
                    wallClock: { [clock] in clock.wall },
                    renewals: (renewals, try TokenIdentifiers(keyID: keyID, teamID: teamID, keyFile: nil))
                ),
                firstPush: firstPush
            )
        }
    }

    /// Lets ten hours pass.
    private func run(_ keys: inout [Key]) {
        for minute in 0..<Int64(600) {
            for index in keys.indices where minute >= keys[index].firstPush {
                let cache = keys[index].cache
                guard cache.current(now: clock.now) == nil, let call = cache.step(patience: .zero).newCall else {
                    continue
                }
                _ = cache.completed(call, .success(.sample(issuedAt: clock.wall)), isShared: false)
                _ = cache.current(now: clock.now)
                keys[index].signatures.append(minute)
            }
            clock.advance(minutes: 1)
        }
    }

    @Test(
        "Two keys of one team are renewed at least 20 minutes apart, however long after the other each begins",
        arguments: [20, 35, 50]
    )
    func twoKeysOfATeam(interval: Int) throws {
        for offset in Int64(0)..<60 {
            var keys = try self.keys(
                [("KEYAAAAAAA", "TEAMAAAAAA", 0), ("KEYBBBBBBB", "TEAMAAAAAA", offset)],
                interval: interval
            )
            self.run(&keys)
            #expect(keys[1].signatures.first == offset && keys.allSatisfy { $0.signatures.count > 8 })
            // The second key's first token is left out: it cannot wait.
            let all = (keys[0].signatures + keys[1].signatures.dropFirst()).sorted()
            for (one, next) in zip(all, all.dropFirst()) {
                #expect(next - one >= 20, "offset \(offset): \(keys.map(\.signatures))")
            }
            for key in keys {
                for (one, next) in zip(key.signatures, key.signatures.dropFirst()) {
                    #expect((20...55).contains(next - one), "offset \(offset): \(key.signatures)")
                }
            }
        }
    }

    @Test("A key alone in its team is renewed after its interval")
    func othersAreNotChanged() throws {
        var keys = try self.keys([("KEYAAAAAAA", "TEAMAAAAAA", 0), ("KEYBBBBBBB", "TEAMBBBBBB", 3)], interval: 50)
        self.run(&keys)
        #expect(keys[0].signatures == Array(stride(from: 0, to: 600, by: 50)))
        #expect(keys[1].signatures == Array(stride(from: 3, to: 600, by: 50)))
    }
}
