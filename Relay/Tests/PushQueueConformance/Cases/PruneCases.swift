import APNSModel
import PushQueue

enum PruneCases {
    static let all = [
        ConformanceCase("Outcomes are kept for as long as the retention says") { test in
            let old = try test.push()
            try await test.complete(old)
            await test.advance(10)
            let young = try test.push()
            try await test.complete(young)
            let queued = try test.push()
            try await test.store(queued)
            let retention = Retention(
                outcomes: test.fixture.tick * 5,
                idempotencyKeys: .seconds(86_400),
                parked: .seconds(86_400)
            )
            try expectEqual(try await test.queue.prune(retention, limit: 100), 1, "deleted")
            try expect(try await test.queue.status(of: old.id) == nil, "a pruned push is known")
            try expectEqual(try await test.queue.cancel(old.id), .notFound, "result of cancel")
            try await test.expectState(young, .settled)
            try await test.expectState(queued, .queued)
            try expectEqual(try await test.feed().map(\.push.id), [young.id], "feed")
            try expectEqual(try await test.queue.prune(retention, limit: 100), 0, "deleted by a second call")
            // Its id is free again.
            try await test.store(old)
        },
        ConformanceCase("No cursor is used twice, even after everything was pruned") { test in
            var last = FeedCursor(position: .min)
            for round in 0..<3 {
                let push = try test.push()
                try await test.complete(push)
                let entry = try unwrap(try await test.feed(after: last).first, "entry of round \(round)")
                try expectEqual(entry.push.id, push.id, "new outcome")
                last = entry.cursor
                await test.advance(1)
                _ = try await test.queue.prune(Retention(outcomes: .zero, idempotencyKeys: .zero), limit: 100)
                try expectEqual(try await test.feed().count, 0, "outcomes after pruning")
                if round == 1 { try await test.reopen() }
            }
        },
        ConformanceCase("A claim of a pruned push is stale, even if its position was used again") { test in
            let old = try test.push()
            let claim = try await test.complete(old)
            await test.advance(1)
            _ = try await test.queue.prune(Retention(outcomes: .zero, idempotencyKeys: .zero), limit: 100)
            try await test.reopen()
            let new = try test.push()
            try await test.store(new)
            try expectEqual(try await test.settle(claim, .ok(old.id)), .stale, "result")
            try expect(!(try await test.canMark(claim)), "a claim of a pruned push was marked")
            _ = try await test.claim(new)
            try expect(!(try await test.canMark(claim)), "a claim of a pruned push was marked")
            try await test.expectState(new, .claimed)
        },
        ConformanceCase("An idempotency key is kept until its push is settled, and for its retention after that") {
            test in
            let keys = Retention(outcomes: .zero, idempotencyKeys: test.fixture.tick * 5)
            let scheduled = try test.push(due: test.inTicks(1_000), key: "order-1")
            let parked = try test.push(key: "order-2")
            try await test.store(scheduled)
            try await ParkCases.park(parked, test)
            await test.advance(20)
            try await test.reopen()
            try expectEqual(try await test.queue.prune(keys, limit: 100), 0, "deleted while the pushes wait")
            for (first, key) in [(scheduled, "order-1"), (parked, "order-2")] {
                let again = try test.push(key: key)
                let results = try await test.queue.enqueue([again], isPartial: false)
                try expectEqual(results, [.duplicate(of: first.id)], "results")
            }
            // The outcome is deleted first, and the key stays known.
            _ = try await test.queue.cancel(scheduled.id)
            await test.advance(1)
            try expectEqual(try await test.queue.prune(keys, limit: 100), 1, "deleted outcomes")
            let results = try await test.queue.enqueue([try test.push(key: "order-1")], isPartial: false)
            try expectEqual(results, [.duplicate(of: scheduled.id)], "results")
            await test.advance(5)
            try expectEqual(try await test.queue.prune(keys, limit: 100), 1, "deleted keys")
            try await test.store(try test.push(key: "order-1"))
        },
        ConformanceCase("The keys of pushes that wait do not delay the deletion of other keys") { test in
            let keys = Retention(idempotencyKeys: .zero)
            for number in 0..<20 {
                try await test.store(try test.push(due: test.inTicks(1_000), key: "later-\(number)"))
            }
            let push = try test.push(key: "now")
            try await test.complete(push)
            await test.advance(1)
            try expectEqual(try await test.queue.prune(keys, limit: 1), 1, "deleted")
            try await test.store(try test.push(key: "now"))
            try expectEqual(try await test.queue.prune(keys, limit: 100), 0, "deleted by a second call")
        },
        ConformanceCase("Parked pushes that are too old are dropped") { test in
            let old = try test.push()
            let outcome = try await ParkCases.park(old, test)
            await test.advance(10)
            let young = try test.push()
            try await ParkCases.park(young, test)
            let retention = Retention(parked: test.fixture.tick * 5)
            try expectEqual(try await test.queue.prune(retention, limit: 100), 1, "dropped")
            try await test.expectState(old, .settled, outcome)
            try await test.expectState(young, .parked)
            try expectEqual(try await test.feed().map(\.push.id), [old.id], "feed")
        },
        ConformanceCase("A call deletes no more than its limit") { test in
            for number in 0..<5 { try await test.complete(try test.push(key: "order-\(number)")) }
            await test.advance(1)
            let nothing = Retention(outcomes: .zero, idempotencyKeys: .zero)
            var deleted: [Int] = []
            while deleted.last != 0, deleted.count < 20 {
                deleted.append(try await test.queue.prune(nothing, limit: 3))
                try expect(deleted.allSatisfy { $0 <= 3 }, "more was deleted than the limit: \(deleted)")
            }
            try expectEqual(deleted.reduce(0, +), 10, "deleted outcomes and keys")
            try expectEqual(try await test.feed().count, 0, "outcomes")
            try await test.store(try test.push(key: "order-0"))
            for limit in [0, -1] {
                try expectEqual(try await test.queue.prune(nothing, limit: limit), 0, "deleted with limit \(limit)")
            }
        },
        ConformanceCase("Unsettled pushes are never pruned") { test in
            for _ in 0..<4 { try await test.store(try test.push(key: "\(APNSID.random())")) }
            let claims = try await test.claim(2).map(\.claim)
            try await test.mark(try unwrap(claims.first, "claim"))
            await test.advance(10)
            let nothing = Retention(outcomes: .zero, idempotencyKeys: .zero, parked: .zero)
            _ = try await test.queue.prune(nothing, limit: 100)
            let counts = try await test.queue.counts()
            try expectEqual([counts.queued, counts.claimed, counts.written], [2, 1, 1], "counts")
            try expectEqual(try await test.claim().count, 2, "claims")
        },
    ]
}
