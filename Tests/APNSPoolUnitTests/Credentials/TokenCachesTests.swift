import SupervisedPool
import Synchronization
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// Which keys have a token cache, and for how long.
struct TokenCachesTests {
    private let clock: SettableClock
    private let caches: TokenCaches

    init() {
        let clock = SettableClock()
        self.clock = clock
        self.caches = TokenCaches(clock: clock, wallClock: { clock.wall })
    }

    /// - Parameter key: The public key; nil: it is not known.
    private func cache(_ key: Int?) throws -> ProviderTokenCache {
        var resolved = ResolvedAuthentication(authentication: .withoutToken)
        resolved.signer = ProviderTokenSigner(
            identifiers: try .sample,
            publicKey: key.map { Array("\($0)".utf8) },
            sign: { _ in [] }
        )
        return caches.cache(of: resolved)
    }

    private func sign(_ key: Int) throws {
        let cache = try cache(key)
        let call = try #require(cache.step().newCall)
        cache.completed(call, .success(.sample(issuedAt: clock.wall)), isShared: false)
    }

    @Test("Clients with the same key share a cache, and a cache without a public key is never shared")
    func sharing() throws {
        let first = try cache(1)
        #expect(try cache(1) === first)
        #expect(try cache(2) !== first)
        #expect(try cache(nil) !== cache(nil))
    }

    @Test("A token that nobody uses is kept for an hour after its signature, and one in use as long as it is used")
    func memory() throws {
        try sign(1)
        let used = try cache(2)
        clock.advance(minutes: 59)
        _ = try cache(3)
        #expect(try cache(1).status.generation == 1)
        clock.advance(minutes: 1)
        _ = try cache(4)
        #expect(try cache(1).status.generation == nil)
        #expect(try cache(2) === used)
    }

    @Test("While APNs refuses new tokens of a key, its cache is kept")
    func heldBack() throws {
        try sign(1)
        clock.advance(minutes: 50)
        _ = try cache(1).rejected(.tooManyProviderTokenUpdates, generation: 1)
        clock.advance(minutes: 19)
        _ = try cache(2)
        #expect(try cache(1).heldBackUntil != nil)
        clock.advance(minutes: 1)
        _ = try cache(3)
        #expect(try cache(1).status.generation == nil)
    }

    @Test("Of the tokens that nobody uses, the oldest ones beyond a limit are forgotten")
    func limit() throws {
        for key in 0..<(TokenCaches.mostUnused + 10) { try sign(key) }
        #expect(caches.count == TokenCaches.mostUnused + 1)
        #expect(try cache(0).status.generation == nil)
        #expect(try cache(TokenCaches.mostUnused).status.generation == 1)
    }

    @Test("A second client notices that the token of the first one was refused, and that signing fails")
    func users() throws {
        let version = SendRouteVersion()
        let reports = Mutex<[SigningReport]>([])
        let cache = try cache(1)
        try sign(1)
        let user = ProviderTokenCache.User(version: version) { report in reports.withLock { $0.append(report) } }
        cache.add(user)
        clock.advance(minutes: 2)
        let before = version.current
        #expect(cache.rejected(.expiredProviderToken, generation: 1) == .replaced)
        #expect(version.current == before + 1)
        #expect(cache.current(now: clock.now) == nil)
        cache.completed(try #require(cache.step().newCall), .failure(TokenError("out of order")), isShared: false)
        #expect(reports.withLock { $0.count } == 1)
        cache.remove(user)
        cache.setRefreshInterval(.seconds(1800))
        #expect(version.current == before + 2)
    }
}
