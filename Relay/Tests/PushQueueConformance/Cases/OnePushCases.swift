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
    ]
}
