import APNSModel
import PushQueue

/// Status and cancel.
enum OnePushCases {
    static let all = [
        ConformanceCase("An unknown push has no status and cannot be cancelled") { test in
            try expect(try await test.queue.status(of: .random()) == nil, "an unknown push has a status")
            try expectEqual(try await test.queue.cancel(.random()), .notFound, "result of cancel")
        },
        ConformanceCase("A queued push can be cancelled") { test in
            let push = try test.push()
            try await test.store(push)
            try expectEqual(try await test.queue.cancel(push.id), .cancelled, "result")
            try await test.expectState(push, .settled, .cancelled(push.id))
            try expectEqual(try await test.claim().count, 0, "claims")
            try expectEqual(try await test.feed().map(\.push.id), [push.id], "feed")
        },
        ConformanceCase("A claimed push can be cancelled, and is then not marked") { test in
            let push = try test.push()
            try await test.store(push)
            let claim = try await test.claim(push)
            try expectEqual(try await test.queue.cancel(push.id), .cancelled, "result")
            try expect(!(try await test.canMark(claim)), "a cancelled push was marked")
            let late = try await test.settle(claim, .notProcessed(push.id))
            try expectEqual(late, .alreadySettled(.cancelled(push.id)), "result of a late outcome")
        },
        ConformanceCase("A written push cannot be cancelled") { test in
            let push = try test.push()
            try await test.store(push)
            let claim = try await test.write(push)
            try expectEqual(try await test.queue.cancel(push.id), .written, "result")
            try await test.expectState(push, .written)
            try expectEqual(try await test.settle(claim, .ok(push.id)), .settled, "result of settle")
        },
        ConformanceCase("A parked push can be cancelled") { test in
            let push = try test.push()
            let outcome = try await ParkCases.park(push, test)
            try expectEqual(try await test.queue.cancel(push.id), .cancelled, "result")
            let expected = PushOutcome.cancelled(push.id, attempts: 1).merged(with: outcome)
            try await test.expectState(push, .settled, expected)
            try expectEqual(try await test.queue.parked(after: nil, limit: 10).count, 0, "parked pushes")
        },
        ConformanceCase("A settled push keeps its outcome when it is cancelled") { test in
            let push = try test.push()
            try await test.complete(push, .rejected(push.id))
            try expectEqual(try await test.queue.cancel(push.id), .settled(.rejected(push.id)), "result")
        },
    ]
}
