import APNSModel
import PushQueue

enum SupersedeCases {
    static let all = [
        ConformanceCase("A push supersedes an older queued or parked one when it is claimed") { test in
            for isParked in [false, true] {
                let old = try test.push(due: isParked ? nil : test.inTicks(5), supersedes: "match")
                if isParked { try await ParkCases.park(old, test) } else { try await test.store(old) }
                let new = try test.push(supersedes: "match")
                try await test.store(new)
                try await test.expectState(old, isParked ? .parked : .queued)
                let claim = try await test.claim(new)
                let before = isParked ? PushOutcome.rejected(old.id, status: 403, reason: .invalidProviderToken) : nil
                let superseded = PushOutcome.superseded(old.id, attempts: isParked ? 1 : 0)
                try await test.expectState(old, .settled, superseded.merged(with: before))
                try await test.mark(claim)
                try expectEqual(try await test.settle(claim, .ok(new.id)), .settled, "result")
            }
        },
        ConformanceCase("A queued push whose newer one is not due yet ends when its turn comes") { test in
            let old = try test.push(supersedes: "match")
            let new = try test.push(due: test.inTicks(5), supersedes: "match")
            let other = try test.push()
            try await test.store(old, new, other)
            _ = try await test.claim(other)
            try await test.expectState(old, .settled, .superseded(old.id))
            await test.advance(6)
            _ = try await test.claim(new)
        },
        ConformanceCase("A claimed or written push is not superseded, and the newer one waits for its outcome") {
            test in
            for isWritten in [false, true] {
                let old = try test.push(supersedes: "match")
                try await test.store(old)
                let claim = try await test.claim(old)
                if isWritten { try await test.mark(claim) }
                let new = try test.push(supersedes: "match")
                let other = try test.push()
                try await test.store(new, other)
                try await test.expectState(old, isWritten ? .written : .claimed)
                try await test.expectState(new, .queued)
                // It does not block the pushes behind it.
                let next = try await test.claim(other)
                try expectEqual(try await test.claim().count, 0, "claims while the older push is in flight")
                if !isWritten { try await test.mark(claim) }
                try expectEqual(try await test.settle(claim, .ok(old.id)), .settled, "result")
                let last = try await test.claim(new)
                try expectEqual(
                    try await test.queue.settle([
                        Settlement(claim: next, outcome: .ok(other.id)), Settlement(claim: last, outcome: .ok(new.id)),
                    ]),
                    [.settled, .settled],
                    "results"
                )
            }
        },
        ConformanceCase("Of the pushes that wait for a written one, only the newest remains") { test in
            let first = try test.push(supersedes: "match")
            try await test.store(first)
            let claim = try await test.write(first)
            let second = try test.push(supersedes: "match")
            let third = try test.push(supersedes: "match")
            try await test.store(second)
            try await test.store(third)
            try expectEqual(try await test.claim().count, 0, "claims while the first push is written")
            try expectEqual(try await test.settle(claim, .rejected(first.id)), .settled, "result")
            _ = try await test.claim(third)
            try await test.expectState(second, .settled, .superseded(second.id))
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
        ConformanceCase("A written push that has returned to the queue or is parked is superseded by a newer one") {
            test in
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
                    expected.resent = 1
                    try expectEqual(try await test.queue.expireLeases(), expected, "expired leases")
                }
                let next = try await test.claim(new)
                let before = way == 2 ? PushOutcome.lost(old.id, attempts: 1) : outcome
                let superseded = PushOutcome.superseded(old.id, attempts: 1)
                try await test.expectState(old, .settled, superseded.merged(with: before))
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
            _ = try await test.claim(second)
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
            let bulk = Route(app: "fern", environment: "production", lane: .bulk, caller: "shop")
            let newer = try test.push(bulk, supersedes: "match")
            try await test.store(newer)
            let claim = try await test.claim(newer)
            try await test.expectState(push, .settled, .superseded(push.id))
            for push in others { try await test.expectState(push, .queued) }
            try await test.queue.release([Release(claim: claim, notBefore: test.now)])
            let last = try test.push(supersedes: "match", caller: "bank")
            try await test.store(last)
            _ = try await test.claim(last)
            try await test.expectState(newer, .settled, .superseded(newer.id))
            for push in others { try await test.expectState(push, .queued) }
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
