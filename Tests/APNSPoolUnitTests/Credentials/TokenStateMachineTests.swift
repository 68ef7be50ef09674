import SupervisedPool
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// The state machine with two clocks that the test sets.
private final class Bench {
    enum Decision: Equatable {
        case useCurrent
        /// The request waits for a signature.
        case sign
        case unavailable(until: MonotonicInstant?)
    }

    var machine: TokenStateMachine
    var now = MonotonicInstant(nanoseconds: 5_000_000_000)
    var wall: Int64 = 1_800_000_000
    private var call: TokenStateMachine.Call?

    init(minutes: Int = 50) {
        machine = TokenStateMachine(refreshInterval: .seconds(minutes * 60))
    }

    func advance(minutes: Int64 = 0, seconds: Int64 = 0) {
        now = now.advanced(by: .seconds(minutes * 60 + seconds))
        wall += minutes * 60 + seconds
    }

    /// The decision on a new request.
    func use() -> Decision {
        switch machine.use(now: now, wallNow: wall) {
        case .use: .useCurrent
        case .wait: .sign
        case .fail(_, let nextTry): .unavailable(until: nextTry)
        }
    }

    /// Returns the call under way, after a use that must sign.
    @discardableResult
    func order() throws -> TokenStateMachine.Call {
        guard use() == .sign else {
            Issue.record("the current token is used instead of a new one")
            throw CancellationError()
        }
        let step = machine.step(now: now, wallNow: wall)
        if let made = step.newCall { call = made }
        return try #require(call)
    }

