import APNSModel
import PushQueue
import Synchronization

/// Routes of batches.
enum BatchCases {
    private static func route(_ batch: APNSID? = .random()) -> Route {
        Route(app: "fern", environment: "production", lane: .bulk, caller: "shop", batch: batch)
    }

    private static func outcomes(_ route: Route, _ test: Harness) async throws -> [Certainty: Int] {
        try unwrap(try await test.queue.batchCounts(of: [route]).first, "counts").outcomes
    }

    static let all = [
        ConformanceCase("Each batch has a route of its own") { test in
            let (first, second, none) = (Self.route(), Self.route(), Self.route(nil))
            var pushes: [Route: NewPush] = [:]
            for route in [first, second, none] { pushes[route] = try test.push(route) }
            try await test.store(pushes.values.map { $0 })
            try expectEqual(Set(try await test.queue.queuedRoutes().map(\.route)), Set(pushes.keys), "queued routes")
            try expectEqual(Set(try await test.queue.counts().routes.map(\.route)), Set(pushes.keys), "counted routes")
            for (route, push) in pushes {
                let status = try unwrap(try await test.queue.status(of: push.id), "status")
                try expectEqual(status.route, route, "route")
                let claimed = try await test.claim(route: route)
                try expectEqual(claimed.map(\.claim.id), [push.id], "claims")
                _ = try await test.queue.markWritten(claimed.map(\.claim), lease: test.lease)
                _ = try await test.settle(claimed[0].claim, .ok(push.id))
            }
            let settled = try await test.feed()
            for entry in settled { try expectEqual(pushes[entry.push.route]?.id, entry.push.id, "route in the feed") }
            try await test.crash()
            try expectEqual(try await test.queue.status(of: settled[0].push.id)?.route, settled[0].push.route, "route")
        },
        ConformanceCase("The outcomes of a batch are counted, also after they were pruned") { test in
            let (batch, other) = (Self.route(), Self.route())
            try expectEqual(try await Self.outcomes(batch, test), [:], "counts of an unknown batch")
            let pushes = try (0..<6).map { _ in try test.push(batch) }
            try await test.store(pushes + [try test.push(other), try test.push()])
            let claims = try await test.claim(4, route: batch).map(\.claim)
            _ = try await test.queue.markWritten(claims, lease: test.lease)
            let outcomes: [PushOutcome] = [
                .ok(claims[0].id), .ok(claims[1].id), .rejected(claims[2].id), .notProcessed(claims[3].id),
            ]
            _ = try await test.queue.settle(zip(claims, outcomes).map { Settlement(claim: $0, outcome: $1) })
            _ = try await test.queue.cancel(pushes[5].id)
            let expected: [Certainty: Int] = [.accepted: 2, .rejected: 1, .notProcessed: 1, .notSent: 1]
            try expectEqual(try await Self.outcomes(batch, test), expected, "counts")
            await test.advance(10)
            _ = try await test.queue.prune(Retention(outcomes: test.fixture.tick * 5), limit: 100)
            try await test.crash()
            try expectEqual(try await Self.outcomes(batch, test), expected, "counts after the pruning")
            try expectEqual(try await Self.outcomes(other, test), [:], "counts of the other batch")
            try expectEqual(try await Self.outcomes(Harness.route, test), [:], "counts without a batch")
        },
        ConformanceCase("The counts of a batch add up at every moment, and name its dead tokens") { test in
            let batches = [Self.route(), Self.route()]
            let pushes = try (0..<240).map { try test.push(batches[$0 % 2]) }
            try await test.store(pushes + [try test.push()])
            try expectEqual(
                try await test.queue.batchCounts(of: [Self.route(), Harness.route] + batches).map(\.total),
                [0, 0, 120, 120],
                "totals"
            )
            let isOver = Atomic(false)
            async let work: Void = {
                defer { isOver.store(true, ordering: .relaxed) }
                for round in 0..<40 {
                    for batch in batches {
                        let claims = try await test.claim(3, route: batch).map(\.claim)
                        _ = try await test.queue.markWritten(claims, lease: test.lease)
                        let gone = Rejection(status: 410, reason: .unregistered, timestamp: 1_700_000_000_000)
                        _ = try await test.queue.settle([
                            Settlement(claim: claims[0], outcome: .ok(claims[0].id)),
                            Settlement(claim: claims[1], outcome: .failed(.rejected(gone, attempts: 1))),
                        ])
                        if round.isMultiple(of: 2) {
                            try await test.queue.release([Release(claim: claims[2], notBefore: test.now)])
                            continue
                        }
                        try await test.queue.park([Settlement(claim: claims[2], outcome: .notProcessed(claims[2].id))])
                    }
                }
            }()
            while !isOver.load(ordering: .relaxed) {
                for count in try await test.queue.batchCounts(of: batches) {
                    try expectEqual(count.total, 120, "the sum of \(count)")
                }
            }
            try await work
            for count in try await test.queue.batchCounts(of: batches) {
                try expectEqual(count.outcomes, [.accepted: 40, .rejected: 40], "outcomes")
                try expectEqual([count.deadTokens, count.pushes.queued, count.pushes.parked], [40, 20, 20], "counts")
            }
        },
        ConformanceCase("All pushes of a batch that are not being sent are cancelled at once") { test in
            let (batch, other) = (Self.route(), Self.route())
            let pushes = try (0..<8).map { number in
                try test.push(batch, due: number < 5 ? test.now : test.inTicks(100))
            }
            let others = [try test.push(other), try test.push()]
            try await test.store(pushes + others)
            let claims = try await test.claim(3, route: batch).map(\.claim)
            _ = try await test.queue.markWritten([claims[0], claims[2]], lease: test.lease)
            try await test.queue.park([Settlement(claim: claims[2], outcome: .notProcessed(claims[2].id))])
            // Six are left: four due or later ones, and the parked one; two are claimed or written.
            try expectEqual(try await test.queue.cancelAll(batch, limit: 4), 4, "result of the first call")
            try expectEqual(try await test.queue.cancelAll(batch, limit: 4), 2, "result of the second call")
            try expectEqual(try await test.queue.cancelAll(batch, limit: 4), 0, "result of the third call")
            try expectEqual(try await test.queue.cancelAll(Self.route(), limit: 4), 0, "result for an unknown batch")
            try expectEqual(try await test.feed().count, 6, "outcomes")
            for entry in try await test.feed() {
                let isParked = entry.push.id == claims[2].id
                try expectEqual(entry.push.outcome?.certainty, isParked ? .notProcessed : .notSent, "certainty")
                if !isParked { try expectEqual(entry.push.outcome, .cancelled(entry.push.id), "outcome") }
            }
            let counts = try await test.queue.counts()
            try expectEqual([counts.queued, counts.claimed, counts.written, counts.parked], [2, 1, 1, 0], "counts")
            try await test.queue.release([Release(claim: claims[1], notBefore: test.now)])
            try expectEqual(try await test.queue.cancelAll(batch, limit: 4), 1, "result after the release")
            try expectEqual(try await test.settle(claims[0], .ok(claims[0].id)), .settled, "result of settle")
        },
        ConformanceCase("The route of a batch is forgotten, and may come back") { test in
            let batch = Self.route()
            let push = try test.push(batch)
            try await test.store(push)
            // A route that has pushes is not forgotten.
            try await test.queue.forget(batch)
            try expectEqual(try await test.queue.cancelAll(batch, limit: 10), 1, "result of cancelAll")
            await test.advance(10)
            _ = try await test.queue.prune(Retention(outcomes: test.fixture.tick * 5), limit: 100)
            try await test.queue.forget(batch)
            try await test.queue.forget(batch)
            try expectEqual(try await Self.outcomes(batch, test), [:], "counts")
            let again = try test.push(batch)
            try await test.store(again)
            try expectEqual(try await test.claim(route: batch).map(\.claim.id), [again.id], "claims")
        },
    ]
}
