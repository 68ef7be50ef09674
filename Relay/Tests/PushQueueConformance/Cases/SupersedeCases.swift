import APNSModel
import PushQueue

enum SupersedeCases {
    static let all = [
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
