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
    ]
}
