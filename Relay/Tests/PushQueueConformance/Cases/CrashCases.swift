import APNSModel
import PushQueue

/// Crashes of the process at each point of a push's life: after a call has returned, and while a call runs.
enum CrashCases {
    static let all =
        [
            ConformanceCase("A stored push survives a crash, with its key") { test in
                let push = try test.push(due: test.now, resendsUnknown: true, key: "order-1")
                try await test.store(push)
                try await test.crash()
                try await test.expectState(push, .queued)
                let again = try test.push(key: "order-1")
                let results = try await test.queue.enqueue([again], isPartial: false)
                try expectEqual(results, [.duplicate(of: push.id)], "results")
                let claimed = try unwrap(try await test.claim().first, "claim")
                try expectEqual(claimed.push, push.push, "headers and payload")
                try expectEqual(claimed.resendsUnknown, true, "resendsUnknown")
            },
            ConformanceCase("A push with a mark ends as unknown and is never sent again") { test in
                let push = try test.push()
                try await test.store(push)
                let claim = try await test.write(push)
                try await test.crashAndExpire()
                try await test.expectState(push, .settled, .lost(push.id, attempts: 1))
                try expectEqual(try await test.claim().count, 0, "claims")
                try expectEqual(try await test.feed().map(\.push.id), [push.id], "feed")
                let late = try await test.settle(claim, .ok(push.id))
                try expectEqual(late, .alreadySettled(.lost(push.id, attempts: 1)), "result of a late outcome")
            },
            ConformanceCase("A push with a mark is sent again if its owner asked for that") { test in
                let push = try test.push(resendsUnknown: true)
                try await test.store(push)
                _ = try await test.write(push)
                try await test.crashAndExpire()
                let claimed = try unwrap(try await test.claim().first, "claim")
                try expect(claimed.mayBeProcessed, "mayBeProcessed is false")
                try await test.mark(claimed.claim)
                let outcome = PushOutcome.rejected(push.id)
                try expectEqual(try await test.settle(claimed.claim, outcome), .settled, "result")
                try expectEqual(try await test.status(push).outcome?.certainty, .unknown, "certainty")
            },
            ConformanceCase("An outcome survives a crash, and is in the feed once") { test in
                let push = try test.push()
                let claim = try await test.complete(push, .rejected(push.id))
                try await test.crashAndExpire()
                try await test.expectState(push, .settled, .rejected(push.id))
                try expectEqual(try await test.feed().map(\.push.id), [push.id], "feed")
                let late = try await test.settle(claim, .ok(push.id))
                try expectEqual(late, .alreadySettled(.rejected(push.id)), "result of a late outcome")
            },
            ConformanceCase("A push that waited for a written one is claimed after a crash") { test in
                let old = try test.push(supersedes: "match")
                try await test.store(old)
                _ = try await test.write(old)
                let new = try test.push(supersedes: "match")
                try await test.store(new)
                try await test.crashAndExpire()
                try await test.expectState(old, .settled, .lost(old.id, attempts: 1))
                _ = try await test.claim(new)
            },
            ConformanceCase("Values, cursors and deletions survive a crash") { test in
                try await test.queue.setValue([1], forKey: "webhook")
                let push = try test.push()
                try await test.complete(push)
                let cursor = try unwrap(try await test.feed().first, "entry").cursor
                await test.advance(1)
                _ = try await test.queue.prune(Retention(outcomes: .zero, idempotencyKeys: .zero), limit: 10)
                try await test.crash()
                try expectEqual(try await test.queue.value(forKey: "webhook"), [1], "value")
                try expect(try await test.queue.status(of: push.id) == nil, "a pruned push is known")
                let next = try test.push()
                try await test.complete(next)
                let entry = try unwrap(try await test.feed().first, "entry")
                try expect(entry.cursor > cursor, "a cursor was used twice")
            },
            ConformanceCase("A queue survives many crashes in a row") { test in
                let push = try test.push(resendsUnknown: true)
                try await test.store(push)
                for _ in 0..<5 {
                    _ = try await test.write(push)
                    try await test.crashAndExpire()
                }
                try expectEqual(try await test.status(push).attempts, 5, "attempts")
                let claim = try await test.write(push)
                try expectEqual(try await test.settle(claim, .ok(push.id)), .settled, "result")
                try await test.crash()
                try await test.expectState(push, .settled, .ok(push.id))
            },
        ] + Self.duringCalls

