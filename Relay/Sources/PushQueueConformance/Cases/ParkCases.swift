import APNSModel
import PushQueue

enum ParkCases {
    static let all = [
        ConformanceCase("A parked push is not claimed, and shows the outcome of its attempts") { test in
            let push = try test.push()
            let outcome = try await Self.park(push, test)
            let status = try await test.status(push)
            try expectEqual(status.state, .parked, "state")
            try expectEqual(status.outcome, outcome, "outcome")
            try expectEqual(status.attempts, 1, "attempts")
            try expectEqual(try await test.claim().count, 0, "claims of a parked push")
            try expectEqual(try await test.queue.parked(after: nil, limit: 10).map(\.id), [push.id], "parked pushes")
            try expectEqual(try await test.feed().count, 0, "outcomes in the feed")
        },
        ConformanceCase("A parked push is never overdue") { test in
            let push = try test.push(deadline: test.inTicks(10))
            try await Self.park(push, test)
            await test.advance(20)
            try expectEqual(try await test.queue.settleOverdue(limit: 100), 0, "overdue pushes")
            try await test.expectState(push, .parked)
        },
        ConformanceCase("A parked push that is retried is due at once, with its attempts counted from zero") { test in
            let push = try test.push()
            let outcome = try await Self.park(push, test)
            try expect(try await test.queue.retryParked(push.id), "the push was not parked")
            let status = try await test.status(push)
            try expectEqual(status.state, .queued, "state")
            try expectEqual(status.attempts, 0, "attempts")
            try expectEqual(status.outcome, outcome, "outcome")
            try expect(!(try await test.queue.retryParked(push.id)), "a queued push was retried")
            let claim = try await test.write(push)
            try expectEqual(try await test.settle(claim, .ok(push.id)), .settled, "result")
        },
        ConformanceCase(
            "A parked push that is retried during an implausible jump stays due after the clock is corrected",
            needs: [.implausibleJump]
        ) { test in
            let push = try test.push(deadline: test.inTicks(1_000))
            try await Self.park(push, test)
            await test.fixture.jumpImplausibly(by: test.fixture.tick * 100)
            try expect(try await test.queue.retryParked(push.id), "the push was not parked")
            await test.fixture.jumpImplausibly(by: .zero - test.fixture.tick * 100)
            _ = try await test.claim(push)
        },
        ConformanceCase("The deadline of a parked push counts again once it is retried") { test in
            let push = try test.push(deadline: test.inTicks(10))
            let outcome = try await Self.park(push, test)
            await test.advance(20)
            try expect(try await test.queue.retryParked(push.id), "the push was not parked")
            try expectEqual(try await test.claim().count, 0, "claims of an overdue push")
            _ = try await test.queue.settleOverdue(limit: 100)
            try await test.expectState(push, .settled)
            try expectEqual(try await test.status(push).outcome?.certainty, outcome.certainty, "certainty")
        },
        ConformanceCase("A parked push that is dropped has the outcome of its attempts") { test in
            let push = try test.push()
            let outcome = try await Self.park(push, test)
            try expect(try await test.queue.dropParked(push.id), "the push was not parked")
            try await test.expectState(push, .settled, outcome)
            try expectEqual(try await test.feed().map(\.push.id), [push.id], "outcomes in the feed")
            try expect(!(try await test.queue.dropParked(push.id)), "a settled push was dropped")
            try expect(!(try await test.queue.retryParked(push.id)), "a settled push was retried")
        },
        ConformanceCase("Only parked pushes are retried or dropped") { test in
            let push = try test.push()
            try await test.store(push)
            for id in [push.id, .random()] {
                try expect(!(try await test.queue.retryParked(id)), "a push that is not parked was retried")
                try expect(!(try await test.queue.dropParked(id)), "a push that is not parked was dropped")
            }
            try await test.expectState(push, .queued)
        },
        ConformanceCase("Several parked pushes are retried or dropped in one call") { test in
            var pushes: [NewPush] = []
            for _ in 0..<4 {
                pushes.append(try test.push())
                try await Self.park(pushes[pushes.count - 1], test)
            }
            let queued = try test.push(due: test.inTicks(1_000))
            try await test.store(queued)
            let retried = try await test.queue.retryParked([
                pushes[2].id, queued.id, .random(), pushes[0].id, pushes[2].id,
            ])
            try expectEqual(retried, [true, false, false, true, false], "retried")
            let dropped = try await test.queue.dropParked([pushes[0].id, pushes[1].id, pushes[1].id])
            try expectEqual(dropped, [false, true, false], "dropped")
            try expectEqual(try await test.queue.retryParked([]), [], "results of an empty call")
            try expectEqual(try await test.queue.dropParked([]), [], "results of an empty call")
            let states = [PushStatus.State.queued, .settled, .queued, .parked]
            for (push, state) in zip(pushes, states) { try await test.expectState(push, state) }
        },
        ConformanceCase("A claim that has ended parks nothing") { test in
            let push = try test.push()
            try await test.store(push)
            let old = try await test.claim(push)
            try await test.queue.release([Release(claim: old, notBefore: test.now)])
            try await test.queue.park([Settlement(claim: old, outcome: .notProcessed(push.id))])
            try await test.expectState(push, .queued)
            let new = try await test.claim(push)
            try await test.queue.park([Settlement(claim: old, outcome: .notProcessed(push.id))])
            try await test.expectState(push, .claimed)
            try await test.mark(new)
        },
        ConformanceCase("Parked pushes are listed in pages, in the order in which they were stored") { test in
            var pushes: [NewPush] = []
            for _ in 0..<5 { pushes.append(try test.push()) }
            try await test.store(pushes)
            let claims = try await test.claim()
            for claim in claims.reversed() {
                let outcome = PushOutcome.notProcessed(claim.claim.id)
                try await test.queue.park([Settlement(claim: claim.claim, outcome: outcome)])
            }
            var ids: [APNSID] = []
            while true {
                let page = try await test.queue.parked(after: ids.last, limit: 2)
                try expect(page.count <= 2, "more pushes than the limit")
                try expect(page.allSatisfy { $0.state == .parked }, "a listed push is not parked")
                guard let last = page.last else { break }
                ids += page.map(\.id)
                // The last push of a page may be gone before the next page is read.
                _ = try await test.queue.dropParked(last.id)
            }
            try expectEqual(ids, pushes.map(\.id), "parked pushes")
        },
        ConformanceCase("A parked push that may have been processed ends as unknown when it is dropped") { test in
            let push = try test.push(resendsUnknown: true)
            try await test.store(push)
            let unknown = PushOutcome.lostConnection(push.id)
            try await test.queue.release([
                Release(claim: try await test.write(push), notBefore: test.now, outcome: unknown)
            ])
            let claim = try await test.write(push)
            try await test.queue.park([Settlement(claim: claim, outcome: .rejected(push.id, status: 403))])
            try expect(try await test.queue.dropParked(push.id), "the push was not parked")
            let expected = PushOutcome.rejected(push.id, status: 403).merged(with: unknown)
            try await test.expectState(push, .settled, expected)
            try expectEqual(expected.certainty, .unknown, "certainty")
        },
    ]

    /// Stores, claims, marks and parks a push.
    @discardableResult
    static func park(_ push: NewPush, _ test: Harness) async throws -> PushOutcome {
        try await test.store(push)
        let claim = try await test.write(push)
        let outcome = PushOutcome.rejected(push.id, status: 403, reason: .invalidProviderToken)
        try await test.queue.park([Settlement(claim: claim, outcome: outcome)])
        return outcome
    }
}
