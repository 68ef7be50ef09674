import APNSModel
import PushQueue

enum EnqueueCases {
    static let all = [
        ConformanceCase("A stored push is queued, and its status shows its values") { test in
            let push = try test.push(due: test.inTicks(2), caller: "shop")
            try await test.store(push)
            let status = try await test.status(push)
            try expectEqual(status.id, push.id, "id")
            try expectEqual(status.state, .queued, "state")
            try expectEqual(status.route, push.route, "route")
            try expectEqual(status.token, push.token, "token")
            try expectEqual(status.route.caller, "shop", "caller")
            try expectEqual(status.notBefore, push.notBefore, "notBefore")
            try expectEqual(status.deadline, push.deadline, "deadline")
            try expectEqual(status.attempts, 0, "attempts")
            try expectEqual(status.outcome, nil, "outcome")
            try expectEqual(status.settledAt, nil, "settledAt")
            try expect(status.queuedAt <= test.now, "queuedAt lies in the future")
        },
        ConformanceCase("An empty call stores nothing") { test in
            let results = try await test.queue.enqueue([], isPartial: false)
            try expectEqual(results, [], "results")
        },
        ConformanceCase("Keys and callers with unusual characters are distinguished") { test in
            for key in ["a", "a\u{1}", "a\u{1}b", "é", "e\u{301}", "😀", " ", String(repeating: "k", count: 128)] {
                try await test.store(try test.push(key: key, caller: "c\u{1}\(key.utf8.count)"))
            }
            try expectEqual(try await test.queue.counts().queued, 8, "queued pushes")
        },
        ConformanceCase("A push that is twice in a call is stored once") { test in
            let first = try test.push(key: "order-1")
            let second = try test.push(key: "order-1")
            let results = try await test.queue.enqueue([first, second], isPartial: false)
            try expectEqual(results, [.queued, .duplicate(of: first.id)], "results")
            try expectEqual(try await test.queue.counts().queued, 1, "queued pushes")
        },
        ConformanceCase("A call that does not fit fails with full, and succeeds when there is room") {
            test in
            try await test.reopen(capacity: 3)
            try expectEqual(try await test.queue.counts().capacity, 3, "capacity")
            let first = try test.push(key: "order-1")
            try await test.store(first, try test.push())
            let more = [try test.push(), try test.push()]
            for isPartial in [false, true] {
                try await expectError(.full) { try await test.queue.enqueue(more, isPartial: isPartial) }
            }
            try expectEqual(try await test.queue.counts().queued, 2, "queued pushes")
            try await test.store(more[0])
            // A duplicate needs no room.
            let again = try test.push(key: "order-1")
            let results = try await test.queue.enqueue([again], isPartial: false)
            try expectEqual(results, [.duplicate(of: first.id)], "results")
            // Claimed, written and parked pushes count towards the capacity until they are settled.
            let claim = try await test.write(first)
            try await expectError(.full) { try await test.queue.enqueue([more[1]], isPartial: false) }
            try expectEqual(try await test.settle(claim, .ok(first.id)), .settled, "result of settle")
            try await test.store(more[1])
        },
        ConformanceCase("Simultaneous calls with one push have a result each") { test in
            try await test.reopen(capacity: 60)
            // Each key has two pushes. Ten pairs are in conflict.
            let pushes = try (0..<80).map { number in
                try test.push(key: "order-\(number % 40)", digest: [number < 70 ? 1 : 2])
            }
            let results = try await test.storeAtOnce(pushes)
            try expectEqual(results.count { $0 == .queued }, 40, "stored pushes")
            for (number, push) in pushes.enumerated() {
                let other = pushes[(number + 40) % 80]
                var expected = EnqueueResult.queued
                if try await test.queue.status(of: push.id) == nil {
                    let isSame = push.idempotency == other.idempotency
                    expected = isSame ? .duplicate(of: other.id) : .conflict(with: other.id)
                }
                try expectEqual(results[number], expected, "result of push \(number)")
            }
            let more = try await test.storeAtOnce(try (0..<40).map { _ in try test.push() })
            try expectEqual(more.count { $0 == .queued }, 20, "pushes that found room")
            try expectEqual(more.count { $0 == nil }, 20, "pushes that found none")
        },
        ConformanceCase("A push that a newer one replaces needs room until that one is claimed") {
            test in
            try await test.reopen(capacity: 2)
            try await test.store(try test.push(supersedes: "match"))
            let newer = try test.push(supersedes: "match")
            try await test.store(newer)
            try await expectError(.full) { try await test.queue.enqueue([test.push()], isPartial: false) }
            _ = try await test.claim(newer)
            try await test.store(try test.push())
        },
        ConformanceCase("A call with thousands of pushes is stored in order, or not at all") {
            test in
            try await test.reopen(capacity: 2_600)
            let known = try test.push(key: "known")
            try await test.store(known)
            var pushes: [NewPush] = []
            for number in 0..<2_500 { pushes.append(try test.push(key: "order-\(number)")) }
            // A conflict at the end prevents the whole call.
            let bad = try test.push(key: "known", digest: [2])
            var results = try await test.queue.enqueue(pushes + [bad], isPartial: false)
            try expectEqual(results.last, .conflict(with: known.id), "last result")
            try expectEqual(results.count { $0 == .queued }, 2_500, "pushes that could have been stored")
            try expectEqual(try await test.queue.counts().queued, 1, "queued pushes")
            for push in [pushes[0], pushes[2_499]] {
                try expect(try await test.queue.status(of: push.id) == nil, "a push of a failed call is known")
            }
            // A hundred pushes too many do so, too.
            let more = try (0..<100).map { _ in try test.push() }
            for isPartial in [false, true] {
                try await expectError(.full) { try await test.queue.enqueue(pushes + more, isPartial: isPartial) }
            }
            try expectEqual(try await test.queue.counts().queued, 1, "queued pushes")
            // Their keys and ids are still unknown. The call contains some pushes twice.
            results = try await test.queue.enqueue(pushes + pushes.prefix(10) + [bad], isPartial: true)
            try expectEqual(results.count { $0 == .queued }, 2_500, "stored pushes")
            try expectEqual(results[2_500], .duplicate(of: pushes[0].id), "result of a push that is in the call twice")
            try expectEqual(try await test.queue.counts().queued, 2_501, "queued pushes")
            var claimed: [APNSID] = []
            while true {
                let claims = try await test.claim(1_000)
                guard !claims.isEmpty else { break }
                claimed += claims.map(\.claim.id)
            }
            try expectEqual(claimed, [known.id] + pushes.map(\.id), "claimed pushes")
        },
        ConformanceCase("Pushes of a large call replace older ones, and one another") { test in
            let old = try test.push(supersedes: "match")
            let other = try test.push(supersedes: "other")
            try await test.store(old, other)
            let written = try await test.write(old)
            var pushes = try (0..<1_500).map { _ in try test.push() }
            for index in [100, 700, 1_499] { pushes[index].supersedes = "match" }
            pushes[800].supersedes = "other"
            try await test.store(pushes)
            // All with the first key wait while the first one is written.
            let claims = try await test.claim(2_000)
            let waiting = Set([100, 700, 1_499].map { pushes[$0].id })
            try expectEqual(claims.count, 1_497, "claims")
            try expect(!claims.contains { waiting.contains($0.claim.id) }, "a push that must wait was claimed")
            try await test.expectState(other, .settled, .superseded(other.id))
            try expectEqual(try await test.settle(written, .ok(old.id)), .settled, "result")
            _ = try await test.claim(pushes[1_499])
            for push in [pushes[100], pushes[700]] { try await test.expectState(push, .settled, .superseded(push.id)) }
        },
    ]
}