    /// Orders a token and installs it.
    @discardableResult
    func sign(isUsed: Bool = true) throws -> TokenStateMachine.Call {
        let call = try order()
        #expect(signed(call))
        if isUsed { #expect(use() == .useCurrent) }
        return call
    }

    func signed(_ call: TokenStateMachine.Call) -> Bool {
        machine.completed(call, .success(.sample(issuedAt: call.issuedAt)), now: now) != nil
    }

    /// Ends the call under way. Returns whether the old token is used.
    func signingFailed() throws -> Bool {
        _ = machine.completed(try #require(call), .failure(TokenError("out of order")), now: now)
        return machine.isUsable(now: now, wallNow: wall)
    }

    /// Waits until the call under way is late.
    func signerIsSilent() {
        advance(seconds: 10)
        step()
    }

    func step() {
        if let made = machine.step(now: now, wallNow: wall).newCall { call = made }
    }

    func expired(_ generation: Int) -> TokenStateMachine.Verdict {
        machine.rejected(.expiredProviderToken, generation: generation, serverTime: nil, now: now, wallNow: wall)
    }

    /// - Parameter serverTime: nil: the response has no date.
    func refused(_ generation: Int, serverTime: Int64?) -> TokenStateMachine.Verdict {
        machine.rejected(
            .invalidProviderToken,
            generation: generation,
            serverTime: serverTime,
            now: now,
            wallNow: wall
        )
    }

    /// Returns the end of the period in which signatures are held back.
    func tooManyUpdates() -> MonotonicInstant? {
        let verdict = machine.rejected(
            .tooManyProviderTokenUpdates,
            generation: 1,
            serverTime: nil,
            now: now,
            wallNow: wall
        )
        if case .tooManyUpdates(let until, _) = verdict { return until }
        return nil
    }
}

struct TokenStateMachineTests {
    @Test("The first use signs, with the wall clock's time")
    func first() throws {
        let bench = Bench()
        let call = try bench.order()
        #expect(call.generation == 1 && call.issuedAt == 1_800_000_000 && call.began == bench.now)
        // There is still no token.
        #expect(try bench.order() == call)
        try bench.sign()
        #expect(bench.use() == .useCurrent)
    }

    @Test("A token is refreshed at the interval after its first use, not before", arguments: [20, 30, 50, 55])
    func interval(minutes: Int) throws {
        let bench = Bench(minutes: minutes)
        try bench.sign()
        bench.advance(minutes: Int64(minutes), seconds: -1)
        #expect(bench.use() == .useCurrent)
        bench.advance(seconds: 1)
        let call = try bench.sign()
        #expect(call.generation == 2 && call.issuedAt == bench.wall && call.began == bench.now)
        #expect(bench.use() == .useCurrent)
    }

    @Test("With an interval of 60 minutes a token is refreshed at an age of 55")
    func longInterval() throws {
        let bench = Bench(minutes: 60)
        try bench.sign()
        bench.advance(minutes: 54, seconds: 59)
        #expect(bench.use() == .useCurrent)
        bench.advance(seconds: 1)
        try #expect(bench.order().generation == 2)
    }

    @Test("The interval counts from the first use, the age from the signature")
    func lateFirstUse() throws {
        let bench = Bench()
        try bench.sign(isUsed: false)
        bench.advance(minutes: 30)
        #expect(bench.use() == .useCurrent)
        bench.advance(minutes: 24, seconds: 59)
        #expect(bench.use() == .useCurrent)
        bench.advance(seconds: 1)
        try #expect(bench.order().generation == 2)
    }

    @Test("A token that stays unused for too long is replaced at its first use")
    func unused() throws {
        let bench = Bench()
        try bench.sign(isUsed: false)
        bench.advance(minutes: 35)
        try #expect(bench.sign().generation == 2)
        // The wall clock alone has the same effect.
        let other = Bench()
        try other.sign(isUsed: false)
        other.wall += 56 * 60
        try #expect(other.sign().issuedAt == other.wall)
    }

    @Test("After a failed refresh the old token is used for 58 minutes")
    func failedRefresh() throws {
        let bench = Bench()
        try bench.sign()
        bench.advance(minutes: 50)
        var tries = 0
        while bench.now < MonotonicInstant(nanoseconds: 5_000_000_000).advanced(by: .seconds(58 * 60)) {
            if bench.use() != .useCurrent {
                tries += 1
                try bench.order()
                #expect(try bench.signingFailed())
            }
            #expect(bench.use() == .useCurrent)
            bench.advance(seconds: 1)
        }
        // The refreshes are 5, 10, 20, 40, 60, 60 … s apart.
        #expect((8...13).contains(tries))
        bench.advance(minutes: 1)
        try bench.order()
        #expect(try !bench.signingFailed())
        // Without a token, too, the next call waits.
        guard case .unavailable(let next?) = bench.use() else {
            Issue.record("a failed call is repeated at once")
            return
        }
        #expect(next <= bench.now.advanced(by: .seconds(60)))
        bench.advance(minutes: 1)
        try bench.sign()
        #expect(bench.use() == .useCurrent)
    }

    @Test("After a failed first signature, the next one follows after five seconds")
    func failedFirst() throws {
        let bench = Bench()
        try bench.order()
        #expect(try !bench.signingFailed())
        #expect(bench.use() == .unavailable(until: bench.now.advanced(by: .seconds(5))))
        bench.advance(seconds: 5)
        try #expect(bench.sign().generation == 1)
    }

    @Test("After the wall clock jumps back, a token in use is kept until its interval is over: it is the good one")
    func backwards() throws {
        for back: Int64 in [3_600, 86_400, 1_000_000_000] {
            let bench = Bench()
            try bench.sign()
            bench.advance(minutes: 5)
            bench.wall -= back
            #expect(bench.use() == .useCurrent)
            bench.advance(minutes: 44, seconds: 59)
            #expect(bench.use() == .useCurrent)
            bench.advance(seconds: 1)
            // A new token with the current wall time.
            try #expect(bench.sign().issuedAt == bench.wall)
            bench.advance(minutes: 49, seconds: 59)
            #expect(bench.use() == .useCurrent)
        }
    }

    @Test("A small step back of the wall clock, as NTP makes it, keeps the token")
    func smallStep() throws {
        let bench = Bench()
        try bench.sign()
        bench.advance(minutes: 25)
        bench.wall -= 25 * 60 + 30
        #expect(bench.use() == .useCurrent)
    }

    @Test("An unused token from the future is replaced at once")
    func unusedFuture() throws {
        let bench = Bench()
        try bench.sign(isUsed: false)
        bench.wall -= 3_600
        try #expect(bench.sign().issuedAt == bench.wall)
    }

    @Test("A token expires by the wall clock alone, as after a suspension")
    func suspended() throws {
        let bench = Bench()
        try bench.sign()
        bench.advance(minutes: 2)
        bench.wall += 56 * 60
        // 58 minutes by the wall clock.
        try #expect(bench.order().generation == 2)
    }

    @Test("A wall clock that keeps jumping forth and back does not cause a signature each time")
    func flapping() throws {
        let bench = Bench()
        try bench.sign()
        var signatures = 0
        for step in 0..<(6 * 60) {
            bench.advance(seconds: 10)
            bench.wall += step.isMultiple(of: 2) ? 7_200 : -7_200
            if bench.use() != .useCurrent {
                try bench.sign()
                signatures += 1
            }
        }
        // 360 jumps in an hour. A jump ahead may be a suspension, so it signs; a jump back waits for 20 minutes.
        #expect(signatures <= 6)
    }

    @Test("Two signatures are at least 20 minutes of use apart, for any small steps of the wall clock")
    func twentyMinutes() throws {
        let bench = Bench(minutes: 20)
        try bench.sign()
        var random = SystemRandomNumberGenerator()
        var lastFirstUse = bench.now
        for _ in 0..<5_000 {
            bench.advance(seconds: Int64.random(in: 0...120, using: &random))
            // The steps are too small to count as a suspension.
            bench.wall += Int64.random(in: -600...600, using: &random) / 10
            if bench.use() != .useCurrent {
                #expect(lastFirstUse.duration(to: bench.now) >= .seconds(20 * 60))
                try bench.sign()
                lastFirstUse = bench.now
                bench.wall = 1_800_000_000 + bench.now.nanoseconds / 1_000_000_000
            }
        }
    }

    @Test("An expired token is replaced once, however many responses report it")
    func expired() throws {
        let bench = Bench()
        try bench.sign()
        bench.advance(minutes: 3)
        for _ in 0..<100 { #expect(bench.expired(1) == .replaced) }
        try #expect(bench.sign().generation == 2)
        for _ in 0..<100 { #expect(bench.expired(1) == .replaced) }
        #expect(bench.use() == .useCurrent)
        #expect(!bench.machine.isClockSuspect)
    }

    @Test("A refused token is not used, even if no other can be signed")
    func refusedAndFailed() throws {
        let bench = Bench()
        try bench.sign()
        bench.advance(minutes: 3)
        #expect(bench.expired(1) == .replaced)
        try bench.order()
        #expect(try !bench.signingFailed())
        #expect(bench.use() == .unavailable(until: bench.now.advanced(by: .seconds(5))))
    }

    @Test("A token refused as expired within 60 s of its signature makes the clock suspect; nothing is signed")
    func clockSuspect() throws {
        let bench = Bench()
        try bench.sign()
        #expect(bench.expired(1) == .clockSuspect)
        bench.advance(seconds: 59)
        #expect(bench.expired(1) == .clockSuspect)
        #expect(bench.machine.isClockSuspect)
        #expect(bench.use() == .useCurrent)
        bench.advance(seconds: 1)
        #expect(bench.expired(1) == .replaced)
        try bench.sign()
        #expect(!bench.machine.isClockSuspect)
    }

    @Test("A refresh is not forced twice within 20 minutes")
    func forcedOnce() throws {
        let bench = Bench()
        try bench.sign()
        bench.advance(minutes: 3)
        #expect(bench.expired(1) == .replaced)
        try bench.sign()
        bench.advance(minutes: 19, seconds: 59)
        #expect(bench.expired(2) == .clockSuspect)
        #expect(bench.use() == .useCurrent)
        bench.advance(seconds: 1)
        #expect(bench.expired(2) == .replaced)
        try #expect(bench.sign().generation == 3)
    }

    @Test("An expiry report for an unknown token does not replace the current token")
    func strayExpired() throws {
        let bench = Bench()
        #expect(bench.expired(1) == .replaced)
        try bench.sign()
        bench.advance(minutes: 5)
        #expect(bench.expired(7) == .replaced)
        #expect(bench.use() == .useCurrent)
    }

    @Test("After too many updates, a refresh waits as long as the token is valid")
    func holdBack() throws {
        let bench = Bench()
        try bench.sign()
        bench.advance(minutes: 45)
        let until = bench.tooManyUpdates()
        #expect(until == bench.now.advanced(by: .seconds(20 * 60)))
        #expect(bench.expired(1) == .kept)
        // The refresh at 50 minutes waits. At 58 minutes the token is no longer usable.
        for _ in 0..<(13 * 60) - 1 {
            bench.advance(seconds: 1)
            #expect(bench.use() == .useCurrent)
        }
        bench.advance(seconds: 1)
        #expect(bench.expired(1) == .replaced)
        try #expect(bench.sign().generation == 2)
        #expect(bench.machine.heldBackUntil(now: bench.now) == until)
        bench.advance(minutes: 10)
        #expect(bench.machine.heldBackUntil(now: bench.now) == nil)
    }

    @Test("Too many updates never cause a signature, and the hold lasts from the latest response")
    func holdBackExtends() throws {
        let bench = Bench(minutes: 20)
        try bench.sign()
        for _ in 0..<40 {
            bench.advance(minutes: 1)
            let until = bench.tooManyUpdates()
            #expect(until == bench.now.advanced(by: .seconds(20 * 60)))
            #expect(bench.use() == .useCurrent)
        }
        bench.wall += 86_400
        #expect(bench.use() == .useCurrent)
    }

    @Test("A token signed while the clock was ahead is replaced by the previous one as soon as APNs refuses it")
    func futureTokenWithFallback() throws {
        let bench = Bench()
        try bench.sign()
        bench.advance(minutes: 10)
        let right = bench.wall
        bench.wall += 7_200
        // The token is two hours old by the wall clock: it may be a suspension.
        try #expect(bench.sign().generation == 2)
        #expect(bench.refused(2, serverTime: right) == .replaced)
        #expect(bench.machine.generation == 1)
        for _ in 0..<50 { #expect(bench.refused(2, serverTime: right) == .replaced) }
        // The wall clock is still ahead. The monotonic clock keeps the previous token in use.
        for _ in 0..<120 {
            bench.advance(seconds: 1)
            #expect(bench.use() == .useCurrent)
        }
        bench.wall -= 7_200
        bench.advance(minutes: 37)
        #expect(bench.use() == .useCurrent)
        bench.advance(minutes: 9)
        let call = try bench.sign()
        #expect(call.generation == 3 && call.issuedAt == bench.wall)
    }

    @Test("While the clock is ahead, the previous token is used for 58 minutes and not renewed at each push")
    func fallbackWhileTheClockIsAhead() throws {
        let bench = Bench()
        try bench.sign()
        bench.advance(minutes: 51)
        let right = bench.wall
        bench.wall += 7_200
        try bench.sign()
        #expect(bench.refused(2, serverTime: right) == .replaced)
        for _ in 0..<6 {
            bench.advance(minutes: 1)
            #expect(bench.use() == .useCurrent)
        }
        bench.advance(minutes: 1)
        try #expect(bench.order().generation == 3)
    }

    @Test("Without a previous token, one new token is signed once the clock is right", arguments: [true, false])
    func futureTokenAlone(hasDate: Bool) throws {
        let bench = Bench()
        let right = bench.wall
        bench.wall += 7_200
        try bench.sign()
        bench.advance(seconds: 5)
        #expect(bench.refused(1, serverTime: hasDate ? right + 5 : nil) == (hasDate ? .clockSuspect : .kept))
        #expect(bench.use() == .useCurrent)
        bench.wall -= 7_200
        #expect(bench.refused(1, serverTime: hasDate ? bench.wall : nil) == .replaced)
        #expect(bench.refused(1, serverTime: hasDate ? bench.wall : nil) == .replaced)
        try #expect(bench.sign().issuedAt == bench.wall)
        // Once in 20 minutes, however the clock jumps.
        bench.wall -= 7_200
        #expect(bench.refused(2, serverTime: hasDate ? bench.wall : nil) == .clockSuspect)
        bench.advance(minutes: 20)
        #expect(bench.refused(2, serverTime: hasDate ? bench.wall : nil) == .replaced)
    }

    @Test("A refusal of a token with the right time is unrelated to the clock")
    func unrelatedRefusal() throws {
        let bench = Bench()
        #expect(bench.refused(1, serverTime: bench.wall) == .kept)
        try bench.sign()
        #expect(bench.refused(1, serverTime: bench.wall) == .kept)
        #expect(bench.refused(1, serverTime: bench.wall - 60) == .kept)
        #expect(bench.refused(7, serverTime: bench.wall - 7_200) == .kept)
        #expect(bench.refused(1, serverTime: nil) == .kept)
    }

    @Test("After a silent signer the next signature waits, and the old token is used while it is valid")
    func silentSigner() throws {
        let bench = Bench()
        for _ in 0..<3 {
            try bench.order()
            bench.signerIsSilent()
            let next = bench.now.advanced(by: .seconds(20))
            bench.advance(seconds: 19)
            #expect(bench.use() == .unavailable(until: next))
            bench.advance(seconds: 1)
            bench.step()
        }
        try bench.sign()
        bench.advance(minutes: 50)
        try bench.order()
        bench.signerIsSilent()
        #expect(bench.use() == .useCurrent)
    }

    @Test("A late signature for a generation that exists already is discarded")
    func stale() throws {
        let bench = Bench()
        let order = try bench.order()
        #expect(bench.signed(order))
        #expect(!bench.signed(order))
    }

    @Test("Extreme clock values do not trap")
    func extremes() throws {
        let instants = [Int64.min, 0, .max].map(MonotonicInstant.init(nanoseconds:))
        let walls: [Int64] = [.min, -1, 0, .max]
        for first in instants {
            for second in instants {
                for firstWall in walls {
                    for secondWall in walls {
                        let bench = Bench()
                        (bench.now, bench.wall) = (first, firstWall)
                        guard let call = try? bench.order() else { continue }
                        _ = bench.signed(call)
                        (bench.now, bench.wall) = (second, secondWall)
                        _ = bench.use()
                        _ = bench.machine.step(now: second, wallNow: secondWall)
                        _ = bench.tooManyUpdates()
                        _ = bench.expired(1)
                        _ = bench.refused(1, serverTime: firstWall)
                        (bench.now, bench.wall) = (first, secondWall)
                        _ = bench.use()
                    }
                }
            }
        }
    }
}
