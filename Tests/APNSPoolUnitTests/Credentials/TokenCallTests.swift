import SupervisedPool
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// How long the client waits for a signer, and when it calls the signer again.
struct TokenCallTests {
    private func at(_ seconds: Int64) -> MonotonicInstant { MonotonicInstant(nanoseconds: seconds * 1_000_000_000) }

    /// A machine with its calls.
    private struct Bench {
        var machine = TokenStateMachine()
        let patience: Duration
        var calls: [TokenStateMachine.Call] = []

        init(patience: Duration = .zero) { self.patience = patience }

        /// The decision on a new request.
        mutating func ask(_ now: MonotonicInstant) -> TokenStateMachine.Decision {
            var request = TokenStateMachine.Request()
            return machine.use(&request, now: now, wallNow: 1_800_000_000)
        }

        @discardableResult
        mutating func step(_ now: MonotonicInstant) -> TokenStateMachine.Step {
            let step = machine.step(patience: patience, now: now, wallNow: 1_800_000_000)
            if let call = step.newCall { calls.append(call) }
            return step
        }

        mutating func returns(_ number: Int, _ now: MonotonicInstant, hasToken: Bool = true) -> SigningReport? {
            let token = SharedProviderToken.sample(issuedAt: 1_800_000_000)
            let result: Result<SharedProviderToken, TokenError> =
                hasToken ? .success(token) : .failure(TokenError("out of order"))
            return machine.completed(calls[number - 1], result, now: now)
        }
    }

    @Test("The first token is signed without a request, and all requests share one call")
    func oneCall() {
        var bench = Bench()
        let step = bench.step(at(0))
        #expect(step.newCall?.number == 1 && step.current == 1 && step.wakeAt == at(10))
        for _ in 0..<3 { #expect(bench.ask(at(1)) == .wait(until: at(10))) }
        #expect(bench.step(at(1)).newCall == nil)
        #expect(bench.returns(1, at(2)) == SigningReport(failure: nil, isChange: false))
        guard case .use(let token, _) = bench.ask(at(2)) else {
            Issue.record("the token is not used")
            return
        }
        #expect(token.generation == 1)
        #expect(bench.step(at(2)) == TokenStateMachine.Step())
    }

    @Test("A request that waited for a failed call gets its error; the next request causes a call at once")
    func failedCall() {
        var bench = Bench()
        bench.step(at(0))
        var waiting = TokenStateMachine.Request()
        #expect(bench.machine.use(&waiting, now: at(0), wallNow: 1_800_000_000) == .wait(until: at(10)))
        #expect(bench.returns(1, at(1), hasToken: false)?.isChange == true)
        let decision = bench.machine.use(&waiting, now: at(1), wallNow: 1_800_000_000)
        #expect(decision == .fail(TokenError("out of order"), nextTry: at(6)))
        // Without a request, the next call waits.
        #expect(bench.step(at(1)).wakeAt == at(6))
        #expect(bench.ask(at(2)) == .wait(until: .distantFuture))
        #expect(bench.step(at(2)).newCall?.number == 2)
        #expect(bench.returns(2, at(3)) == SigningReport(failure: nil, isChange: true))
    }

    @Test("A call of a signer is abandoned after ten seconds, and its late failure has no effect")
    func givenUp() {
        var bench = Bench()
        bench.step(at(0))
        let late = bench.step(at(10))
        #expect(late.current == nil && late.report?.failure == .tooSlow && late.wakeAt == at(15))
        #expect(bench.ask(at(11)) == .fail(.tooSlow, nextTry: at(15)))
        // The next call is made without a request.
        #expect(bench.step(at(15)).newCall?.number == 2)
        #expect(bench.returns(1, at(16), hasToken: false) == nil)
        #expect(bench.step(at(16)).current == 2)
    }

    @Test("A late source is not called again before it returns or its patience is over")
    func lateSource() {
        var bench = Bench(patience: .seconds(20))
        bench.step(at(0))
        let late = bench.step(at(10))
        #expect(late.current == 1 && late.report?.failure == .tooSlow && late.wakeAt == at(30))
        #expect(bench.ask(at(20)) == .fail(.tooSlow, nextTry: at(15)))
        #expect(bench.step(at(20)).newCall == nil)
        let over = bench.step(at(30))
        #expect(over.newCall?.number == 2 && over.current == 2)
    }

    @Test("The token of an abandoned call is used, and the next call is not needed any more")
    func lateToken() {
        var bench = Bench()
        bench.step(at(0))
        bench.step(at(10))
        bench.step(at(15))
        #expect(bench.returns(1, at(16)) == SigningReport(failure: nil, isChange: true))
        #expect(bench.step(at(16)).current == nil)
        #expect(bench.returns(2, at(17)) == nil)
        #expect(bench.machine.generation == 1)
    }

    @Test("A signer that never returns is called four times, and again after one call has returned")
    func hangingForEver() {
        var bench = Bench()
        for number in 1...4 {
            let now = Int64(number) * 100
            #expect(bench.step(at(now)).newCall?.number == number)
            bench.step(at(now + 10))
        }
        #expect(bench.ask(at(600)) == .fail(.tooSlow, nextTry: at(450)))
        #expect(bench.step(at(600)) == TokenStateMachine.Step())
        #expect(bench.returns(2, at(600), hasToken: false) == nil)
        #expect(bench.step(at(600)).newCall?.number == 5)
    }
}

struct TokenCachesTests {
    @Test("The caches of the most recent keys are kept, and a cache without a public key is never shared")
    func lastKeys() throws {
        var caches = TokenCaches(
            APNSClientConfiguration(authentication: .withoutToken),
            version: SendRouteVersion()
        )
        func resolved(_ number: UInt8?) throws -> ResolvedAuthentication {
            var resolved = ResolvedAuthentication(authentication: .withoutToken)
            resolved.signer = ProviderTokenSigner(
                identifiers: try .sample,
                publicKey: number.map { [$0] },
                sign: { _ in [] }
            )
            return resolved
        }
        let first = caches.cache(of: try resolved(1))
        for number: UInt8 in 2...4 { #expect(caches.cache(of: try resolved(number)) !== first) }
        #expect(caches.cache(of: try resolved(1)) === first)
        for number: UInt8 in 5...8 { _ = caches.cache(of: try resolved(number)) }
        #expect(caches.cache(of: try resolved(1)) !== first)
        #expect(caches.cache(of: try resolved(nil)) !== caches.cache(of: try resolved(nil)))
        // Other keys on trial do not evict the cache of the key in use.
        let used = try resolved(20)
        let current = caches.cache(of: used)
        for number: UInt8 in 21...30 { _ = caches.cache(of: try resolved(number), keeping: used.signer) }
        #expect(caches.cache(of: used) === current)
    }
}
