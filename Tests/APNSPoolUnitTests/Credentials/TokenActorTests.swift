import APNSTransport
import SupervisedPool
import Synchronization
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// A token actor with a clock, a signer and a cache that the test controls.
private struct TokenBench: Sendable {
    let clock: SettableClock
    let signer = ScriptedSigner()
    let cache: ProviderTokenCache

    init() {
        let clock = SettableClock()
        self.clock = clock
        self.cache = ProviderTokenCache(clock: clock, wallClock: { clock.wall })
    }

    func makeActor() throws -> TokenActor {
        TokenActor(signer: try signer.signer(), cache: cache, clock: clock)
    }

    /// Runs an actor, which makes its first signature at once: prepare the signer before this call.
    func whileRunning(_ body: @Sendable (ProviderTokenCache) async throws -> Void) async throws {
        let actor = try makeActor()
        let context = ChildContext(id: "token")
        async let life: Void = actor.run(context)
        do {
            try await body(cache)
        } catch {
            context.requestShutdown()
            throw error
        }
        context.requestShutdown()
        try await life
    }

    func expired(_ generation: Int) -> TokenStateMachine.Verdict {
        cache.rejected(.expiredProviderToken, generation: generation)
    }
}

struct TokenActorTests {
    private let bench = TokenBench()

