import Testing

@testable import WebPushGateway

struct AttestedKeyTests {
    private static let now: Int64 = 1_795_440_000
    private static let secret = Array(repeating: UInt8(7), count: 32)

    private static func code(_ body: () throws(AppAttestError) -> Void) -> AppAttestError.Code? {
        do throws(AppAttestError) {
            try body()
            return nil
        } catch {
            return error.code
        }
    }

    @Test("A challenge is recognized by every server with its key, until it expires, and only unchanged")
    func challenges() throws {
        let challenges = AppAttestChallenges(key: Self.secret)
        let bytes = challenges.issue(now: Self.now)
        let found = try challenges.challenge(bytes, now: Self.now + 299)
        #expect(found.id.count == 16 && found.expiry == Self.now + 300)
        let renewed = AppAttestChallenges(key: Array(repeating: 8, count: 32), old: [Self.secret])
        #expect(try renewed.challenge(bytes, now: Self.now) == found)
        #expect(challenges.issue(now: Self.now) != bytes)
        let expired = Self.code { () throws(AppAttestError) in _ = try challenges.challenge(bytes, now: Self.now + 300)
        }
        #expect(expired == .expiredChallenge)
        var wrong = bytes.indices.map { index in
            var bytes = bytes
            bytes[index] ^= 1
            return bytes
        }
        wrong += [[], Array(bytes.dropLast()), bytes + [0], renewed.issue(now: Self.now)]
        for bytes in wrong {
            let code = Self.code { () throws(AppAttestError) in _ = try challenges.challenge(bytes, now: Self.now) }
            #expect(code == .unknownChallenge)
        }
    }

    @Test("A key uses a challenge once, with a counter that rises")
    func use() throws {
        let challenges = AppAttestChallenges(key: Self.secret)
        func challenge() throws(AppAttestError) -> AppAttestChallenges.Challenge {
            try challenges.challenge(challenges.issue(now: Self.now), now: Self.now)
        }
        var key = AttestedKey(publicKey: [])
        let (first, second) = (try challenge(), try challenge())
        func use(_ counter: UInt32, _ challenge: AppAttestChallenges.Challenge, now: Int64 = Self.now)
            -> AppAttestError.Code?
        {
            Self.code { () throws(AppAttestError) in
                try key.use(counter: counter, challenge: challenge, now: now)
            }
        }
        #expect(use(0, first) == .repeatedAssertion)
        #expect(use(3, first) == nil && key.counter == 3)
        #expect(use(3, second) == .repeatedAssertion && use(2, second) == .repeatedAssertion)
        #expect(use(4, first) == .repeatedChallenge)
        #expect(key.counter == 3 && key.usedChallenges == [first])
        #expect(use(5, second) == nil)
        for counter in UInt32(6)..<UInt32(4 + AttestedKey.maxUsedChallenges) {
            #expect(use(counter, try challenge()) == nil)
        }
        #expect(key.usedChallenges.count == AttestedKey.maxUsedChallenges)
        #expect(use(100, try challenge()) == .tooManyRequests)
        // Expired challenges are forgotten, because nobody can use them again.
        let later = try challenges.challenge(challenges.issue(now: Self.now + 300), now: Self.now + 300)
        #expect(use(100, later, now: Self.now + 300) == nil)
        #expect(key.usedChallenges == [later])
    }
}
