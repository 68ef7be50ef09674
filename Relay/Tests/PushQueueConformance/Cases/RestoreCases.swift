import APNSModel
import PushQueue

/// What becomes of pushes whose queue was restored from a backup.
enum RestoreCases {
    static let all: [ConformanceCase] =
        [false, true].flatMap { resends in
            [
                ConformanceCase(
                    "After a restore, pushes that are due or in flight "
                        + (resends ? "may be sent again, and keep their marks" : "are parked, and keep their marks")
                ) { test in try await Self.parks(test, resends: resends) },
                ConformanceCase(
                    "After a restore that parks nothing, claims end as after a crash"
                        + (resends ? ", and are sent again" : "")
                ) { test in try await Self.sends(test, resends: resends) },
            ]
        } + [
            ConformanceCase("After a restore, a page that begins with older outcomes names the new generation") {
                test in
                for _ in 0..<2 { try await test.complete(try test.push()) }
                let kept = try await Self.page(test)
                try expectEqual(kept.generation, kept.entries.first?.cursor.generation, "generation before")
                _ = try await test.restore(.park)
                try await test.complete(try test.push())
                let page = try await Self.page(test)
                try expectEqual(page.entries.first?.cursor, kept.entries.first?.cursor, "first cursor")
                try expectEqual(page.generation, page.entries.last?.cursor.generation, "generation")
                try expect(page.generation != kept.generation, "the generation is the one from before")
            }
        ]

    private static func page(_ test: Harness) async throws -> FeedPage {
        try await test.queue.outcomes(after: nil, apps: nil, kind: .outcomes, limit: 10)
    }

    /// A push, its marks so far, and its claim if it is in flight.
    private struct Doubtful {
        var push: NewPush
        var marks = 0
        var claim: Claim?
    }

    /// Pushes that are due, claimed or written, of a route each, so that each can be claimed.
    private static func prepare(_ test: Harness, resends: Bool) async throws -> [Doubtful] {
        func push(_ caller: String) async throws -> NewPush {
            let push = try test.push(resendsUnknown: resends, caller: caller)
            try await test.store(push)
            return push
        }
        /// Marks a push whose attempt has no effect.
        func attempt(_ push: NewPush) async throws {
            let claim = try await test.write(push)
            try await test.queue.release([
                Release(claim: claim, notBefore: test.now, outcome: .notProcessed(push.id))
            ])
        }
        var pushes = [Doubtful(push: try await push("queued"))]
        pushes.append(Doubtful(push: try await push("tried"), marks: 1))
        try await attempt(pushes[1].push)
        // In this order, so that a claimed push is before a written one and after another.
        for (caller, attempts, isWritten) in [("written", 0, true), ("claimed", 0, false), ("written again", 1, true)] {
            var doubtful = Doubtful(push: try await push(caller), marks: attempts + (isWritten ? 1 : 0))
            for _ in 0..<attempts { try await attempt(doubtful.push) }
            doubtful.claim = try await isWritten ? test.write(doubtful.push) : test.claim(doubtful.push)
            pushes.append(doubtful)
        }
        return pushes
    }

    private static func parks(_ test: Harness, resends: Bool) async throws {
        let pushes = try await Self.prepare(test, resends: resends)
        let later = try test.push(due: test.inTicks(1_000), resendsUnknown: resends, caller: "later")
        try await test.store(later)
        let restore = try await test.restore(.park)
        try expectEqual(
            restore,
            QueueRestore(parked: resends ? [:] : [Harness.route.destination: pushes.count]),
            "restore"
        )
        let counts = try await test.queue.counts()
        try expectEqual(
            [counts.queued, counts.claimed, counts.written, counts.parked],
            resends ? [pushes.count + 1, 0, 0, 0] : [1, 0, 0, pushes.count],
            "numbers of pushes"
        )
        // No claim is left that could end.
        await test.advance(Harness.longLease + 1)
        try expectEqual(try await test.queue.expireLeases(), ExpiredLeases(), "ended claims")
        for doubtful in pushes {
            let (push, name) = (doubtful.push, doubtful.push.route.caller)
            let status = try await test.status(push)
            try expectEqual(status.state, resends ? .queued : .parked, "state of \(name)")
            try expectEqual(status.attempts, doubtful.marks, "attempts of \(name)")
            try expectEqual(status.outcome?.certainty, .unknown, "certainty of \(name)")
            try expectEqual(status.outcome?.error?.attempts, doubtful.marks, "attempts in the outcome of \(name)")
            // An outcome of the lost time counts only if the push was accepted.
            if let claim = doubtful.claim {
                try expectEqual(try await test.settle(claim, .rejected(push.id)), .stale, "late outcome of \(name)")
            }
            if resends {
                let claimed = try unwrap(try await test.claim(1, route: push.route).first, "claim of \(name)")
                try expect(claimed.mayBeProcessed, "mayBeProcessed of \(name) is false")
                try expectEqual(claimed.attempts, doubtful.marks, "attempts of the claim of \(name)")
            }
            if let claim = doubtful.claim {
                try expectEqual(try await test.settle(claim, .ok(push.id)), .settled, "accepted \(name)")
            }
        }
        try await test.expectState(later, .queued)
        try expectEqual(try await test.status(later).outcome, nil, "outcome of a push that is not due")
    }

    private static func sends(_ test: Harness, resends: Bool) async throws {
        let pushes = try await Self.prepare(test, resends: resends)
        try expectEqual(try await test.restore(.send), QueueRestore(), "restore")
        await test.advance(Harness.longLease + 1)
        _ = try await test.queue.expireLeases()
        for doubtful in pushes {
            let (push, name) = (doubtful.push, doubtful.push.route.caller)
            let status = try await test.status(push)
            let isLost = doubtful.claim != nil && doubtful.marks > 0
            try expectEqual(status.state, isLost && !resends ? .settled : .queued, "state of \(name)")
            try expectEqual(status.attempts, doubtful.marks, "attempts of \(name)")
            guard isLost else { continue }
            try expectEqual(status.outcome, .lost(push.id, attempts: doubtful.marks), "outcome of \(name)")
        }
        try expectEqual(try await test.queue.counts().parked, 0, "parked pushes")
    }
}