    @Test("1,000 concurrent callers cause one signature")
    func singleFlight() async throws {
        bench.signer.close()
        try await bench.whileRunning { cache in
            let tokens = try await withThrowingTaskGroup(of: ProviderToken.self) { group in
                for _ in 0..<1_000 {
                    group.addTask { @concurrent in try #require(await cache.token()) }
                }
                await bench.signer.arrival()
                bench.signer.open()
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(tokens.count == 1_000)
            #expect(tokens.allSatisfy { $0 === tokens[0] })
            #expect(bench.signer.count == 1)
            #expect(tokens[0].issuedAt == bench.clock.wall)
        }
    }

    @Test("A token may be used for 30 seconds without further checks, and is replaced after its interval")
    func fastPath() async throws {
        try await bench.whileRunning { cache in
            let token = try #require(await cache.token())
            let current = try #require(cache.current(now: bench.clock.now))
            #expect(current.token === token && current.until == bench.clock.now.advanced(by: .seconds(30)))
            bench.clock.advance(seconds: 30)
            #expect(cache.current(now: bench.clock.now)?.token === token)
            bench.clock.advance(minutes: 49, seconds: 30)
            let second = try #require(await cache.token())
            #expect(second.generation == 2)
            #expect(bench.signer.count == 2)
        }
    }

    @Test("Cancelling the first caller resumes it at once and fails no other caller")
    func cancelledFirst() async throws {
        bench.signer.close()
        try await bench.whileRunning { cache in
            let first = Task { try await cache.token() }
            await bench.signer.arrival()
            let second = Task { try await cache.token() }
            first.cancel()
            // The caller resumes although the signature is still held.
            try await #expect(first.value == nil)
            bench.signer.open()
            try await #expect(second.value?.generation == 1)
            #expect(bench.signer.count == 1)
        }
    }

    @Test("If all waiting callers are cancelled, the token counts as unused")
    func allCallersCancelled() async throws {
        bench.signer.close()
        try await bench.whileRunning { cache in
            let only = Task { try await cache.token() }
            await bench.signer.arrival()
            only.cancel()
            _ = try await only.value
            bench.signer.open()
            await until { cache.status.generation == 1 }
            bench.clock.advance(minutes: 30)
            // 50 minutes after its signature, but only 24 after its first use.
            try await #expect(cache.token()?.generation == 1)
            bench.clock.advance(minutes: 24)
            try await #expect(cache.token()?.generation == 1)
            #expect(bench.signer.count == 1)
        }
    }

    @Test("A restarted actor returns the same token")
    func restart() async throws {
        let kept = Mutex<ProviderToken?>(nil)
        for _ in 0..<5 {
            try await bench.whileRunning { cache in
                let token = try #require(await cache.token())
                let before = kept.withLock { kept in
                    defer { kept = token }
                    return kept
                }
                #expect(before == nil || before === token)
                bench.clock.advance(minutes: 1)
            }
        }
        #expect(bench.signer.count == 1)
    }

    @Test("A caller that waits while the actor restarts gets its token from the next actor")
    func restartDuringACall() async throws {
        bench.signer.close()
        let actor = try bench.makeActor()
        let life = Task { try await actor.run(ChildContext(id: "token")) }
        let callers = (0..<50).map { _ in Task { [cache = bench.cache] in try await cache.token() } }
        await bench.signer.arrival()
        life.cancel()
        // The signer still hangs, and the actor does not wait for it.
        await #expect(throws: CancellationError.self) { try await life.value }
        try await bench.whileRunning { _ in
            await until { bench.signer.count == 2 }
            bench.signer.open()
            for caller in callers { try await #expect(caller.value?.generation == 1) }
            #expect(bench.cache.status.lastFailure == nil)
        }
    }

    @Test("While no actor runs, callers get the old token until a new one is due")
    func oldTokenAfterEnd() async throws {
        try await bench.whileRunning { cache in _ = try await cache.token() }
        bench.clock.advance(minutes: 49)
        try await #expect(bench.cache.token()?.generation == 1)
        bench.clock.advance(minutes: 1)
        let decision = await bench.cache.token(until: bench.clock.now, version: SendRouteVersion()) { true }
        #expect(decision == .wait(until: .distantFuture))
    }

    @Test("A caller that arrives before run() gets a token")
    func early() async throws {
        let early = Task { [cache = bench.cache] in try await cache.token() }
        try await bench.whileRunning { _ in try await #expect(early.value?.generation == 1) }
    }

    @Test("run() can be called only once per actor")
    func runsOnce() async throws {
        let actor = try bench.makeActor()
        let context = ChildContext(id: "token")
        context.requestShutdown()
        try await actor.run(context)
        await #expect(throws: TokenError.self) { try await actor.run(ChildContext(id: "token")) }
    }

    @Test("run() reports its start, and returns if a stop was requested before")
    func startAndStop() async throws {
        let started = Mutex(0)
        let context = ChildContext(id: "token", onStarted: { started.withLock { $0 += 1 } })
        context.requestShutdown()
        try await bench.makeActor().run(context)
        #expect(started.withLock { $0 } == 1)
    }

    @Test("A failed signature does not end the actor, and the old token is used for 58 minutes")
    func failures() async throws {
        bench.signer.setFailing(true)
        try await bench.whileRunning { cache in
            await #expect(throws: TokenError.self) { try await cache.token() }
            bench.signer.setFailing(false)
            bench.clock.advance(seconds: 5)
            let token = try #require(await cache.token())
            #expect(bench.cache.status.lastFailure == nil)
            let count = bench.signer.count

            bench.signer.setFailing(true)
            bench.clock.advance(minutes: 50)
            try await #expect(cache.token() === token)
            #expect(bench.signer.count == count + 1)
            #expect(bench.cache.status.lastFailure != nil)
            // The signer is not called for each push.
            try await #expect(cache.token() === token)
            #expect(bench.signer.count == count + 1)
            bench.clock.advance(minutes: 8)
            await #expect(throws: TokenError.self) { try await cache.token() }
            bench.signer.setFailing(false)
            bench.clock.advance(seconds: 60)
            try await #expect(cache.token()?.generation == 2)
        }
    }

    @Test("Many responses that report an expired token cause one signature")
    func expired() async throws {
        try await bench.whileRunning { cache in
            let old = try #require(await cache.token())
            bench.clock.advance(minutes: 2)
            _ = try #require(await cache.token())
            let generations = await withTaskGroup(of: Int?.self) { group in
                for _ in 0..<200 {
                    group.addTask { @concurrent in
                        guard bench.expired(old.generation) == .replaced else { return nil }
                        return try? await cache.token()?.generation
                    }
                }
                return await group.reduce(into: []) { $0.append($1) }
            }
            #expect(generations.allSatisfy { $0 == 2 })
            #expect(bench.signer.count == 2)
            // The new token is refused too: the clock is suspect, and no further token is signed.
            #expect(bench.expired(2) == .clockSuspect)
            #expect(bench.cache.status.isClockSuspect)
            try await #expect(cache.token()?.generation == 2)
            #expect(bench.signer.count == 2)
        }
    }

    @Test("After too many updates the token stays in use, and its refresh waits")
    func tooMany() async throws {
        try await bench.whileRunning { cache in
            let token = try #require(await cache.token())
            bench.clock.advance(minutes: 49)
            let until = bench.clock.now.advanced(by: TokenPolicy.holdBack)
            let verdict = cache.rejected(.tooManyProviderTokenUpdates, generation: 1)
            #expect(verdict == .tooManyUpdates(until: until, isNew: true))
            #expect(cache.status.heldBackUntil == until)
            bench.clock.advance(minutes: 5)
            try await #expect(cache.token() === token)
            #expect(bench.signer.count == 1)
        }
    }

    @Test("With a real key, all callers of a round get the same token, even if other callers are cancelled")
    func storm() async throws {
        let key = try ES256PrivateKey()
        let signer = ProviderTokenSigner(key: key, identifiers: try .sample)
        let clock = bench.clock
        let cache = bench.cache
        let actor = TokenActor(signer: signer, cache: cache, clock: clock)
        let context = ChildContext(id: "token")
        async let life: Void = actor.run(context)
        for round in 1...20 {
            await withTaskGroup(of: Void.self) { group in
                for number in 0..<100 {
                    group.addTask { @concurrent in
                        let caller = Task { try await cache.token() }
                        if number.isMultiple(of: 3) { caller.cancel() }
                        let token = try? await caller.value
                        #expect(token.map { $0.generation == round } ?? number.isMultiple(of: 3))
                    }
                }
            }
            clock.advance(minutes: 50)
        }
        #expect(cache.status.generation == 20)
        context.requestShutdown()
        try await life
    }
}

struct ProviderTokenCacheTests {
    /// Two pushes learn at the same time that the token has expired. The one that read the clock first asks last.
    @Test func aRefusedTokenIsNotReturnedForAnEarlierTime() throws {
        let clock = SettableClock()
        let version = SendRouteVersion()
        let cache = ProviderTokenCache(clock: clock, wallClock: { clock.wall })
        cache.add(ProviderTokenCache.User(version: version))
        let call = try #require(cache.step().newCall)
        cache.completed(call, .success(.sample(issuedAt: clock.wall)), isShared: false)
        #expect(cache.current(now: clock.now)?.token.generation == 1)
        clock.advance(minutes: 10)
        let early = clock.now
        let before = version.current
        for _ in 0..<2 {
            #expect(cache.rejected(.expiredProviderToken, generation: 1) == .replaced)
            clock.advance(seconds: 1)
        }
        // The refusal outdates the routes once.
        #expect(version.current == before + 1)
        #expect(cache.current(now: early) == nil)
        #expect(cache.current(now: clock.now) == nil)
        #expect(cache.current(now: early) == nil)
    }
}
