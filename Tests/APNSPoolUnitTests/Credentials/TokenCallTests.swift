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
        var calls: [TokenStateMachine.Call] = []

        /// The decision on a request.
        mutating func ask(_ now: MonotonicInstant) -> TokenStateMachine.Decision {
            machine.use(now: now, wallNow: 1_800_000_000)
        }

        @discardableResult
        mutating func step(_ now: MonotonicInstant) -> TokenStateMachine.Step {
            let step = machine.step(now: now, wallNow: 1_800_000_000)
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

    @Test("After a failed call, requests get its error until the next call, which needs no request")
    func failedCall() {
        var bench = Bench()
        bench.step(at(0))
        #expect(bench.ask(at(0)) == .wait(until: at(10)))
        #expect(bench.returns(1, at(1), hasToken: false)?.isChange == true)
        for now in [at(1), at(5)] {
            #expect(bench.ask(now) == .fail(TokenError("out of order"), nextTry: at(6)))
            #expect(bench.step(now) == TokenStateMachine.Step(wakeAt: at(6)))
        }
        #expect(bench.step(at(6)).newCall?.number == 2)
        #expect(bench.returns(2, at(7)) == SigningReport(failure: nil, isChange: true))
    }

    @Test("A call is late after ten seconds and abandoned after thirty, and then its failure has no effect")
    func givenUp() {
        var bench = Bench()
        bench.step(at(0))
        let late = bench.step(at(10))
        #expect(late.current == 1 && late.report?.failure == .tooSlow && late.wakeAt == at(30))
        #expect(bench.ask(at(11)) == .fail(.tooSlow, nextTry: at(30)))
        #expect(bench.step(at(20)).newCall == nil)
        // The next call is made without a request.
        let over = bench.step(at(30))
        #expect(over.newCall?.number == 2 && over.current == 2)
        #expect(bench.returns(1, at(31), hasToken: false) == nil)
        #expect(bench.step(at(31)).current == 2)
    }

    @Test("The token of an abandoned call is used, and the next call is not needed any more")
    func lateToken() {
        var bench = Bench()
        bench.step(at(0))
        bench.step(at(10))
        bench.step(at(30))
        #expect(bench.returns(1, at(31)) == SigningReport(failure: nil, isChange: true))
        #expect(bench.step(at(31)).current == nil)
        #expect(bench.returns(2, at(32)) == nil)
        #expect(bench.machine.generation == 1)
    }

    @Test("A signer that never returns is called four times, and again after one call has returned")
    func hangingForEver() {
        var bench = Bench()
        for number in 1...4 {
            let now = Int64(number - 1) * 30
            #expect(bench.step(at(now)).newCall?.number == number)
            bench.step(at(now + 10))
        }
        #expect(bench.step(at(120)) == TokenStateMachine.Step())
        #expect(bench.ask(at(600)) == .fail(.tooSlow, nextTry: at(140)))
        #expect(bench.step(at(600)) == TokenStateMachine.Step())
        #expect(bench.returns(2, at(600), hasToken: false) == nil)
        #expect(bench.step(at(600)).newCall?.number == 5)
    }
}
