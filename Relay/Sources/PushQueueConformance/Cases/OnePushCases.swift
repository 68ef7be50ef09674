import APNSModel
import PushQueue

/// Status and cancel.
enum OnePushCases {
    static let all = [
        ConformanceCase("An unknown push has no status and cannot be cancelled") { test in
            try expect(try await test.queue.status(of: .random()) == nil, "an unknown push has a status")
            try expectEqual(try await test.queue.cancel(.random()), .notFound, "result of cancel")
        },
        ConformanceCase("A push keeps its metadata and its idempotency key") { test in
            let metadata = #"{"order": "4711", "lines": [1, 2.50, "\u0000é"]}"#
            let push = try test.push(key: "order", metadata: metadata)
            let other = try test.push(key: "order", caller: "bank")
            try await test.store(push, other)
            let waiting = try unwrap(try await test.queue.status(of: push.id), "status")
            try expectEqual([waiting.idempotencyKey, waiting.metadata], ["order", metadata], "key and metadata")
            _ = try await test.settle(test.write(push), .rejected(push.id))
            let settled = try unwrap(try await test.queue.status(of: push.id), "status")
            try expectEqual([settled.idempotencyKey, settled.metadata], ["order", metadata], "key and metadata")
            let entry = try unwrap(try await test.feed().first, "entry").push
            try expectEqual([entry.idempotencyKey, entry.metadata], ["order", metadata], "key and metadata")
            let bare = try test.push()
            try await test.store(bare)
            let none = try unwrap(try await test.queue.status(of: bare.id), "status")
            try expectEqual(
                [none.idempotencyKey, none.metadata],
                [nil, nil],
                "no key and metadata"
            )
        },
        ConformanceCase("A push is found by its caller and idempotency key") { test in
            let push = try test.push(key: "order")
            let other = try test.push(key: "order", caller: "bank")
            try await test.store(push, other)
            _ = try await test.settle(test.write(push), .ok(push.id))
            try expectEqual(try await test.queue.id(ofKey: "order", caller: "shop"), push.id, "id of the settled push")
            try expectEqual(try await test.queue.id(ofKey: "order", caller: "bank"), other.id, "id of the other push")
            try expectEqual(try await test.queue.id(ofKey: "order-1", caller: "shop"), nil, "id of an unknown key")
            try expectEqual(try await test.queue.id(ofKey: "order", caller: "nobody"), nil, "id for an unknown caller")
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
