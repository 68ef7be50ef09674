import APNSModel
import PushQueue

enum SupersedeCases {
    static let all = [
        ConformanceCase("A newer push supersedes a queued, a claimed and a parked one") { test in
            for state in [PushStatus.State.queued, .claimed, .parked] {
                let old = try test.push(supersedes: "match")
                var claim: Claim?
                if state == .parked {
                    try await ParkCases.park(old, test)
                } else {
                    try await test.store(old)
                    if state == .claimed { claim = try await test.claim(old) }
                }
                let new = try test.push(supersedes: "match")
                try await test.store(new)
                let before =
                    state == .parked ? PushOutcome.rejected(old.id, status: 403, reason: .invalidProviderToken) : nil
                let superseded = PushOutcome.superseded(old.id, attempts: state == .parked ? 1 : 0)
                try await test.expectState(old, .settled, superseded.merged(with: before))
                if let claim { try expect(!(try await test.canMark(claim)), "a superseded push was marked") }
                try await test.expectState(new, .queued)
                let claimed = try await test.claim(new)
                try await test.mark(claimed)
                try expectEqual(try await test.settle(claimed, .ok(new.id)), .settled, "result")
            }
        },
        ConformanceCase("A written push is not superseded, and the newer one waits for its outcome") { test in
            let old = try test.push(supersedes: "match")
            try await test.store(old)
            let claim = try await test.write(old)
            let new = try test.push(supersedes: "match")
            try await test.store(new)
            try await test.expectState(old, .written)
            try await test.expectState(new, .queued)
            try expectEqual(try await test.claim().count, 0, "claims while the older push is written")
            try expectEqual(try await test.queue.queuedRoutes(), [], "routes with queued pushes")
            try expectEqual(try await test.queue.counts().queued, 1, "queued pushes")
            try expectEqual(try await test.settle(claim, .ok(old.id)), .settled, "result")
            try expectEqual(
                try await test.queue.queuedRoutes(),
                [QueuedRoute(route: new.route, due: new.notBefore)],
                "routes with queued pushes"
            )
            _ = try await test.claim(new)
        },
        ConformanceCase("Of the pushes that wait for a written one, only the newest remains") { test in
            let first = try test.push(supersedes: "match")
            try await test.store(first)
            let claim = try await test.write(first)
            let second = try test.push(supersedes: "match")
            let third = try test.push(supersedes: "match")
            try await test.store(second)
            try await test.store(third)
            try await test.expectState(second, .settled, .superseded(second.id))
            try expectEqual(try await test.claim().count, 0, "claims while the first push is written")
            try expectEqual(try await test.settle(claim, .rejected(first.id)), .settled, "result")
            _ = try await test.claim(third)
        },
        ConformanceCase("Of the pushes with one key in a call, the last one remains") { test in
            let pushes = [
                try test.push(supersedes: "match"), try test.push(supersedes: "match"),
                try test.push(supersedes: "match"),
            ]
            try await test.store(pushes)
            let claimed = try await test.claim()
            try expectEqual(claimed.map(\.claim.id), [pushes[2].id], "claimed pushes")
            for push in pushes.dropLast() { try await test.expectState(push, .settled, .superseded(push.id)) }
        },
        ConformanceCase("A written push that would return to the queue is superseded by a newer one") { test in
            for way in 0..<3 {
                let old = try test.push(resendsUnknown: true, supersedes: "match")
                try await test.store(old)
                let claim = try await test.write(old, ticks: 5)
                let new = try test.push(supersedes: "match")
                try await test.store(new)
                let outcome = PushOutcome.rejected(old.id, status: 503, reason: .serviceUnavailable)
                switch way {
                case 0:
                    try await test.queue.release([Release(claim: claim, notBefore: test.now, outcome: outcome)])
                case 1:
                    try await test.queue.park([Settlement(claim: claim, outcome: outcome)])
                default:
                    await test.advance(6)
                    var expected = ExpiredLeases()
                    expected.unknown = 1
                    try expectEqual(try await test.queue.expireLeases(), expected, "expired leases")
                }
                let before = way == 2 ? PushOutcome.lost(old.id, attempts: 1) : outcome
                let superseded = PushOutcome.superseded(old.id, attempts: 1)
                try await test.expectState(old, .settled, superseded.merged(with: before))
                let next = try await test.claim(new)
                try expectEqual(try await test.settle(next, .ok(new.id)), .settled, "result")
            }
        },
        ConformanceCase("A written push without a newer one returns to the queue") { test in
            let push = try test.push(supersedes: "match")
            try await test.store(push)
            try await test.queue.release([Release(claim: try await test.write(push), notBefore: test.now)])
            _ = try await test.claim(push)
        },
        ConformanceCase("A duplicate supersedes nothing") { test in
            let first = try test.push(supersedes: "match", key: "order-1")
            let second = try test.push(supersedes: "match", key: "order-2")
            try await test.store(first)
            try await test.store(second)
            let again = try test.push(supersedes: "match", key: "order-1")
            let results = try await test.queue.enqueue([again], isPartial: false)
            try expectEqual(results, [.duplicate(of: first.id)], "results")
            try await test.expectState(second, .queued)
        },
        ConformanceCase("Another key, device, app or environment is not superseded; another lane or caller is") {
            test in
            let push = try test.push(supersedes: "match")
            let others = [
                try test.push(supersedes: "other"), try test.push(token: "ffff", supersedes: "match"),
                try test.push(
                    Route(app: "moss", environment: "production", lane: .interactive, caller: "shop"),
                    supersedes: "match"
                ),
                try test.push(
                    Route(app: "fern", environment: "development", lane: .interactive, caller: "shop"),
                    supersedes: "match"
                ),
                try test.push(),
            ]
            try await test.store([push] + others)
            for push in [push] + others { try await test.expectState(push, .queued) }
            let bulk = Route(app: "fern", environment: "production", lane: .bulk, caller: "shop")
            let newer = try test.push(bulk, supersedes: "match")
            try await test.store(newer)
            try await test.expectState(push, .settled, .superseded(push.id))
            for push in others + [newer] { try await test.expectState(push, .queued) }
            let last = try test.push(supersedes: "match", caller: "bank")
            try await test.store(last)
            try await test.expectState(newer, .settled, .superseded(newer.id))
            for push in others + [last] { try await test.expectState(push, .queued) }
        },
        ConformanceCase("A push that waits for a written one can be cancelled, and can become overdue") { test in
            let old = try test.push(supersedes: "match")
            try await test.store(old)
            let claim = try await test.write(old)
            let second = try test.push(supersedes: "match")
            try await test.store(second)
            try expectEqual(try await test.queue.cancel(second.id), .cancelled, "result of cancel")
            let third = try test.push(deadline: test.inTicks(5), supersedes: "match")
            try await test.store(third)
            await test.advance(6)
            try expectEqual(try await test.queue.settleOverdue(limit: 10), 1, "overdue pushes")
            try expectEqual(try await test.settle(claim, .ok(old.id)), .settled, "result")
            try expectEqual(try await test.queue.counts().unsettled, 0, "unsettled pushes")
            try expectEqual(try await test.claim().count, 0, "claims")
        },
    ]
}
