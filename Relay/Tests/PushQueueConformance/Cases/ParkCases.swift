import APNSModel
import PushQueue

enum ParkCases {
    static let all = [
        ConformanceCase(
            "A parked push that is retried during an implausible jump stays due after the clock is corrected"
        ) { test in
            let push = try test.push(deadline: test.inTicks(1_000))
            try await Self.park(push, test)
            await test.fixture.jumpImplausibly(by: test.fixture.tick * 100)
            try expect(try await test.queue.retryParked(push.id), "the push was not parked")
            await test.fixture.jumpImplausibly(by: .zero - test.fixture.tick * 100)
            _ = try await test.claim(push)
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
