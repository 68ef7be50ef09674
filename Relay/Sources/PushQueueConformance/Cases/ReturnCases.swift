import APNSModel
import PushQueue

/// Pushes that return to the queue, after a release or an expired lease.
enum ReturnCases {
    static let all = [
        ConformanceCase("A released push is claimed again when it is due") { test in
            let push = try test.push()
            try await test.store(push)
            let claim = try await test.write(push)
            let outcome = PushOutcome.notProcessed(push.id)
            let due = test.inTicks(5)
            try await test.queue.release([Release(claim: claim, notBefore: due, outcome: outcome)])
            let status = try await test.status(push)
            try expectEqual(status.state, .queued, "state")
            try expectEqual(status.attempts, 1, "attempts")
            try expectEqual(status.outcome, outcome, "outcome")
            try expectEqual(status.notBefore, due, "notBefore")
            try expectEqual(try await test.claim().count, 0, "claims before the push is due")
            await test.advance(5)
            let claimed = try await test.claim()
            try expectEqual(claimed.map(\.claim.id), [push.id], "claimed pushes")
            try expectEqual(claimed.first?.attempts, 1, "attempts of the claim")
            try expectEqual(claimed.first?.mayBeProcessed, false, "mayBeProcessed")
        },
        ConformanceCase("A release can exclude the attempt from the count") { test in
            let push = try test.push()
            try await test.store(push)
            let claim = try await test.write(push)
            try await test.queue.release([Release(claim: claim, notBefore: test.now, countsAttempt: false)])
            try expectEqual(try await test.status(push).attempts, 0, "attempts")
            try expectEqual(try await test.claim().first?.attempts, 0, "attempts of the claim")
        },
        ConformanceCase("A release clears the mark") { test in
            let push = try test.push()
            try await test.store(push)
            let claim = try await test.write(push, ticks: 5)
            try await test.queue.release([Release(claim: claim, notBefore: test.now)])
            await test.advance(6)
            try expectEqual(try await test.queue.expireLeases(), ExpiredLeases(), "expired leases")
            let again = try await test.claim(push)
            try expectEqual(try await test.queue.cancel(push.id), .cancelled, "result of cancel")
            try expect(!(try await test.canMark(again)), "a cancelled push was marked")
        },
        ConformanceCase("A claim without a mark can be released, and counts as no attempt") { test in
            let push = try test.push()
            try await test.store(push)
            let claim = try await test.claim(push)
            try await test.queue.release([Release(claim: claim, notBefore: test.now)])
            try expectEqual(try await test.status(push).attempts, 0, "attempts")
            try expectEqual(try await test.status(push).outcome, nil, "outcome")
        },
        ConformanceCase("A release of a claim that has ended is ignored") { test in
            let push = try test.push()
            try await test.store(push)
            let old = try await test.claim(push)
            try await test.queue.release([Release(claim: old, notBefore: test.now)])
            let new = try await test.claim(push)
            try await test.queue.release([Release(claim: old, notBefore: test.now)])
            try await test.expectState(push, .claimed)
            try await test.mark(new)
            try expectEqual(try await test.settle(new, .ok(push.id)), .settled, "result")
            try await test.queue.release([
                Release(claim: new, notBefore: test.now), Release(claim: old, notBefore: test.now),
            ])
            try await test.expectState(push, .settled, .ok(push.id))
        },
        ConformanceCase("A push that was released as unknown counts as possibly processed from then on") { test in
            let push = try test.push(resendsUnknown: true)
            try await test.store(push)
            let unknown = PushOutcome.lostConnection(push.id)
            try await test.queue.release([
                Release(claim: try await test.write(push), notBefore: test.now, outcome: unknown)
            ])
            try await test.queue.release([
                Release(claim: try await test.write(push), notBefore: test.now, outcome: .notProcessed(push.id))
            ])
            let claimed = try unwrap(try await test.claim().first, "claim")
            try expect(claimed.mayBeProcessed, "mayBeProcessed was lost")
            try await test.queue.release([Release(claim: claimed.claim, notBefore: test.now)])
            try expectEqual(try await test.queue.cancel(push.id), .cancelled, "result of cancel")
            try expectEqual(try await test.status(push).outcome?.certainty, .unknown, "certainty")
        },
        ConformanceCase("An expired claim without a mark is queued again") { test in
            let push = try test.push()
            try await test.store(push)
            _ = try await test.claim(push, ticks: 5)
            await test.advance(6)
            var expected = ExpiredLeases()
            expected.queued = 1
            try expectEqual(try await test.queue.expireLeases(), expected, "expired leases")
            try await test.expectState(push, .queued)
            try expectEqual(try await test.status(push).attempts, 0, "attempts")
            try expectEqual(try await test.queue.expireLeases(), ExpiredLeases(), "a second call")
        },
        ConformanceCase("An expired claim with a mark ends as unknown and is never sent again") { test in
            let push = try test.push()
            try await test.store(push)
            let claim = try await test.write(push, ticks: 5)
            await test.advance(6)
            var expected = ExpiredLeases()
            expected.unknown = 1
            try expectEqual(try await test.queue.expireLeases(), expected, "expired leases")
            try await test.expectState(push, .settled, .lost(push.id, attempts: 1))
            try expectEqual(try await test.claim().count, 0, "claims")
            let late = try await test.settle(claim, .ok(push.id))
            try expectEqual(late, .alreadySettled(.lost(push.id, attempts: 1)), "result of the late outcome")
        },
        ConformanceCase("An expired claim with a mark is sent again if its owner asked for that") { test in
            let push = try test.push(resendsUnknown: true)
            try await test.store(push)
            _ = try await test.write(push, ticks: 5)
            await test.advance(6)
            var expected = ExpiredLeases()
            expected.resent = 1
            try expectEqual(try await test.queue.expireLeases(), expected, "expired leases")
            try await test.expectState(push, .queued, .lost(push.id, attempts: 1))
            let claimed = try unwrap(try await test.claim().first, "claim")
            try expect(claimed.mayBeProcessed, "mayBeProcessed is false")
            try expectEqual(claimed.attempts, 1, "attempts")
        },
        ConformanceCase("A claim whose lease has not expired does not end") { test in
            try await test.store(try test.push(), try test.push())
            let claims = try await test.claim(1, ticks: 10) + test.claim(1, ticks: 20)
            try expectEqual(claims.count, 2, "claims")
            await test.advance(15)
            var expected = ExpiredLeases()
            expected.queued = 1
            try expectEqual(try await test.queue.expireLeases(), expected, "expired leases")
            try expectEqual(try await test.queue.counts().claimed, 1, "claimed pushes")
        },
        ConformanceCase("A jump of the clock expires no lease", needs: [.clockJump]) { test in
            let push = try test.push()
            try await test.store(push)
            let claim = try await test.claim(push, ticks: 10)
            for jump in [1_000, -2_000] {
                await test.fixture.jump(by: test.fixture.tick * jump)
                try expectEqual(try await test.queue.expireLeases(), ExpiredLeases(), "expired leases")
                try await test.expectState(push, .claimed)
            }
            try await test.mark(claim)
            try expectEqual(try await test.settle(claim, .ok(push.id)), .settled, "result")
        },
    ]
}