    /// Crashes while a call runs. Afterwards, each push has either the whole effect of the call or none.
    private static let duringCalls = [
        ConformanceCase("A crash during enqueue leaves each push queued or not stored") { test in
            for round in 0..<8 {
                var pushes: [NewPush] = []
                for number in 0..<20 { pushes.append(try test.push(key: "order-\(round)-\(number)")) }
                try await Self.crash(
                    test,
                    during: { [pushes] in try await $0.enqueue(pushes, isPartial: false) },
                    round
                )
                // The caller submits them again. None is lost, and none is stored twice.
                var again = pushes
                for index in again.indices { again[index].id = .random() }
                let results = try await test.queue.enqueue(again, isPartial: false)
                var ids: Set<APNSID> = []
                for (index, result) in results.enumerated() {
                    switch result {
                    case .queued: ids.insert(again[index].id)
                    case .duplicate(let id): ids.insert(id)
                    case .conflict: throw ConformanceFailure(text: "a conflict", file: #fileID, line: #line)
                    }
                }
                let claimed = try await test.claim(100)
                try expectEqual(Set(claimed.map(\.claim.id)), ids, "claimed pushes")
                try expectEqual(claimed.count, 20, "claims")
                _ = try await test.queue.settle(
                    claimed.map { Settlement(claim: $0.claim, outcome: .ok($0.claim.id)) }
                )
            }
        },
        ConformanceCase("A crash during a call with thousands of pushes leaves all of them or none") { test in
            for round in 0..<4 {
                let pushes = try (0..<2_000).map { try test.push(key: "large-\(round)-\($0)") }
                let before = try await test.queue.counts().queued
                try await Self.crash(
                    test,
                    during: { [pushes] in try await $0.enqueue(pushes, isPartial: false) },
                    round * 4
                )
                let stored = try await test.queue.counts().queued - before
                try expect(stored == 0 || stored == 2_000, "\(stored) of 2,000 pushes are stored")
                let first = try await test.queue.status(of: pushes[0].id)
                try expectEqual(first?.state, stored == 0 ? nil : .queued, "state of the first push")
                let results = try await test.queue.enqueue(pushes, isPartial: false)
                try expectEqual(results.count { $0 == .queued }, 2_000 - stored, "pushes that were not stored")
            }
        },
        ConformanceCase("A crash during markWritten leaves each push queued or settled as unknown") { test in
            for round in 0..<8 {
                var pushes: [NewPush] = []
                for _ in 0..<20 { pushes.append(try test.push()) }
                try await test.store(pushes)
                let claims = try await test.claim(100).map(\.claim)
                let lease = test.lease
                try await Self.crash(test, during: { try await $0.markWritten(claims, lease: lease) }, round)
                for push in pushes {
                    let status = try await test.status(push)
                    try expect(
                        status.state == .queued || status.outcome == .lost(push.id, attempts: 1),
                        "a push is \(status.state)"
                    )
                    try expectEqual(status.attempts, status.state == .queued ? 0 : 1, "attempts")
                    _ = try await test.queue.cancel(push.id)
                }
                try expectEqual(try await test.queue.counts().unsettled, 0, "unsettled pushes")
            }
        },
        ConformanceCase("A crash during settle leaves each push with its outcome, or settled as unknown") { test in
            for round in 0..<8 {
                var pushes: [NewPush] = []
                for _ in 0..<20 { pushes.append(try test.push()) }
                try await test.store(pushes)
                let claims = try await test.claim(100).map(\.claim)
                _ = try await test.queue.markWritten(claims, lease: test.lease)
                let settlements = claims.map { Settlement(claim: $0, outcome: .ok($0.id)) }
                try await Self.crash(test, during: { try await $0.settle(settlements) }, round)
                for push in pushes {
                    let outcome = try await test.status(push).outcome
                    try expect(
                        outcome == .ok(push.id) || outcome == .lost(push.id, attempts: 1),
                        "a push has the outcome \(String(describing: outcome))"
                    )
                }
            }
            try expectEqual(try await test.feed(limit: 100).count, 160, "outcomes in the feed")
        },
        ConformanceCase("A crash during release or park leaves each push in its old or new state") { test in
            for round in 0..<8 {
                var pushes: [NewPush] = []
                for _ in 0..<20 { pushes.append(try test.push()) }
                try await test.store(pushes)
                let claims = try await test.claim(100).map(\.claim)
                _ = try await test.queue.markWritten(claims, lease: test.lease)
                let parks = round.isMultiple(of: 2)
                let settlements = claims.map { Settlement(claim: $0, outcome: .notProcessed($0.id)) }
                let now = test.now
                let releases = settlements.map { Release(claim: $0.claim, notBefore: now, outcome: $0.outcome) }
                try await Self.crash(
                    test,
                    during: { queue in
                        if parks { try await queue.park(settlements) } else { try await queue.release(releases) }
                    },
                    round / 2
                )
                for push in pushes {
                    let status = try await test.status(push)
                    let isNew = status.state == (parks ? .parked : .queued)
                    let outcome = isNew ? PushOutcome.notProcessed(push.id) : .lost(push.id, attempts: 1)
                    try expectEqual(status.outcome, outcome, "outcome of a push that is \(status.state)")
                    _ = try await test.queue.cancel(push.id)
                }
                try expectEqual(try await test.queue.counts().unsettled, 0, "unsettled pushes")
            }
        },
        ConformanceCase("A crash during many calls at once loses no push whose call has returned") { test in
            for round in 0..<6 {
                let queue = test.queue
                var pushes: [NewPush] = []
                for _ in 0..<40 { pushes.append(try test.push()) }
                let stored = StoredIDs()
                let tasks = pushes.map { push in
                    Task {
                        guard try await queue.enqueue([push], isPartial: false) == [.queued] else { return }
                        await stored.add(push.id)
                    }
                }
                for _ in 0..<round * 20 { await Task.yield() }
                let before = await stored.ids
                try await test.crash()
                for task in tasks { _ = await task.result }
                for id in before {
                    try expect(try await test.queue.status(of: id) != nil, "a stored push was lost")
                }
                _ = try await test.claim(1_000)
            }
        },
    ]

    private actor StoredIDs {
        var ids: Set<APNSID> = []
        func add(_ id: APNSID) { self.ids.insert(id) }
    }

    /// Begins a call, kills the process, and lets its claims end. The process is killed later in each round.
    private static func crash<Value: Sendable>(
        _ test: Harness,
        during call: @escaping @Sendable (any PushQueue) async throws -> Value,
        _ round: Int
    ) async throws {
        let queue = test.queue
        let task = Task { try await call(queue) }
        for _ in 0..<round * 10 { await Task.yield() }
        try await test.crashAndExpire()
        _ = await task.result
    }
}
