import HTTP2Wire
import SupervisedPool
import Synchronization
import Testing

@testable import APNSPool

/// A token actor with a clock, a signer and a cache that the test controls.
private struct TokenBench: Sendable {
    let clock = SettableClock()
    let signer = ScriptedSigner()
    let cache = ProviderTokenCache()

    func makeActor() throws -> TokenActor {
        TokenActor(signer: try signer.signer(), cache: cache, clock: clock, wallClock: { [clock] in clock.wall })
    }

    func whileRunning(_ body: @Sendable (TokenActor) async throws -> Void) async throws {
        let actor = try makeActor()
        let context = ChildContext(id: "token")
        async let life: Void = actor.run(context)
        do {
            try await body(actor)
        } catch {
            context.requestShutdown()
            throw error
        }
        context.requestShutdown()
        try await life
    }

    func rejected(_ reason: RejectionReason, _ generation: Int) -> TokenStateMachine.Verdict {
        cache.rejected(reason, generation: generation, now: clock.now, wallNow: clock.wall)
    }

    func expired(_ generation: Int) -> TokenStateMachine.Verdict {
        rejected(.expiredProviderToken, generation)
    }
}

struct TokenActorTests {
    private let bench = TokenBench()

    @Test("1,000 concurrent callers cause one signature")
    func singleFlight() async throws {
        try await bench.whileRunning { actor in
            bench.signer.close()
            let tokens = try await withThrowingTaskGroup(of: ProviderToken.self) { group in
                for _ in 0..<1_000 {
                    group.addTask { @concurrent in try await actor.token().get() }
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

    @Test("The fast path opens with the first use, and closes when the state machine must decide")
    func fastPath() async throws {
        try await bench.whileRunning { actor in
            #expect(bench.cache.current(now: bench.clock.now) == nil)
            let token = try await actor.token().get()
            #expect(bench.cache.current(now: bench.clock.now)?.token === token)
            bench.clock.advance(seconds: 29)
            #expect(bench.cache.current(now: bench.clock.now)?.token === token)
            bench.clock.advance(seconds: 1)
            #expect(bench.cache.current(now: bench.clock.now) == nil)
            try await #expect(actor.token().get() === token)
            #expect(bench.cache.current(now: bench.clock.now)?.token === token)
            // The fast path stays open until the refresh, not longer.
            bench.clock.advance(minutes: 49, seconds: 20)
            try await #expect(actor.token().get() === token)
            bench.clock.advance(seconds: 9)
            #expect(bench.cache.current(now: bench.clock.now)?.token === token)
            bench.clock.advance(seconds: 1)
            #expect(bench.cache.current(now: bench.clock.now) == nil)
            let second = try await actor.token().get()
            #expect(second.generation == 2)
            #expect(bench.signer.count == 2)
        }
    }

    @Test("Cancelling the first caller resumes it at once and fails no other caller")
    func cancelledFirst() async throws {
        try await bench.whileRunning { actor in
            bench.signer.close()
            let first = Task { await actor.token() }
            await bench.signer.arrival()
            let second = Task { await actor.token() }
            first.cancel()
            // The caller resumes although the signature is still held.
            let result = await first.value
            #expect(throws: TokenError.cancelled) { try result.get() }
            bench.signer.open()
            try await #expect(second.value.get().generation == 1)
            #expect(bench.signer.count == 1)
        }
    }

    @Test("A caller that is cancelled before its request causes no signature besides the first")
    func cancelledBefore() async throws {
        bench.signer.close()
        try await bench.whileRunning { actor in
            await bench.signer.arrival()
            let caller = Task {
                while !Task.isCancelled { try? await ContinuousClock().sleep(for: .milliseconds(1)) }
                return await actor.token()
            }
            caller.cancel()
            let result = await caller.value
            #expect(throws: TokenError.cancelled) { try result.get() }
            bench.signer.open()
            #expect(bench.signer.count == 1)
        }
    }

    @Test("A caller that is cancelled before run() starts causes no signature")
    func cancelledBeforeRun() async throws {
        let actor = try bench.makeActor()
        for _ in 0..<20 {
            let caller = Task { await actor.token() }
            // Usually enough for the caller to be waiting. The result is the same otherwise.
            for _ in 0..<20 { await Task.yield() }
            caller.cancel()
            let result = await caller.value
            #expect(throws: TokenError.cancelled) { try result.get() }
        }
        let context = ChildContext(id: "token")
        context.requestShutdown()
        try await actor.run(context)
        #expect(bench.signer.count == 0)
    }

    @Test("If all waiting callers are cancelled, the token counts as unused")
    func allCallersCancelled() async throws {
        try await bench.whileRunning { actor in
            bench.signer.close()
            let only = Task { await actor.token() }
            await bench.signer.arrival()
            only.cancel()
            _ = await only.value
            bench.signer.open()
            while bench.cache.status(now: bench.clock.now).generation == nil {
                try? await ContinuousClock().sleep(for: .milliseconds(1))
            }
            #expect(bench.cache.current(now: bench.clock.now) == nil)
            bench.clock.advance(minutes: 30)
            try await #expect(actor.token().get().generation == 1)
            #expect(bench.signer.count == 1)
        }
    }

    @Test("A restarted actor returns the same token")
    func restart() async throws {
        let kept = Mutex<ProviderToken?>(nil)
        for _ in 0..<5 {
            try await bench.whileRunning { actor in
                let token = try await actor.token().get()
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

    @Test("The end of run() resumes all waiting callers")
    func endResumes() async throws {
        let actor = try bench.makeActor()
        let life = Task { try await actor.run(ChildContext(id: "token")) }
        bench.signer.close()
        let results = await withTaskGroup(of: Result<ProviderToken, TokenError>.self) { group in
            for _ in 0..<50 { group.addTask { @concurrent in await actor.token() } }
            await bench.signer.arrival()
            bench.signer.setFailing(true)
            life.cancel()
            // The signer still hangs, and no caller waits for it.
            let results = await group.reduce(into: []) { $0.append($1) }
            bench.signer.open()
            return results
        }
        #expect(results.count == 50)
        for result in results { #expect(throws: TokenError.stopped) { try result.get() } }
        await #expect(throws: CancellationError.self) { try await life.value }
        // Later callers fail in the same way.
        let late = await actor.token()
        #expect(throws: TokenError.stopped) { try late.get() }
        #expect(bench.cache.status(now: bench.clock.now).lastFailure == nil)
    }

    @Test("Callers of an actor that has ended get the old token while it is valid")
    func oldTokenAfterEnd() async throws {
        let ended = Mutex<TokenActor?>(nil)
        try await bench.whileRunning { actor in
            _ = try await actor.token().get()
            ended.withLock { $0 = actor }
        }
        let actor = try #require(ended.withLock { $0 })
        bench.clock.advance(minutes: 57)
        try await #expect(actor.token().get().generation == 1)
        bench.clock.advance(minutes: 1)
        let late = await actor.token()
        #expect(throws: TokenError.stopped) { try late.get() }
    }

    @Test("A caller that arrives before run() gets a token")
    func early() async throws {
        let actor = try bench.makeActor()
        async let early = actor.token()
        let context = ChildContext(id: "token")
        async let life: Void = actor.run(context)
        try await #expect(early.get().generation == 1)
        context.requestShutdown()
        try await life
    }

    @Test("run() can be called only once per actor")
    func runsOnce() async throws {
        try await bench.whileRunning { actor in
            _ = await actor.token()
            await #expect(throws: TokenError.self) { try await actor.run(ChildContext(id: "token")) }
        }
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
        try await bench.whileRunning { actor in
            bench.signer.setFailing(true)
            let first = await actor.token()
            let error = #expect(throws: TokenError.self) { try first.get() }
            #expect(error?.code == .signingFailed)
            bench.signer.setFailing(false)
            let token = try await actor.token().get()
            #expect(bench.cache.status(now: bench.clock.now).lastFailure == nil)

            bench.signer.setFailing(true)
            bench.clock.advance(minutes: 50)
            try await #expect(actor.token().get() === token)
            #expect(bench.signer.count == 3)
            #expect(bench.cache.status(now: bench.clock.now).lastFailure?.code == .signingFailed)
            // The signer is not called for each push.
            #expect(bench.cache.current(now: bench.clock.now)?.token === token)
            try await #expect(actor.token().get() === token)
            #expect(bench.signer.count == 3)
            bench.clock.advance(minutes: 8)
            let last = await actor.token()
            #expect(throws: TokenError.self) { try last.get() }
            bench.signer.setFailing(false)
            try await #expect(actor.token().get().generation == 2)
        }
    }

    @Test("Many responses that report an expired token cause one signature")
    func expired() async throws {
        try await bench.whileRunning { actor in
            let old = try await actor.token().get()
            bench.clock.advance(minutes: 2)
            _ = try await actor.token().get()
            let generations = await withTaskGroup(of: Int?.self) { group in
                for _ in 0..<200 {
                    group.addTask { @concurrent in
                        let verdict = bench.expired(old.generation)
                        guard verdict == .expired(.refresh) || verdict == .expired(.alreadyReplaced) else { return nil }
                        return try? await actor.token().get().generation
                    }
                }
                return await group.reduce(into: []) { $0.append($1) }
            }
            #expect(generations.allSatisfy { $0 == 2 })
            #expect(bench.signer.count == 2)
            // The new token is refused too: the clock is suspect, and no further token is signed.
            #expect(bench.expired(2) == .clockSuspect)
            #expect(bench.cache.status(now: bench.clock.now).isClockSuspect)
            try await #expect(actor.token().get().generation == 2)
            #expect(bench.signer.count == 2)
        }
    }

    @Test("An expired token closes the fast path at once")
    func expiredClosesFastPath() async throws {
        try await bench.whileRunning { actor in
            _ = try await actor.token().get()
            bench.clock.advance(minutes: 2)
            _ = try await actor.token().get()
            #expect(bench.cache.current(now: bench.clock.now) != nil)
            #expect(bench.expired(1) == .expired(.refresh))
            #expect(bench.cache.current(now: bench.clock.now) == nil)
        }
    }

    @Test("After too many updates the token stays in use, and its refresh waits")
    func tooMany() async throws {
        try await bench.whileRunning { actor in
            let token = try await actor.token().get()
            bench.clock.advance(minutes: 49)
            let until = bench.clock.now.advanced(by: TokenPolicy.holdBack)
            #expect(bench.rejected(.tooManyProviderTokenUpdates, 1) == .tooManyUpdates(until: until, isNew: true))
            #expect(bench.cache.status(now: bench.clock.now).heldBackUntil == until)
            bench.clock.advance(minutes: 5)
            try await #expect(actor.token().get() === token)
            #expect(bench.signer.count == 1)
        }
    }

    @Test("With a real key, all callers of a round get the same token, even if other callers are cancelled")
    func storm() async throws {
        let key = try ES256PrivateKey()
        let signer = ProviderTokenSigner(key: key, identifiers: try .sample)
        let clock = bench.clock
        let actor = TokenActor(signer: signer, cache: bench.cache, clock: clock, wallClock: { clock.wall })
        let context = ChildContext(id: "token")
        async let life: Void = actor.run(context)
        for round in 1...20 {
            await withTaskGroup(of: Void.self) { group in
                for number in 0..<100 {
                    group.addTask { @concurrent in
                        let caller = Task { await actor.token() }
                        if number.isMultiple(of: 3) { caller.cancel() }
                        switch await caller.value {
                        case .success(let token): #expect(token.generation == round)
                        case .failure(let error): #expect(error == .cancelled)
                        }
                    }
                }
            }
            clock.advance(minutes: 50)
        }
        #expect(bench.cache.status(now: clock.now).generation == 20)
        context.requestShutdown()
        try await life
    }
}

struct ProviderTokenCacheTests {
    /// Two pushes learn at the same time that the token has expired. The one that read the clock first asks last.
    @Test func aRefusedTokenIsNotReturnedForAnEarlierTime() throws {
        let cache = ProviderTokenCache()
        let start = MonotonicInstant(nanoseconds: 0)
        guard case .sign(let order) = cache.next(now: start, wallNow: 1_000) else {
            Issue.record("an empty cache returned a token")
            return
        }
        _ = cache.install("a.b.c", for: order, now: start, isUsed: true)
        let early = start.advanced(by: .seconds(600))
        let late = early.advanced(by: .milliseconds(1))
        for now in [early, late] {
            let verdict = cache.rejected(.expiredProviderToken, generation: 1, now: now, wallNow: 1_600)
            #expect(verdict == .expired(.refresh))
        }
        #expect(cache.current(now: early) == nil)
        guard case .sign = cache.next(now: late, wallNow: 1_600) else {
            Issue.record("the refused token is used")
            return
        }
        #expect(cache.current(now: early) == nil)
    }
}
